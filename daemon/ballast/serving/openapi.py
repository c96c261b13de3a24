"""The OpenAPI document of `/api/v1`, also what its answers are tested against."""

from __future__ import annotations

from typing import Any

from ballast import __version__
from ballast.serving.activity import HISTORY, HISTORY_COLUMNS

Schema = dict[str, Any]


def _array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _map(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def _object(**properties: Schema) -> Schema:
    """An object that always has all of these and nothing else."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _open(required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    """An object that may have more than these."""
    return {"type": "object", "properties": properties, "required": list(required)}


def _nullable(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _described(schema: Schema, description: str) -> Schema:
    return schema | {"description": description}


STRING = {"type": "string"}
NUMBER = {"type": "number"}
INTEGER = {"type": "integer"}
BOOLEAN = {"type": "boolean"}
MAYBE_STRING = {"type": ["string", "null"]}
MAYBE_NUMBER = {"type": ["number", "null"]}

IDENTITY: dict[str, Schema] = {
    "name": STRING,
    "state": _described(STRING | {"enum": ["known", "young", "silent"]}, "young: not known yet, but not silent either"),
    "score": _described({"type": ["integer", "null"], "minimum": 0, "maximum": 100}, "null while unknown"),
    "class": _described(MAYBE_STRING, "low, normal or high; null while unknown"),
    "pool": _described(MAYBE_STRING, "its pool, where there are pools"),
    "schedulable": _described(BOOLEAN, "ready and not cordoned"),
    "published": _described(_object(score=MAYBE_STRING, load=MAYBE_STRING), "labels the node carries"),
}
SCHEMAS: dict[str, Schema] = {
    "Error": _object(error=STRING),
    "Load": _described(
        _nullable(_object(mean=MAYBE_NUMBER, std=MAYBE_NUMBER, p95=MAYBE_NUMBER)),
        "fractions of allocatable; null where the window is not known",
    ),
    "Node": _object(
        **IDENTITY, newest=_described(MAYBE_NUMBER, "Unix time of the newest sample"), load=_map(_ref("Load"))
    ),
    "Nodes": _object(time=NUMBER, window=STRING, resources=_array(STRING), nodes=_array(_ref("Node"))),
    "Statistics": _object(
        mean=MAYBE_NUMBER, std=MAYBE_NUMBER, p95=MAYBE_NUMBER, known=BOOLEAN, samples=INTEGER, coverage=MAYBE_NUMBER
    ),
    "NodeDetail": _object(
        **IDENTITY,
        time=NUMBER,
        windows=_described(_map(_map(_ref("Statistics"))), "by window length, then by resource"),
        newest=_map(MAYBE_NUMBER),
        sources=_map(STRING),
        capacity=_map(NUMBER),
        allocatable=_map(NUMBER),
    ),
    "PodScores": _object(
        pod=_described(STRING, "namespace/name"),
        node=_described(MAYBE_STRING, "where it is bound; it is counted there"),
        decided=_described(MAYBE_STRING, "where the extender sent it, as long as no watch has shown the binding"),
        time=_described(MAYBE_NUMBER, "the end of the windows; Unix time"),
        neutral=_described(MAYBE_STRING, "why the extender would find all nodes equal now"),
        strategies=_described(_array(_ref("Scores")), "that of BALLAST_EXTENDER__STRATEGY, then those it blends"),
    ),
    "Scores": _object(
        strategy=STRING,
        scores=_described(_map(INTEGER), "0..100 by node"),
        raw=_described(_map(MAYBE_NUMBER), "the strategy's own figure"),
        terms=_described(_map(_map(MAYBE_NUMBER)), "what a score was made of, by node"),
        unknown=_described(_array(STRING), "nodes of which the strategy knows nothing"),
    ),
    "Cycle": _object(job=STRING, started=_described(NUMBER, "Unix time"), seconds=NUMBER, ok=BOOLEAN, sentence=STRING),
    "Condition": {
        "type": "object",
        "properties": dict.fromkeys(("type", "status", "reason", "message", "lastTransitionTime"), STRING),
        "required": ["type", "status"],
    },
    "Setting": {
        "type": "object",
        "properties": {"name": STRING, "value": {}, "origin": MAYBE_STRING},
        "required": ["name", "value", "origin"],
    },
    "Snapshot": _object(
        time=NUMBER,
        age=NUMBER,
        windows=_array(STRING),
        nodes=INTEGER,
        known=INTEGER,
        young=INTEGER,
        silent=INTEGER,
        sources=_map(STRING),
    ),
    "Status": _object(
        version=STRING,
        time=NUMBER,
        leader=BOOLEAN,
        ready=BOOLEAN,
        frozen=BOOLEAN,
        current=_described(BOOLEAN, "false where cycles stopped, or none has ended: the data is history"),
        modes=_described(_map(MAYBE_STRING), "of each part: off, dry-run or on"),
        paused=_described(_map(MAYBE_STRING), "of each part: why nothing is written now"),
        interval={},
        snapshot=_nullable(_ref("Snapshot")),
        jobs=_array(_ref("Cycle")),
        conditions=_array(_ref("Condition")),
    ),
    "Power": _open(
        ("mode", "paused", "policies", "conditions"),
        mode=MAYBE_STRING,
        paused=_described(MAYBE_STRING, "why nothing is written now"),
        policies=_array(_ref("Policy")),
        conditions=_array(_ref("Condition")),
    ),
    "Policy": _open(
        ("name", "history", "actions"),
        name=STRING,
        feed=_open(
            semantics=STRING,
            watts=_described(MAYBE_NUMBER, "null where the last sample is missing or invalid"),
            time=_described(MAYBE_NUMBER, "Unix time of the last valid sample"),
            problem=MAYBE_STRING,
        ),
        state=_described(MAYBE_STRING, "STABLE, PENDING_INCREASE or PENDING_DECREASE"),
        reference=_described(MAYBE_NUMBER, "watts that the replicas stand for; null before the first window"),
        deadband=_described({"type": ["array", "null"], "items": MAYBE_NUMBER}, "[low, high] watts"),
        window=_described(_nullable(_open(since=NUMBER, length=NUMBER)), "being confirmed now; seconds"),
        waiting_for=_described(MAYBE_STRING, "one sentence"),
        unmet=_described(MAYBE_NUMBER, "replicas that no target can carry"),
        shadow=_described(BOOLEAN, "dry-run: the replicas are those that would be"),
        targets=_array(_ref("Target")),
        history=_described(
            _array({"type": "array"}), f"oldest first, at most {HISTORY}: [{', '.join(HISTORY_COLUMNS)}]"
        ),
        actions=_described(_array(_ref("Action")), "newest first"),
    ),
    "Target": _open(
        ("ref",),
        ref=_described(STRING, "namespace/name"),
        kind=MAYBE_STRING,
        actuator=_described(MAYBE_STRING, "how its replicas are changed, or observe"),
        replicas=_described(MAYBE_NUMBER, "what the actuator counts; null where it cannot be read"),
        potential=_described(MAYBE_NUMBER, "replicas it would have, in dry-run"),
        min=MAYBE_NUMBER,
        max=MAYBE_NUMBER,
        original=_described(MAYBE_NUMBER, "the cap before Ballast changed it"),
        excluded=_described(MAYBE_STRING, "why nothing is done about it"),
        problem=MAYBE_STRING,
    ),
    "Action": _open(
        ("time",),
        time=NUMBER,
        reason=MAYBE_STRING,
        changes=_described(_map(NUMBER), "replicas added (or taken, below 0) by namespace/name"),
        replicas=_described(_map(NUMBER), "after it"),
        result=MAYBE_STRING,
    ),
    "Plan": _open(
        ("id", "time", "kind", "mode", "steps", "before", "after", "refused", "placed", "verdicts"),
        id={"type": ["string", "integer"]},
        time=NUMBER,
        kind=STRING,
        mode=MAYBE_STRING,
        steps=_array(
            _open(("pod", "from"), pod=STRING, to=MAYBE_STRING, reason=MAYBE_STRING, **{"from": MAYBE_STRING})
        ),
        before=_described(_map(MAYBE_NUMBER), "standard deviation of the load between nodes, by resource"),
        after=_described(_map(MAYBE_NUMBER), "the same, as predicted"),
        refused=_described(_map(INTEGER), "pods by the first check that refused them"),
        placed=_described(_array(STRING), "waiting pods that would start"),
        verdicts=_array(_open(("pod",), pod=STRING, check=MAYBE_STRING, verdict=MAYBE_STRING, reason=MAYBE_STRING)),
        sentence=MAYBE_STRING,
    ),
    "Evictions": _open(
        ("mode", "paused", "recent", "reservations", "limits", "breaker"),
        mode=MAYBE_STRING,
        paused=_described(MAYBE_STRING, "why nothing is evicted now"),
        recent=_array(_ref("Eviction")),
        reservations=_array(
            _open(
                ("node",),
                node=STRING,
                kind=MAYBE_STRING,
                until=MAYBE_NUMBER,
                cpu=MAYBE_NUMBER,
                memory=MAYBE_NUMBER,
                **{"for": MAYBE_STRING},
            )
        ),
        limits={"type": "object"},
        breaker=_described(MAYBE_STRING, "why evictions have stopped"),
    ),
    "Eviction": _open(
        ("pod", "time", "status"),
        pod=STRING,
        uid=MAYBE_STRING,
        workload=MAYBE_STRING,
        to=_described(MAYBE_STRING, "where it is steered; null where it is not"),
        time=NUMBER,
        kind=MAYBE_STRING,
        status=_described(STRING, "recorded, evicted, refused, landed, ready, failed or stopped"),
        landed_on=MAYBE_STRING,
        ready_at=MAYBE_NUMBER,
        predicted={},
        measured={},
        why=MAYBE_STRING,
        **{"from": MAYBE_STRING},
    ),
}

WINDOW = {
    "name": "window",
    "in": "query",
    "schema": STRING,
    "description": "a length as spelled in the settings, e.g. 5m",
}
NAME = {"name": "name", "in": "path", "required": True, "schema": STRING}
NAMESPACE = NAME | {"name": "namespace"}


def _answer(description: str, schema: Schema) -> Schema:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _get(identifier: str, summary: str, schema: Schema, *parameters: Schema, **errors: str) -> Schema:
    responses = {"200": _answer("OK", schema)} | {
        status.removeprefix("_"): _answer(description, _ref("Error")) for status, description in errors.items()
    }
    return {
        "get": {"operationId": identifier, "summary": summary, "parameters": list(parameters), "responses": responses}
    }


_NO_DATA = "no cycle has ended yet"
DOCUMENT: Schema = {
    "openapi": "3.1.0",
    "info": {"title": "Ballast", "version": __version__, "description": "What Ballast knows and does. Read only."},
    "paths": {
        "/api/v1/status": _get("status", "One look at the whole", _ref("Status")),
        "/api/v1/nodes": _get(
            "nodes", "All nodes over one window", _ref("Nodes"), WINDOW, _400="no such window", _503=_NO_DATA
        ),
        "/api/v1/nodes/{name}": _get(
            "node", "One node over every window", _ref("NodeDetail"), NAME, _404="no such node", _503=_NO_DATA
        ),
        "/api/v1/pods/{namespace}/{name}/scores": _get(
            "pod_scores",
            "What the extender's strategies say of every node for one pod",
            _ref("PodScores"),
            NAMESPACE,
            NAME,
            _404="no such pod",
        ),
        "/api/v1/cycles": _get("cycles", "Recent cycles, newest first", _array(_ref("Cycle"))),
        "/api/v1/config": _get("config", "Every setting, secrets masked", _array(_ref("Setting"))),
        "/api/v1/power": _get("power", "What each power policy sees, waits for and changed", _ref("Power")),
        "/api/v1/plans": _get("plans", "Recent plans, newest first", _array(_ref("Plan"))),
        "/api/v1/evictions": _get(
            "evictions", "Recent evictions and what became of them, newest first", _ref("Evictions")
        ),
        "/api/v1/openapi.json": _get("openapi", "This document", {"type": "object"}),
    },
    "components": {"schemas": SCHEMAS},
}
