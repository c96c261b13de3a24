"""Which settings would have done best with at most so many evictions a day: a small grid, played side by side.

All candidates see the same recording at the same times (common random numbers), so their differences are known better
than each of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import yaml

from ballast.settings import load
from ballast_lab.rehearse.ballast_run import BallastRun
from ballast_lab.rehearse.course import Course
from ballast_lab.rehearse.measures import DAY, HOUR, LEVELS, Estimate, Measures, estimate
from ballast_lab.rehearse.recording import open_recording
from ballast_lab.rehearse.rehearsal import Advice, Run, Span, play

HIGHS = (0.7, 0.8, 0.9)
RELIEF, GAP, NARROW = 0.2, 0.1, 0.05
"""How far LOW and TARGET_HIGH are below HIGH, as by default; and how far TARGET_HIGH is where targets may be fuller."""
PLANNERS = ("relieve", "relieve,redistribute,rebalance")
PARTS = (1.0, 0.5)
"""Of the evictions that are allowed, how many the rate permits."""
LEVEL = LEVELS[0]
EVICTION, LENGTHS = "BALLAST_EVICTION__", "BALLAST_WINDOWS__LENGTHS"
SHOWN = ("HIGH", "TARGET_HIGH", "PLANNERS", "RATE", "LENGTHS")

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Candidate:
    """Settings of the grid, as environment variables, and what came of them."""

    changes: Mapping[str, str]
    measures: Measures


def grid_of(environment: Mapping[str, str], bound: float, step: float) -> list[Mapping[str, str]]:
    """What the candidates change of the settings of `environment`; none can evict more than `bound` pods within a day.

    Beside HIGH, planners and rate, each HIGH is tried with fuller targets, and with the shortest window first, if it
    has enough samples. Raises SettingsError where the settings go with none of it.
    """
    windows = load(environment).windows
    grid = [_changes(high, planners, bound * part, {}) for high, planners, part in product(HIGHS, PLANNERS, PARTS)]
    for high in HIGHS:
        grid.append(_changes(high, PLANNERS[1], bound, {f"{EVICTION}TARGET_HIGH": f"{high - NARROW:g}"}))
        if step * windows.min_samples <= min(windows.lengths):
            quick = {LENGTHS: ",".join(length.text for length in sorted(windows.lengths))}
            grid.append(_changes(high, PLANNERS[1], bound, quick))
    for changes in grid:
        load({**environment, **changes})
    return grid


def _changes(high: float, planners: str, a_day: float, other: Mapping[str, str]) -> Mapping[str, str]:
    return {
        f"{EVICTION}HIGH": f"{high:g}",
        f"{EVICTION}LOW": f"{high - RELIEF:g}",
        f"{EVICTION}TARGET_HIGH": f"{high - GAP:g}",
        f"{EVICTION}PLANNERS": planners,
        f"{EVICTION}RATE": rate(a_day),
        **other,
    }


def play_grid(
    recording: tuple[Path, object, str],
    span: Span,
    environment: Mapping[str, str],
    grid: Sequence[Mapping[str, str]],
    progress: Progress = lambda done, of: None,
) -> list[Candidate]:
    """Plays candidates side by side; `recording` is what `open_recording` takes, so any process or machine can do it.

    Publishing is left out where it does not decide where pods land: it takes most of the time.
    """
    source, runs = open_recording(*recording), []
    for number, changes in enumerate(grid):
        settings = load({**environment, **changes})
        if settings.eviction.landing == "extender":
            settings = load({**environment, **changes, "BALLAST_PUBLISHING__MODE": "off"})
        runs.append(BallastRun(f"grid-{number}", Course(source.history, settings), settings, span.step))
    play(source, span, runs, progress)
    return [Candidate(changes, run.measures) for changes, run in zip(grid, runs, strict=True)]


def rate(a_day: float) -> str:
    """At most so many evictions within a day, as a setting; fewer than one as one within several days."""
    return f"{math.floor(a_day)}/1d" if a_day >= 1 else f"1/{math.ceil(1 / a_day)}d"


def advise(before: Run, today: Run, grid: Sequence[Candidate], bound: float, span: Span) -> Advice:
    """The candidate with the fewest hot node-hours, if it is clearly better than the settings of today."""
    best = min(grid, key=lambda each: (hours(each.measures), evictions_a_day(each.measures, span)))
    allowed = evictions_a_day(today.measures, span) <= bound
    reference = (today if allowed else before).measures
    fewer = difference(reference, best.measures, span.step)
    named = f"{today.name} has" if allowed else f"as it was there were (with {today.name} there are too many evictions)"
    was = f"{hours(reference):.1f}"
    if fewer.low <= 0:
        return Advice({}, f"nothing in the grid is clearly better: {named} {was} node-hours above 80 %")
    return Advice(
        dict(best.changes),
        f"{hours(best.measures):.1f} node-hours above 80 % with {evictions_a_day(best.measures, span):.1f} evictions a "
        f"day, where {named} {was}: {fewer.value:.1f} fewer ({fewer.low:.1f} to {fewer.high:.1f})",
    )


def hours(measures: Measures) -> float:
    """Node-hours above 80 %."""
    return measures.node_hours(LEVEL).value


def evictions_a_day(measures: Measures, span: Span) -> float:
    """Of a time shorter than a day: all of them."""
    return sum(measures.evictions.values()) / max((span.end - span.begin) / DAY, 1.0)


def difference(reference: Measures, other: Measures, step: float) -> Estimate:
    """How many hot node-hours fewer than the reference a run has, by the same blocks of time."""
    hot = np.array(reference.hot[LEVEL], float) - np.array(other.hot[LEVEL], float)
    return estimate(hot * step / HOUR, step, total=True)


def helm_values(advice: Advice) -> str:
    """The advice as values of the chart."""
    parts: dict[str, dict[str, object]] = {}
    for name, value in advice.settings.items():
        part, _, key = name.removeprefix("BALLAST_").lower().partition("__")
        parts.setdefault(part, {})[key] = yaml.safe_load(value)
    return yaml.safe_dump({"settings": parts}, sort_keys=False) if parts else ""


def curve(runs: Sequence[Run], grid: Sequence[Candidate], span: Span) -> list[tuple[float, float, int]]:
    """(evictions a day, hot node-hours, which colour) of each run and of the grid, the fewest evictions first."""
    colours = [*enumerate(run.measures for run in runs), *((-1, each.measures) for each in grid)]
    return sorted((evictions_a_day(measures, span), hours(measures), colour) for colour, measures in colours)


def tradeoff(grid: Sequence[Candidate], span: Span) -> list[list[str]]:
    """The rows of the grid: evictions a day, hot node-hours, and the settings; the fewest evictions first."""
    rows = []
    for each in sorted(grid, key=lambda one: (evictions_a_day(one.measures, span), hours(one.measures))):
        shown = {name.rpartition("__")[2]: value for name, value in each.changes.items()}
        numbers = [f"{evictions_a_day(each.measures, span):.1f}", f"{hours(each.measures):,.1f}"]
        rows.append([*numbers, *(shown.get(name, "as today") for name in SHOWN)])
    return rows
