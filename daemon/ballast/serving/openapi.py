"""The OpenAPI document of `/api/v1`, generated from the types that the handlers encode."""

from typing import Any

from msgspec.json import schema_components

from ballast import __version__
from ballast.answers import api, evictions, ledger_answer, views

Schema = dict[str, Any]

ANSWERS: dict[str, Any] = {
    "status": api.Status,
    "nodes": api.Nodes,
    "node": api.NodeDetail,
    "pod_scores": api.PodScores,
    "cycles": list[api.CycleRecord],
    "config": list[api.Setting],
    "power": api.Power,
    "plans": list[evictions.Plan],
    "evictions": evictions.Evictions,
    "fleet": views.FleetNames,
    "fleet_loads": views.FleetLoads,
    "overview": views.Overview,
    "ledger": ledger_answer.LedgerAnswer,
    "history": views.SpreadHistory,
    "node_history": views.NodeHistory,
    "node_score": views.NodeScore,
    "node_pods": list[views.PodOnNode],
    "pods": list[views.FoundPod],
    "explain": views.Explanation,
    "plan_summaries": list[views.PlanSummary],
    "plan": evictions.Plan,
    "openapi": Schema,
    "error": api.Error,
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
_FIND = {"name": "find", "in": "query", "schema": _STRING, "description": "part of namespace/name"}
_AT = {
    "name": "at",
    "in": "query",
    "schema": {"type": "number"},
    "description": "Unix time in the last 24 hours: means over the five minutes around it",
}
_DAYS = {
    "name": "days",
    "in": "query",
    "schema": {"type": "integer"},
    "description": "1 to 90: that many days, from a Prometheus that scrapes Ballast",
}
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
        "/api/v1/fleet": _get("fleet", "All nodes in columns: names, pools, zones", _503=_NO_DATA),
        "/api/v1/fleet/loads": _get(
            "fleet_loads",
            "All nodes in columns: loads, scores and states, now or in the last 24 hours",
            _WINDOW,
            _AT,
            _400="no such window, or a time that is not kept",
            _503=_NO_DATA,
        ),
        "/api/v1/overview": _get("overview", "Is the cluster balanced, and what was done today", _503=_NO_DATA),
        "/api/v1/ledger": _get(
            "ledger", "What was done and missed, by hour of two days and day of ninety", _503="it cannot be read now"
        ),
        "/api/v1/history": _get("history", "The last 24 hours of the cluster"),
        "/api/v1/nodes/{name}/history": _get(
            "node_history",
            "The last 24 hours of a node, or more from Prometheus",
            _NAME,
            _DAYS,
            _400="days is no whole number from 1 to 90",
            _404="no such node, or Prometheus has nothing of it",
            _503="Prometheus does not answer",
        ),
        "/api/v1/nodes/{name}/score": _get("node_score", "The terms of a node's score", _NAME, _404="no such node"),
        "/api/v1/nodes/{name}/pods": _get("node_pods", "The pods on a node", _NAME),
        "/api/v1/pods": _get("pods", "Pods whose namespace/name contains a text, at most 20", _FIND),
        "/api/v1/pods/{namespace}/{name}/explain": _get(
            "explain",
            "Whether a pod may be moved: every check",
            _NAMESPACE,
            _NAME,
            _404="no such pod",
            _503="it cannot be said now",
        ),
        "/api/v1/plans/summaries": _get("plan_summaries", "Recent eviction plans without their steps, newest first"),
        "/api/v1/plans/{name}": _get("plan", "One eviction plan by its id", _NAME, _404="no such plan"),
        "/api/v1/openapi.json": _get("openapi", "This document"),
    },
    "components": {"schemas": _components},
}
