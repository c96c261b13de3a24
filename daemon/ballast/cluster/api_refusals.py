"""Turns the API server's refusals into the exception tree, each with the next step for whoever reads it."""

import re
from collections.abc import Mapping
from urllib.parse import unquote

import msgspec

from ballast.base.errors import (
    NOT_JSON,
    ClusterError,
    Conflict,
    Forbidden,
    Gone,
    NotFound,
    TooManyRequests,
    Unauthorized,
)
from ballast.cluster.objects import wire

_PATH = re.compile(
    r"/(?:api/[^/]+|apis/(?P<group>[^/]+)/[^/]+)"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/[^/]+))?"
    r"/(?P<resource>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>.+))?"
)
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_STATUS = msgspec.json.Decoder(wire.ApiStatus)


def read_status(body: bytes) -> wire.ApiStatus:
    """The API's Status object, or one that quotes the beginning of a body that is none (a proxy's page, say)."""
    try:
        return _STATUS.decode(body)
    except NOT_JSON:
        return wire.ApiStatus(message=" ".join(body[:200].decode(errors="replace").split()))


def verb_of(method: str, path: str, query: Mapping[str, object]) -> str:
    """The RBAC verb a request needs."""
    if method in _VERBS:
        return _VERBS[method]
    match = _PATH.fullmatch(path)
    if match is None or match["name"]:
        return "get"
    return "watch" if "watch" in query else "list"


def rule_of(method: str, path: str, query: Mapping[str, object]) -> str:
    """A sentence naming what RBAC has to allow for a request."""
    verb = verb_of(method, path, query)
    match = _PATH.fullmatch(path)
    if match is None:
        return f"Ballast needs verb `{verb}` on the URL `{path}`."
    group = match["group"] or ""
    resource = match["resource"] + (f"/{match['sub']}" if match["sub"] else "")
    namespace = unquote(match["namespace"]) if match["namespace"] else None
    where = f"in namespace `{namespace}`" if namespace else "cluster-wide"
    rule = f'{{apiGroups: ["{group}"], resources: ["{resource}"], verbs: ["{verb}"]}}'
    role = f"a Role of namespace `{namespace}`" if namespace else "its ClusterRole"
    api = f"API group `{group}`" if group else "the core API group"
    return f"Ballast needs verb `{verb}` on `{resource}` ({api}) {where}; add {rule} to {role}."


def refusal(
    method: str, path: str, query: Mapping[str, object], status: int, headers: Mapping[str, str], body: bytes
) -> ClusterError:
    """The exception for an answer with a status of 400 or more (or an ERROR event of a watch)."""
    answer = read_status(body)
    causes = tuple(cause.reason for cause in (answer.details and answer.details.causes) or ())
    said = answer.message or f"HTTP status {status}"
    request = f"{method} {path}"
    if status == 401:
        return Unauthorized(
            f"The API server does not accept Ballast's credentials ({request}: {said}). They come from the file that "
            "BALLAST_CLUSTER__KUBECONFIG names, else KUBECONFIG, else the pod's service account.",
            status=status,
            reason=answer.reason,
        )
    evicts = path.endswith("/eviction") and answer.code == status
    # What RBAC refuses names the resource in its details (apimachinery NewForbidden); a webhook's answer has none.
    # Of a create RBAC knows no name; plugins of the API server, such as quotas and PodSecurity, name the object.
    by_rights = answer.details is not None and answer.details.kind and not ("dryRun" in query and answer.details.name)
    if status == 403 and (evicts or ("dryRun" in query and answer.code == status)) and not by_rights:
        return Forbidden(
            f"An admission webhook or policy refused {request}: {said}",
            status=status,
            reason=answer.reason,
            admission=True,
        )
    if status == 403:
        return Forbidden(
            f"{rule_of(method, path, query)} (The API server said: {said})",
            status=status,
            reason=answer.reason,
            causes=causes,
        )
    if status == 429:
        retry_after = _retry_after(headers, answer)
        # The API server itself says when to come again, or names a cause; a webhook's Status does neither.
        denied = evicts and retry_after is None and not causes
        return TooManyRequests(
            f"{'An admission webhook' if denied else 'The API server'} refused {request} for now: {said}",
            retry_after=retry_after,
            reason=answer.reason,
            causes=causes,
            admission=denied,
        )
    kind = {404: NotFound, 409: Conflict, 410: Gone}.get(status, ClusterError)
    return kind(f"{request}: {status} {said}", status=status, reason=answer.reason, causes=causes)


def _retry_after(headers: Mapping[str, str], answer: wire.ApiStatus) -> float | None:
    header = headers.get("Retry-After", "")
    if header.isascii() and header.isdigit():
        return float(header)
    seconds = answer.details.retry_after_seconds if answer.details else None
    return float(seconds) if seconds else None
