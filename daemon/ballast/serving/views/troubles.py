"""What is wrong now, as conditions tell: causes first, with what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from ballast.condition_types import CONDITION_TYPES, GOOD, ConditionType

RUNBOOKS = "https://github.com/kube-ballast/ballast/blob/main/docs/runbooks/"
RANK = {name: rank for rank, name in enumerate(CONDITION_TYPES)}


class Trouble(Struct, frozen=True, forbid_unknown_fields=True):
    """A condition that holds and should not, or does not hold and should."""

    type: str
    title: Annotated[str, Meta(description="what is wrong, in a few words")]
    message: str
    since: Annotated[str, Meta(description="RFC 3339; empty where unknown")]
    do: Annotated[str, Meta(description="the first thing to try, in Markdown; links are those of docs/runbooks")]
    mild: Annotated[bool, Meta(description="worth knowing, but nobody has to get up")]
    runbook: Annotated[str | None, Meta(description="address of its page in the documentation")]


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
