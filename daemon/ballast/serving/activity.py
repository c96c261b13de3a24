"""Plans and actions as JSON of bounded size, for `/api/v1/power`, `/plans` and `/evictions`."""

from collections.abc import Iterable, Sequence
from heapq import nlargest
from itertools import islice
from operator import attrgetter
from typing import Any

import msgspec
from msgspec.structs import replace

from ballast.answers.api import ACTIONS_KEPT, HISTORY_POINTS, Policy, Power
from ballast.answers.evictions import Evictions, Plan

PLANS_KEPT = 50
"""Eviction plans, the newest."""

PLAN_ROWS = 20_000
"""Steps and verdicts of all plans together; a plan is shown whole or not at all."""

EVICTIONS = 500
"""Evictions, the newest."""

RESERVATIONS = 2_000
"""Reservations of room for pods."""


def power(document: Power, mode: str | None, conditions: Sequence[Any]) -> bytes:
    """The document of the board as JSON, with `conditions`; `mode` is shown until the document has one.

    The `history` of a policy is oldest first, its `actions` newest first.
    """
    return msgspec.json.encode(
        replace(
            document,
            mode=mode if document.mode is None else document.mode,
            policies=[_policy(policy) for policy in document.policies],
            conditions=conditions,
        )
    )


def plans(documents: Iterable[Plan]) -> bytes:
    """The plans as JSON; `documents` come newest first and stay so."""
    shown: list[Plan] = []
    rows = 0
    for plan in islice(documents, PLANS_KEPT):
        rows += len(plan.steps) + len(plan.verdicts)
        if shown and rows > PLAN_ROWS:
            break
        shown.append(plan)
    return msgspec.json.encode(shown)


def evictions(document: Evictions, mode: str | None) -> bytes:
    """The document of the board as JSON; `mode` is shown where the document has none. `recent` comes newest first."""
    return msgspec.json.encode(
        replace(
            document,
            mode=mode if document.mode is None else document.mode,
            recent=document.recent[:EVICTIONS],
            reservations=document.reservations[:RESERVATIONS],
        )
    )


def _policy(policy: Policy) -> Policy:
    return replace(
        policy,
        history=policy.history[-HISTORY_POINTS:],
        actions=nlargest(ACTIONS_KEPT, policy.actions, key=attrgetter("time")),
    )
