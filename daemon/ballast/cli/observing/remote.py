"""A running daemon, over its address or over its Service by way of the Kubernetes API server."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import msgspec
import requests

from ballast.base.errors import BallastError, UsageError
from ballast.base.text import HIDDEN, printable, printable_document
from ballast.cli.place import NEAR, TIMEOUT, Place, namespace_of

if TYPE_CHECKING:
    from ballast.cluster.client import KubeApi

PORT = 2020


class NoAnswer(BallastError):
    """One request to the daemon failed; `status` is that of HTTP, 0 without an answer."""

    def __init__(self, reason: str, status: int = 0) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True)
class Remote:
    """`address` is what a person would call it; `get` takes a path such as `/api/v1/status` and raises NoAnswer."""

    address: str
    get: Callable[[str], bytes]
    cluster: KubeApi | None = None
    namespace: str | None = None

    def json(self, path: str) -> Any:
        """A decoded answer, its texts fit for a terminal. Raises NoAnswer also where it is no JSON."""
        try:
            return printable_document(msgspec.json.decode(self.get(path)))
        except msgspec.DecodeError:
            raise NoAnswer(f"the answer of {path} is not JSON") from None


def find(place: Place, timeout: float = TIMEOUT) -> Remote:
    """The daemon at the URL; without it that of this machine, unless a cluster is named, else that of the cluster.

    `timeout` is in seconds. Raises BallastError that names what was tried and the next step.
    """
    if place.url is not None:
        remote = _direct(place.url, timeout, place)
        if reason := _refusal(remote):
            raise BallastError(f"--url {place.url}: no Ballast daemon answers there ({reason}). {_next(place)}")
        return remote
    near, near_reason = _direct(NEAR, timeout, place), "not asked, because a cluster or a namespace is named"
    if not place.variables and not (near_reason := _refusal(near) or ""):
        return near
    try:
        remote = through_cluster(place, timeout)
        far_reason = _refusal(remote)
    except BallastError as error:
        remote, far_reason = near, str(error).rstrip(".")
    if not far_reason:
        return remote
    where = "the cluster" if remote is near else f"Service ballast in namespace {remote.namespace} of {_server(remote)}"
    raise BallastError(
        f"No Ballast daemon answers. Tried {NEAR} ({near_reason}), then {where} ({far_reason}). {_next(place)}"
    )


def through_cluster(place: Place, timeout: float = TIMEOUT) -> Remote:
    """The daemon behind the Service, with your rights. Raises BallastError without a way to it."""
    from ballast.base.errors import ClusterError

    api = place.connect()
    namespace = namespace_of(api, place)

    def get(path: str) -> bytes:
        failed: ClusterError | None = None
        for scheme in ("", "https:"):
            try:
                service = f"/api/v1/namespaces/{namespace}/services/{scheme}ballast:{PORT}"
                return api.get(f"{service}/proxy{path}", timeout=timeout)
            except ClusterError as error:
                failed = failed or error
                if error.status in (0, 401, 403, 404):
                    break
        assert failed is not None
        raise NoAnswer(str(failed).rstrip("."), failed.status) from failed

    return Remote(f"Service ballast in namespace {namespace} of {api.server}", get, api, namespace)


DAEMONS_TIMEOUT = 90.0
"""Seconds; the daemon may be planning when it is asked to explain."""


def daemons_plan(remote: Remote, kind: str) -> dict[str, Any]:
    """The latest plan of one kind. Raises BallastError if there is none."""
    of_kind: list[dict[str, Any]] = [plan for plan in remote.json("/api/v1/plans") if plan.get("kind") == kind]
    if not of_kind:
        raise BallastError(
            f"The daemon at {remote.address} has made no plan to {kind} yet. It makes one when {kind} is in "
            "BALLAST_EVICTION__PLANNERS and there is a reason to. See /api/v1/cycles for its cycles."
        )
    return max(of_kind, key=lambda plan: float(plan.get("time", 0)))


def daemons_explanation(remote: Remote, namespace: str, name: str) -> dict[str, Any]:
    """What the checks of a daemon say about a pod. Raises NoAnswer."""
    path = f"/api/v1/pods/{quote(namespace, safe='')}/{quote(name, safe='')}/explain"
    try:
        answer: dict[str, Any] = remote.json(path)
    except NoAnswer as error:
        why = f"The daemon at {remote.address} cannot explain {namespace}/{name}: {error}."
        raise NoAnswer(why, error.status) from None
    return answer


def settings_of(remote: Remote) -> dict[str, str]:
    """The settings of a daemon that are no defaults, as environment variables; without secrets and files of its pod.

    Raises NoAnswer.
    """
    return {
        row["name"]: row["value"] if isinstance(row["value"], str) else json.dumps(row["value"])
        for row in msgspec.json.decode(remote.get("/api/v1/config"))
        if row["origin"] != "default" and row["value"] is not None and not _bound(row["name"], row["value"])
    }


def _bound(name: str, value: object) -> bool:
    """Whether a setting is worth nothing on another machine."""
    hidden = HIDDEN in (value if isinstance(value, str) else json.dumps(value))
    return hidden or name.endswith(("_FILE", "__KUBECONFIG"))


def _direct(url: str, timeout: float, place: Place) -> Remote:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"--url {url} cannot be used: give the address of the page, such as {NEAR}.")
    base = url.rstrip("/")
    near = parts.hostname in ("localhost", "127.0.0.1", "::1")

    def get(path: str) -> bytes:
        try:
            with requests.Session() as session:
                session.trust_env = not near
                answer = session.get(f"{base}{path}", timeout=timeout)
                # BALLAST_HTTP__API_AUTH asks for a token of the cluster; it goes neither unasked nor in the clear.
                if answer.status_code == 401 and (near or parts.scheme == "https"):
                    session.headers.update(_own_token(place))
                    answer = session.get(f"{base}{path}", timeout=timeout)
        except requests.RequestException as error:
            raise NoAnswer(_reason(error, timeout)) from None
        if not answer.ok:
            raise NoAnswer(_read_error(answer), answer.status_code)
        return answer.content

    return Remote(base, get)


def _own_token(place: Place) -> dict[str, str]:
    """The header with the token of the kubeconfig; empty without one, or without a kubeconfig."""
    try:
        return place.connect().authorization()
    except BallastError:
        return {}


def _refusal(remote: Remote) -> str | None:
    """Why this is not a daemon that answers."""
    try:
        status = remote.json("/api/v1/status")
    except NoAnswer as error:
        return str(error)
    if not isinstance(status, Mapping) or "modes" not in status:
        return "something else than Ballast answers"
    return None


def _reason(error: requests.RequestException, timeout: float) -> str:
    if isinstance(error, requests.Timeout):
        return f"no answer within {timeout:g} s"
    if isinstance(error, requests.exceptions.SSLError):
        return "its certificate is not trusted; name its CA in REQUESTS_CA_BUNDLE"
    if isinstance(error, requests.ConnectionError):
        return "no connection"
    return str(error).rstrip(".")


def _read_error(answer: requests.Response) -> str:
    """The status, and the daemon's own word if there is one."""
    try:
        text = answer.json()["error"]
    except (ValueError, KeyError, TypeError):
        return f"HTTP {answer.status_code}"
    return f"HTTP {answer.status_code}: {printable(text)}"


def _server(remote: Remote) -> str:
    return remote.cluster.server if remote.cluster is not None else remote.address


def _next(place: Place) -> str:
    namespace = place.namespace or os.environ.get("BALLAST_LEASE__NAMESPACE") or "ballast"
    return (
        f"Run `kubectl{place.kubectl} -n {namespace} port-forward service/ballast {PORT}` and give --url {NEAR}, or "
        "give the namespace of Ballast with --namespace."
    )
