"""Documents of power, plans and evictions as JSON, and as the daemon leaves them on the board."""

import math
from collections.abc import Iterable
from typing import Any

import msgspec

from ballast.answers.api import Power
from ballast.answers.evictions import Evictions, Plan

Document = dict[str, Any]

NOT_SHOWN: dict[str, Any] = {
    "missing_effect": None,
    "energy": None,
    "schedule": [],
    "schedule_problem": None,
    "falls": [],
    "increase": [],
    "pledge": [],
}
NO_WATTS: dict[str, Any] = {"budget": "anchor", "load": None, "over": None, "unmet_demand": 0}
NO_MORE_OF_A_FEED: dict[str, Any] = {"bound": None, "consumed": None}


def policy(name: str, now: float, *, targets: int = 6, points: int = 240, **changed: Any) -> Document:
    """A day's solar power with a gap in it, its reference following in steps."""
    history: list[list[Any]] = []
    reference = 4_000.0
    for step in range(points):
        time = now - 30.0 * (points - 1 - step)
        watts = 4_000.0 + 1_500.0 * math.sin(step / 25) + 120.0 * math.sin(step * 1.7)
        if abs(watts - reference) > 0.12 * reference:
            reference = watts
        state = "PENDING_INCREASE" if watts > 1.05 * reference else "STABLE"
        state = "PENDING_DECREASE" if watts < 0.95 * reference else state
        silent = 100 <= step < 112
        row = [time, None if silent else round(watts, 1), round(reference, 1), reference * 0.95, reference * 1.05]
        history.append([*row, int(reference / 50), state])
    standing = [target(number, shadow=bool(changed.get("shadow"))) for number in range(targets)]
    return {
        "name": name,
        "feed": {"semantics": "available", "watts": history[-1][1], "time": now - 12, "problem": None}
        | NO_MORE_OF_A_FEED,
        "state": history[-1][6],
        "reference": reference,
        "deadband": [reference * 0.95, reference * 1.05],
        "window": {"since": now - 45, "length": 120.0},
        "waiting_for": "75 s more below 3,914 W, then about 6 replicas are taken away",
        "unmet": 0,
        **NO_WATTS,
        "shadow": False,
        **NOT_SHOWN,
        "targets": standing,
        "history": history,
        "draws": [],
        "actions": [
            {
                "time": now - 600 * (number + 1),
                "reason": "power fell from 4,410 W to 3,914 W",
                "changes": {"prod/api-0": -2, "prod/worker-1": -1},
                "replicas": {"prod/api-0": 8, "prod/worker-1": 4},
                "result": "done" if number else "1 of 2 refused: prod/worker-1 changed meanwhile",
            }
            for number in range(4)
        ],
    } | changed


def just_started() -> Document:
    """A policy whose first tick has not decided anything yet."""
    feed = {"semantics": "available", "watts": None, "time": None, "problem": None, **NO_MORE_OF_A_FEED}
    known = dict.fromkeys(("state", "reference", "deadband", "window", "waiting_for"))
    lists: Document = {**NOT_SHOWN, "targets": [], "history": [], "draws": [], "actions": []}
    return {"name": "just-started", "feed": feed, **known, "unmet": 0, **NO_WATTS, "shadow": False, **lists}


def target(number: int, *, shadow: bool = False) -> Document:
    actuator = ("scale", "hpa-cap", "scaledobject-cap", "observe")[number % 4]
    kind = ("deployments.apps", "deployments.apps", "deployments.apps", "statefulsets.apps")[number % 4]
    return {
        "ref": f"prod/{('api', 'worker', 'thumbnailer', 'queue')[number % 4]}-{number}",
        "kind": kind,
        "actuator": actuator,
        "replicas": None if number % 7 == 5 else 4 + number % 9,
        "potential": 3 + number % 9 if shadow else None,
        "min": 2,
        "max": 20,
        "original": 24 if actuator == "hpa-cap" else None,
        "priority": 0,
        "rolling": False,
        "watts": None,
        "needs": None,
        "history": [],
        "excluded": "annotation ballast.dev/exclude-power of the namespace" if number % 11 == 3 else None,
        "problem": "not found: create it or remove it from the policy" if number % 7 == 5 else None,
    }


def power(now: float, *policies: Document, **changed: Any) -> Document:
    return {"mode": "on", "paused": None, "policies": list(policies or (policy("site-a", now),))} | changed


def plan(number: int, now: float, *, steps: int = 3, mode: str = "dry-run", **changed: Any) -> Document:
    kind = ("rebalance", "relieve", "redistribute")[number % 3]
    return {
        "id": f"plan-{number}",
        "time": now - 60 * number,
        "mode": mode,
        "kind": kind,
        "steps": [
            {
                "pod": f"shop/cart-{step:05d}",
                "from": f"node-{step}",
                "to": f"node-{step + 9}" if step % 3 else None,
                "gain": 0.0123,
                "gain_error": 0.001,
                "cost": 0.0005,
                "reason": f"node-{step} is at 86 % cpu, node-{step + 9} at 31 %",
            }
            for step in range(steps)
        ],
        "before": {"cpu": 0.168, "memory": 0.121},
        "after": {"cpu": 0.117, "memory": 0.119},
        "refused": {"pdb": 12, "single-replica": 7, "min-age": 3},
        "placed": ["batch/job-1"] if kind == "redistribute" else [],
        "verdicts": [
            {
                "pod": f"shop/cart-{step:05d}",
                "check": None if step % 2 else "pdb",
                "verdict": "allowed" if step % 2 else "refused",
                "reason": "" if step % 2 else "shop/cart allows 0 disruptions now, 1 is needed",
            }
            for step in range(steps)
        ],
        "sentence": f"would move {steps} pods: cpu deviation 0.168 to 0.117; 22 pods refused",
    } | changed


STATUSES = ("ready", "landed", "evicted", "refused", "failed", "stopped", "recorded")


def eviction(number: int, now: float) -> Document:
    status = STATUSES[number % len(STATUSES)]
    landed = status in ("ready", "landed")
    return {
        "pod": f"shop/cart-{number:05d}",
        "uid": f"00000000-0000-0000-0000-{number:012d}",
        "workload": "deployments.apps shop/cart",
        "from": f"node-{number}",
        "to": f"node-{number + 9}",
        "time": now - 90 * number,
        "kind": "rebalance",
        "plan": f"rebalance-{number}",
        "status": status,
        "landed_on": f"node-{number + (9 if number % 2 else 8)}" if landed else None,
        "ready_at": now - 90 * number + 20 if status == "ready" else None,
        "predicted": {
            "gain": 0.0123,
            "load": {f"node-{number}": {"cpu": -0.06}, f"node-{number + 9}": {"cpu": 0.03}},
            "before": {"cpu": 0.168},
            "after": {"cpu": 0.117},
        },
        "measured": {"load": {f"node-{number}": {"cpu": -0.052}}, "share": 0.87} if status == "ready" else {},
        "why": "the disruption budget shop/cart allows none now" if status in ("refused", "failed") else None,
    }


def evictions(now: float, count: int = 9, **changed: Any) -> Document:
    return {
        "recent": [eviction(number, now) for number in range(count)],
        "reservations": [
            {
                "node": f"node-{number}",
                "for": f"shop/cart-{number:05d}",
                "kind": ("replacement", "waiting")[number % 2],
                "until": now + 100,
                "cpu": 0.5,
                "memory": 536870912.0,
            }
            for number in range(3)
        ],
        "limits": {"total": "5", "node": "1", "namespace": "0", "workload": "10%", "rate": ["20/1h", "1%/1d"]},
        "breaker": None,
    } | changed


def as_power(document: Document) -> Power:
    return msgspec.convert({"conditions": []} | document, Power)


def as_plans(documents: Iterable[Document]) -> list[Plan]:
    return msgspec.convert(list(documents), list[Plan])


def as_evictions(document: Document) -> Evictions:
    return msgspec.convert({"mode": None, "paused": None} | document, Evictions)
