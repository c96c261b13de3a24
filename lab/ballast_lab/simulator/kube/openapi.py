"""A minimal OpenAPI v3 document: enough that `kubectl apply` leaves the validation to the server."""

from __future__ import annotations

from typing import Any

from ballast_lab.simulator.kube.kinds import KINDS, Kind


def index() -> dict[str, Any]:
    """`/openapi/v3`."""
    paths = {f"apis/{kind.api_version}" if kind.group else "api/v1" for kind in KINDS}
    return {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}"} for path in sorted(paths)}}


def document(path: str) -> dict[str, Any] | None:
    """`/openapi/v3/<path>`, or None if the group is not served."""
    group_version = path.removeprefix("apis/") if path.startswith("apis/") else "v1"
    served = [kind for kind in KINDS if kind.api_version == group_version]
    if not served or path not in index()["paths"]:
        return None
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "simulated"},
        "paths": dict(_path(path, kind) for kind in served),
    }


def _path(root: str, kind: Kind) -> tuple[str, dict[str, Any]]:
    scope = "namespaces/{namespace}/" if kind.namespaced else ""
    operation = {
        "parameters": [{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}],
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": {"group": kind.group, "version": kind.version, "kind": kind.name},
    }
    return f"/{root}/{scope}{kind.plural}/{{name}}", {"patch": operation}
