"""What Ballast plans and does, as JSON for `/api/v1/power`, `/plans` and `/evictions`; of bounded size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest
from itertools import islice
from operator import itemgetter
from typing import Any

import msgspec

HISTORY = 2_880
"""Points of one policy, the newest: a day at one each 30 s."""
HISTORY_COLUMNS = ("Unix time", "watts", "reference", "low", "high", "replicas", "state")
ACTIONS = 100
PLANS = 50
ROWS = 20_000
"""Steps and verdicts of all plans together; a plan is shown whole or not at all."""
EVICTIONS = 500
RESERVATIONS = 2_000


def power(document: Mapping[str, Any], mode: str | None, conditions: Sequence[Mapping[str, Any]]) -> bytes:
    """`history` of a policy is oldest first, `actions` newest first."""
    policies = [_policy(policy) for policy in document.get("policies", ())]
    return msgspec.json.encode(
        {"mode": mode, "paused": None} | {**document, "policies": policies, "conditions": conditions}
    )


def plans(documents: Iterable[Mapping[str, Any]]) -> bytes:
    """Newest first, as they come."""
    shown: list[Mapping[str, Any]] = []
    rows = 0
    for plan in islice(documents, PLANS):
        rows += len(plan.get("steps", ())) + len(plan.get("verdicts", ()))
        if shown and rows > ROWS:
            break
        shown.append(plan)
    return msgspec.json.encode(shown)


def evictions(document: Mapping[str, Any], mode: str | None) -> bytes:
    """`recent` newest first, as it comes."""
    bounded = {
        "recent": list(islice(document.get("recent", ()), EVICTIONS)),
        "reservations": list(islice(document.get("reservations", ()), RESERVATIONS)),
    }
    return msgspec.json.encode({"mode": mode, "paused": None, "limits": {}, "breaker": None} | {**document, **bounded})


def _policy(policy: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **policy,
        "history": list(policy.get("history", ()))[-HISTORY:],
        "actions": nlargest(ACTIONS, policy.get("actions", ()), key=itemgetter("time")),
    }
