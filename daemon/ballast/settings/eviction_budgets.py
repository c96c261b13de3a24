"""The setting `BALLAST_EVICTION__BUDGETS`: how many evictions there may be in a time, where, when and by whom."""

import json
from dataclasses import dataclass
from typing import Self

from ballast.model.cron import Cron
from ballast.settings.eviction_windows import LONGEST, entries, planners_of
from ballast.settings.written import Count, Duration, WrittenValue

SCOPES = ("cluster", "node", "workload", "namespace")
"""Of what a budget counts evictions."""
_AMOUNTS = ("pods", "nodes", "share")
_KEYS = (*_AMOUNTS, "per", "scope", "schedule", "duration", "planners", "reasons")


@dataclass(frozen=True)
class WrittenBudget(
    WrittenValue,
    allowed='budgets such as {"pods": 20, "per": "1h"} or {"share": "10%", "per": "24h", "scope": "workload", '
    '"schedule": "0 8 * * mon-fri", "duration": "10h", "planners": ["rebalance"]}: one of pods, nodes and share, the '
    "others optional",
    json=("object",),
):
    """At most `count` pods, or nodes, within `per`; `cron` and `duration` say when it holds, None: always."""

    count: Count
    of_nodes: bool
    per: Duration
    scope: str
    """One of SCOPES."""
    cron: Cron | None
    duration: Duration
    planners: tuple[str, ...]
    text: str

    @classmethod
    def parse(cls, value: object) -> Self:
        """Takes a WrittenBudget or a map; raises ValueError, saying what is allowed."""
        if isinstance(value, cls):
            return value
        value = entries(cls, value, _KEYS)
        given = [name for name in _AMOUNTS if name in value]
        if len(given) != 1:
            raise cls.refusal("give one of pods, nodes and share")
        if ("schedule" in value) != ("duration" in value):
            raise cls.refusal("give schedule and duration together")
        per, lasts = Duration.parse(value.get("per", "1h")), Duration.parse(value.get("duration", "24h"))
        if not 0 < per <= LONGEST or not 0 < lasts <= LONGEST:
            raise cls.refusal("per and duration are longer than 0 and at most 31d")
        scope = value.get("scope", "cluster")
        if scope not in SCOPES or (given == ["nodes"] and scope != "cluster"):
            raise cls.refusal("scope is cluster, node, workload or namespace; nodes are counted in the cluster")
        schedule = value.get("schedule")
        if schedule is not None and not isinstance(schedule, str):
            raise cls.refusal("schedule is text")
        return cls(
            _count(value[given[0]], share=given == ["share"]),
            given == ["nodes"],
            per,
            str(scope),
            None if schedule is None else Cron.parse(schedule),
            lasts,
            (*planners_of(value.get("planners", ())), *planners_of(value.get("reasons", ()))),
            json.dumps(dict(value)),
        )

    def __str__(self) -> str:
        return self.text


def _count(value: object, *, share: bool) -> Count:
    """A share is a percentage such as 10%, or a part such as 0.1."""
    if share and isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1:
        return Count.parse(f"{value * 100:g}%")
    count = Count.parse(value)
    if (count.percent is not None) != share or not (count.percent or count.number):
        raise ValueError("expected a number of at least 1 for pods and nodes, and for share a percentage such as 10%")
    return count
