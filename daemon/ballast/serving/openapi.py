"""The OpenAPI document of `/api/v1`, generated from `api_types`; answers are tested against it."""

from __future__ import annotations

from typing import Any

from msgspec.json import schema_components

from ballast import __version__
from ballast.serving import api_types

Schema = dict[str, Any]

ANSWERS: dict[str, Any] = {
    "status": api_types.Status,
    "nodes": api_types.Nodes,
    "node": api_types.NodeDetail,
    "pod_scores": api_types.PodScores,
    "cycles": list[api_types.CycleRecord],
    "config": list[api_types.Setting],
    "power": api_types.Power,
    "plans": list[api_types.Plan],
    "evictions": api_types.Evictions,
    "openapi": Schema,
    "error": api_types.Error,
}
"""The type of each operation's answer, by operationId; `error` is that of every error."""

_schemas, _components = schema_components(ANSWERS.values(), ref_template="#/components/schemas/{name}")
_schema_of = dict(zip(ANSWERS, _schemas, strict=True))

_STRING = {"type": "string"}
_WINDOW = {
    "name": "window",
    "in": "query",
    "schema": _STRING,
    "description": "a length as spelled in the settings, e.g. 5m",
}
_NAME = {"name": "name", "in": "path", "required": True, "schema": _STRING}
_NAMESPACE = _NAME | {"name": "namespace"}
_NO_DATA = "no cycle has ended yet"


def _response(description: str, answer: str) -> Schema:
    return {"description": description, "content": {"application/json": {"schema": _schema_of[answer]}}}


def _get(identifier: str, summary: str, *parameters: Schema, **errors: str) -> Schema:
    """A path that answers GET; `errors` are descriptions by status, as `_404=`."""
    responses = {"200": _response("OK", identifier)} | {
        status.removeprefix("_"): _response(description, "error") for status, description in errors.items()
    }
    return {
        "get": {"operationId": identifier, "summary": summary, "parameters": list(parameters), "responses": responses}
    }


DOCUMENT: Schema = {
    "openapi": "3.1.0",
    "info": {"title": "Ballast", "version": __version__, "description": "What Ballast knows and does. Read only."},
    "paths": {
        "/api/v1/status": _get("status", "The daemon at a glance"),
        "/api/v1/nodes": _get("nodes", "All nodes over one window", _WINDOW, _400="no such window", _503=_NO_DATA),
        "/api/v1/nodes/{name}": _get("node", "One node over every window", _NAME, _404="no such node", _503=_NO_DATA),
        "/api/v1/pods/{namespace}/{name}/scores": _get(
            "pod_scores", "The scores of every node for one pod", _NAMESPACE, _NAME, _404="no such pod"
        ),
        "/api/v1/cycles": _get("cycles", "Recent cycles, newest first"),
        "/api/v1/config": _get("config", "Every setting, secrets masked"),
        "/api/v1/power": _get("power", "Every power policy: its watts, state, targets and recent changes"),
        "/api/v1/plans": _get("plans", "Recent eviction plans, newest first"),
        "/api/v1/evictions": _get("evictions", "Recent evictions and their outcome, newest first"),
        "/api/v1/openapi.json": _get("openapi", "This document"),
    },
    "components": {"schemas": _components},
}
