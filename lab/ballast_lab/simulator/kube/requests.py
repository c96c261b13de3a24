"""The verb and the resource of a request to the Kubernetes API, as RBAC sees them."""

from __future__ import annotations

from dataclasses import dataclass

_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True)
class Request:
    """What a method and a path ask for; absent parts are empty."""

    verb: str
    """The RBAC verb, such as "get" or "deletecollection"."""

    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    """The plural name; empty for discovery and health paths."""

    name: str = ""
    subresource: str = ""

    @property
    def full_resource(self) -> str:
        """`resource` or `resource/subresource`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def parse(method: str, path: str, *, watch: bool = False) -> Request:
    """Parses `/api/v1/…` and `/apis/<group>/<version>/…`; any other path gives a request without a resource."""
    verb = _VERBS.get(method, method.lower())
    parts = [part for part in path.split("/") if part]
    if parts[:1] == ["api"] and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return Request(verb)
    if rest[0] == "watch" and len(rest) > 1:
        watch, rest = True, rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    resource, name, subresource = (*rest, "", "")[:3]
    if verb == "get" and not name:
        verb = "watch" if watch else "list"
    elif verb == "get" and watch:
        verb = "watch"
    elif verb == "delete" and not name:
        verb = "deletecollection"
    return Request(verb, group, version, namespace, resource, name, subresource)
