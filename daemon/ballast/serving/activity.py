"""Plans and actions as JSON of bounded size, for `/api/v1/power`, `/plans` and `/evictions`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest
from itertools import islice
from operator import itemgetter
from typing import Any

import msgspec

HISTORY_POINTS = 2_880
"""Points of one power policy, the newest: a day at one each 30 s."""

TARGET_POINTS = 50
"""Changes of one target's replicas that are kept."""

ACTIONS_KEPT = 100
"""Actions of one power policy, the newest."""

PLANS_KEPT = 50
"""Eviction plans, the newest."""

PLAN_ROWS = 20_000
"""Steps and verdicts of all plans together; a plan is shown whole or not at all."""

EVICTIONS = 500
"""Evictions, the newest."""

RESERVATIONS = 2_000
"""Reservations of room for pods."""


def power(document: Mapping[str, Any], mode: str | None, conditions: Sequence[Mapping[str, Any]]) -> bytes:
    """`api_types.Power`. The `history` of a policy is oldest first, its `actions` newest first."""
    policies = [_policy(policy) for policy in document.get("policies", ())]
    return msgspec.json.encode(
        {"mode": mode, "paused": None} | {**document, "policies": policies, "conditions": conditions}
    )


def plans(documents: Iterable[Mapping[str, Any]]) -> bytes:
    """A list of `api_types.Plan`; `documents` come newest first and stay so."""
    shown: list[Mapping[str, Any]] = []
    rows = 0
    for plan in islice(documents, PLANS_KEPT):
        rows += len(plan.get("steps", ())) + len(plan.get("verdicts", ()))
        if shown and rows > PLAN_ROWS:
            break
        shown.append(plan)
    return msgspec.json.encode(shown)


def evictions(document: Mapping[str, Any], mode: str | None) -> bytes:
    """`api_types.Evictions`; `recent` comes newest first and stays so."""
    bounded = {
        "recent": list(islice(document.get("recent", ()), EVICTIONS)),
        "reservations": list(islice(document.get("reservations", ()), RESERVATIONS)),
    }
    return msgspec.json.encode({"mode": mode, "paused": None, "limits": {}, "breaker": None} | {**document, **bounded})


def _policy(policy: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **policy,
        "history": list(policy.get("history", ()))[-HISTORY_POINTS:],
        "actions": nlargest(ACTIONS_KEPT, policy.get("actions", ()), key=itemgetter("time")),
    }
