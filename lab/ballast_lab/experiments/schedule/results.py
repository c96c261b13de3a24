"""The table of the schedule experiment: means over days and seeds, and paired differences from a reference."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from ballast.base.errors import UsageError
from ballast_lab.experiments.figures import dots
from ballast_lab.experiments.load_traces import LoadTrace
from ballast_lab.experiments.results import Results, markdown
from ballast_lab.experiments.running import run
from ballast_lab.experiments.schedule.contestants import CONTESTANTS, contestant
from ballast_lab.experiments.schedule.loop import Day, simulate
from ballast_lab.experiments.schedule.workloads import combinations, days_of, draw

REFERENCE = "stock"
DAYS = 2
"""Days of each trace, where none are named."""
COLUMNS = ("hot80", "hot90", "beyond", "sigma", "p99", "turned_away", "label_writes", "evictions")
Row = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """What is run: all contestants on every (day, seed, fill), each seed with the next combination of models."""

    seeds: Sequence[int]
    fills: Sequence[float] = (0.85,)
    contestants: Sequence[str] = tuple(CONTESTANTS)
    days: Sequence[str] = ()
    """Names of traces, or TRACE/DAY; none: the first days of each trace."""


def results(
    traces: Sequence[LoadTrace],
    plan: Plan,
    notes: Sequence[str] = (),
    *,
    jobs: int = 1,
    begin: Callable[[int], Callable[[], None]] = lambda total: lambda: None,
) -> Results:
    """The experiment on these traces. Raises UsageError for a day, contestant or fill that cannot be used."""
    for name in plan.contestants:
        contestant(name)
    if bad := [fill for fill in plan.fills if not 0.05 <= fill <= 2]:
        raise UsageError(f"--fill {bad[0]:g}: give shares of what the nodes have, 0.05 to 2, such as .85,1.15.")
    models = list(combinations())
    calls = [
        (trace, day, series, seed, fill, models[seed % len(models)], name)
        for trace, day, series in _days(traces, plan.days)
        for seed, fill, name in product(plan.seeds, plan.fills, plan.contestants)
    ]
    rows = run(measure, calls, jobs, begin(len(calls)))
    table = "".join(_section(fill, [row for row in rows if row["fill"] == fill], plan) for fill in plan.fills)
    traced = sorted({row["trace"] for row in rows})
    figure = dots(
        "Node-minutes above 80 % of cpu, percent",
        {name: {trace: _mean(rows, trace, name) for trace in traced} for name in plan.contestants},
        (0.0, max(1.0, max((row["hot80"] for row in rows), default=1.0))),
    )
    text = table + "".join(f"\n{note}\n" for note in notes)
    return Results("schedule", (), text, {"schedule.svg": figure}, {"rows": rows})


def measure(
    trace: str, day: str, series: np.ndarray[Any, Any], seed: int, fill: float, models: Mapping[str, str], name: str
) -> Row:
    """One run: a contestant on a day."""
    state = Day(draw(series, seed, fill=fill, **models))
    outcome = simulate(state, contestant(name)(state, seed))
    about = {"trace": trace, "day": day, "seed": seed, "fill": fill, **models, "contestant": name}
    return about | outcome.document()


def _days(traces: Sequence[LoadTrace], wanted: Sequence[str]) -> list[tuple[str, str, np.ndarray[Any, Any]]]:
    every = [(trace.name, day, series) for trace in traces for day, series in days_of(trace)]
    if not every:
        raise UsageError("--data: no trace covers a whole day. Give traces of at least 24 hours.")
    if not wanted:
        counts: dict[str, int] = {}
        first = []
        for entry in every:
            counts[entry[0]] = counts.get(entry[0], 0) + 1
            if counts[entry[0]] <= DAYS:
                first.append(entry)
        return first
    names = {entry[0] for entry in every} | {f"{trace}/{day}" for trace, day, _ in every}
    for name in wanted:
        if name not in names:
            raise UsageError(f"--days {name}: there is no such day. Choose among {', '.join(sorted(names))}.")
    return [entry for entry in every if entry[0] in wanted or f"{entry[0]}/{entry[1]}" in wanted]


def _mean(rows: Sequence[Row], trace: str, name: str) -> float:
    return float(np.mean([row["hot80"] for row in rows if row["trace"] == trace and row["contestant"] == name]))


def _section(fill: float, rows: Sequence[Row], plan: Plan) -> str:
    """The table of one fill, best first."""
    by_name = {name: [row for row in rows if row["contestant"] == name] for name in plan.contestants}
    reference = by_name.get(REFERENCE)
    lines = []
    for name in sorted(by_name, key=lambda name: float(np.mean([row["hot80"] for row in by_name[name]]))):
        cells = [_interval([row[column] for row in by_name[name]]) for column in COLUMNS]
        if reference is None or name == REFERENCE:
            lines.append([name, *cells, "", ""])
            continue
        differences = [own["hot80"] - other["hot80"] for own, other in zip(by_name[name], reference, strict=True)]
        wins, losses = sum(value < 0 for value in differences), sum(value > 0 for value in differences)
        lines.append([name, *cells, _interval(differences), f"{wins} : {losses}"])
    heads = ["who", "> 80 %", "> 90 %", "beyond, core h", "σ", "p99", "turned away", "writes / node h", "evictions"]
    runs = len(rows) // max(1, len(by_name))
    return (
        f"Requests for {100 * fill:.0f} % of the nodes; runs of each: {runs}. ± is 95 % of the mean. The last columns\n"
        f"pair each run with that of {REFERENCE}: the difference of > 80 %, and runs better : worse.\n\n"
        + markdown([*heads, f"− {REFERENCE}", "runs"], lines)
        + "\n"
    )


def _interval(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    mean = float(np.mean(known))
    if len(known) < 2:
        return f"{mean:.2f}"
    return f"{mean:.2f} ± {1.96 * float(np.std(known, ddof=1)) / math.sqrt(len(known)):.2f}"
