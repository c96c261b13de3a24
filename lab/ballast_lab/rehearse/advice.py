"""Which settings would have done best with at most so many evictions a day: a small grid, played side by side.

All candidates see the same recording at the same times (common random numbers), so their differences are known better
than each of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import yaml

from ballast.settings import load
from ballast_lab.rehearse.ballast_run import BallastRun
from ballast_lab.rehearse.course import Course
from ballast_lab.rehearse.history import History
from ballast_lab.rehearse.measures import DAY, HOUR, LEVELS, Estimate, estimate
from ballast_lab.rehearse.rehearsal import Advice, Run, Span

HIGHS = (0.7, 0.8, 0.9)
RELIEF, GAP = 0.2, 0.1
"""How far LOW and TARGET_HIGH are below HIGH, as by default."""
PLANNERS = ("relieve", "relieve,redistribute,rebalance")
PARTS = (1.0, 0.5)
"""Of the evictions that are allowed, how many the rate permits."""
LEVEL = LEVELS[0]


@dataclass(frozen=True)
class Candidate:
    """Settings of the grid, as environment variables."""

    changes: Mapping[str, str]
    run: BallastRun


def candidates(history: History, environment: Mapping[str, str], bound: float, step: float) -> list[Candidate]:
    """Runs of the grid over the settings of `environment`; none can evict more than `bound` pods within a day.

    Publishing is left out where it does not decide where pods land: it takes most of the time.
    """
    grid: list[Candidate] = []
    for number, (high, planners, part) in enumerate(product(HIGHS, PLANNERS, PARTS)):
        changes = {
            "BALLAST_EVICTION__HIGH": f"{high:g}",
            "BALLAST_EVICTION__LOW": f"{high - RELIEF:g}",
            "BALLAST_EVICTION__TARGET_HIGH": f"{high - GAP:g}",
            "BALLAST_EVICTION__PLANNERS": planners,
            "BALLAST_EVICTION__RATE": rate(bound * part),
        }
        settings = load({**environment, **changes})
        if settings.eviction.landing == "extender":
            settings = load({**environment, **changes, "BALLAST_PUBLISHING__MODE": "off"})
        grid.append(Candidate(changes, BallastRun(f"grid-{number}", Course(history, settings), settings, step)))
    return grid


def rate(a_day: float) -> str:
    """At most so many evictions within a day, as a setting; fewer than one as one within several days."""
    return f"{math.floor(a_day)}/1d" if a_day >= 1 else f"1/{math.ceil(1 / a_day)}d"


def advise(before: Run, today: Run, grid: Sequence[Candidate], bound: float, span: Span) -> Advice:
    """The candidate with the fewest hot node-hours, if it is clearly better than the settings of today."""
    days = max((span.end - span.begin) / DAY, 1.0)
    best = min(grid, key=lambda each: (hours(each.run), sum(each.run.measures.evictions.values()), each.run.name))
    allowed = sum(today.measures.evictions.values()) <= bound * days
    reference = today if allowed else before
    fewer = difference(reference, best.run, span.step)
    named = f"{today.name} has" if allowed else f"as it was there were (with {today.name} there are too many evictions)"
    was = f"{hours(reference):.1f}"
    if fewer.low <= 0:
        return Advice(
            {}, f"nothing in the grid is clearly better: {named} {hours(reference):.1f} node-hours above 80 %"
        )
    a_day = sum(best.run.measures.evictions.values()) / days
    return Advice(
        dict(best.changes),
        f"{hours(best.run):.1f} node-hours above 80 % with {a_day:.1f} evictions a day, where {named} "
        f"{was}: {fewer.value:.1f} fewer ({fewer.low:.1f} to {fewer.high:.1f})",
    )


def hours(run: Run) -> float:
    """Node-hours above 80 %."""
    return run.measures.node_hours(LEVEL).value


def difference(reference: Run, run: Run, step: float) -> Estimate:
    """How many hot node-hours fewer than the reference a run has, by the same blocks of time."""
    hot = np.array(reference.measures.hot[LEVEL], float) - np.array(run.measures.hot[LEVEL], float)
    return estimate(hot * step / HOUR, step, total=True)


def helm_values(advice: Advice) -> str:
    """The advice as values of the chart."""
    parts: dict[str, dict[str, object]] = {}
    for name, value in advice.settings.items():
        part, _, key = name.removeprefix("BALLAST_").lower().partition("__")
        parts.setdefault(part, {})[key] = yaml.safe_load(value)
    return yaml.safe_dump({"settings": parts}, sort_keys=False) if parts else ""


def tradeoff(grid: Sequence[Candidate], span: Span) -> list[list[str]]:
    """Rows of the curve: evictions a day, hot node-hours, and the settings; the fewest evictions first."""
    days = max((span.end - span.begin) / DAY, 1.0)
    rows = sorted((sum(each.run.measures.evictions.values()), hours(each.run), each.run.name, each) for each in grid)
    return [
        [
            f"{evictions / days:.1f}",
            f"{hot:,.1f}",
            *(each.changes[f"BALLAST_EVICTION__{name}"] for name in ("HIGH", "PLANNERS", "RATE")),
        ]
        for evictions, hot, _, each in rows
    ]
