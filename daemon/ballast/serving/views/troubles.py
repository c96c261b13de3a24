"""What is wrong now, as conditions tell: causes first, with what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ballast.answers.api import Trouble
from ballast.base.condition_types import CONDITION_TYPES, GOOD, ConditionType

RUNBOOKS = "https://github.com/kube-ballast/ballast/blob/main/docs/runbooks/"
RANK = {name: rank for rank, name in enumerate(CONDITION_TYPES)}


def troubles(conditions: Iterable[Mapping[str, Any]], *, leader: bool) -> list[Trouble]:
    """Of `conditions` as the API lists them. That a follower does not act is no trouble."""
    held = [
        _trouble(each)
        for each in conditions
        if (each["status"] == "True") is not (each["type"] in GOOD) and (leader or each["type"] != "Active")
    ]
    return sorted(held, key=lambda each: (each.mild, RANK.get(each.type, len(RANK))))


def _trouble(condition: Mapping[str, Any]) -> Trouble:
    name = condition["type"]
    known = CONDITION_TYPES.get(name, ConditionType(name, "", ""))
    message = condition.get("message") or condition.get("reason", "")
    since = condition.get("lastTransitionTime", "")
    runbook = f"{RUNBOOKS}{name}.md" if name in CONDITION_TYPES else None
    return Trouble(name, known.title, message, since, known.do, known.mild, runbook)
