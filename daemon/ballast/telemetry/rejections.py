"""What to do when no sample of an answer counts."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from ballast.model.sample import ReadingProblem
from ballast.telemetry.queries import Query
from ballast.telemetry.responses import SeriesTable

_OFFSET_STEP = 30


def explain_rejection(
    question: Query, rejected: Counter[str], newest: SeriesTable, at: float, max_age: float
) -> ReadingProblem | None:
    """What rejected the most of them; None where nothing was rejected. `at` is the evaluation time, Unix seconds."""
    if not rejected:
        return None
    reason = max(sorted(rejected), key=lambda each: rejected[each])
    resource = question.resource
    if reason == "stale":
        return _stale(question, newest, at, max_age)
    if reason == "future":
        ahead = _newest(newest) - at
        return ReadingProblem(
            "future",
            f"all samples of {resource} are ahead of the query, by {ahead:.0f} s; the clock of this machine is late "
            "or that of the exporters' Prometheus is ahead: synchronise them (NTP)",
        )
    if reason == "duplicate":
        return ReadingProblem(
            "duplicate",
            f"each node has several values of {resource} that differ, so none counts; aggregate them in "
            f"BALLAST_TELEMETRY__RESOURCES: max by ({', '.join(question.labels)}) (<query>), or choose with "
            "BALLAST_PROMETHEUS__MATCHERS",
        )
    if reason in ("unmatched", "ambiguous"):
        what = "no node" if reason == "unmatched" else "several nodes at once"
        return ReadingProblem(
            "unnamed",
            f"the series of {resource} name {what} by {question.label}; set BALLAST_TELEMETRY__NODE_LABEL or "
            "BALLAST_TELEMETRY__NODE_REWRITE",
        )
    return ReadingProblem(
        "unreadable",
        f"no value of {resource} is a number from 0 on ({reason}); look at the exporters, or at its query in "
        "BALLAST_TELEMETRY__RESOURCES",
    )


def _stale(question: Query, newest: SeriesTable, at: float, max_age: float) -> ReadingProblem:
    age = at - _newest(newest)
    if math.isnan(age):
        fix: tuple[str, ...] = ()
        advice = "give it a `freshness` in BALLAST_TELEMETRY__RESOURCES that has samples"
        if question.preset is not None and question.preset.rules:
            cpu, memory = question.preset.rules
            fix = (
                f'BALLAST_TELEMETRY__RESOURCES=\'{{"cpu": {{"query": "{cpu}"}}, "memory": {{"query": "{memory}"}}}}\'',
            )
            advice = f"where only recording rules are stored, read these by themselves: {fix[0]}"
        elif question.preset is not None:
            advice = "store its raw metrics, or choose another BALLAST_PROMETHEUS__PRESET"
        text = f"the age of {question.resource} is unknown: {question.freshness} gives nothing; {advice}"
        return ReadingProblem("ageless", text, fix)
    earlier = f"BALLAST_TELEMETRY__OFFSET={math.ceil(age / _OFFSET_STEP) * _OFFSET_STEP}s"
    return ReadingProblem(
        "stale",
        f"all samples of {question.resource} are older than {max_age:g} s; if exporters are scraped, they arrive late "
        f"or this machine's clock is ahead: synchronise the clocks, or query that much earlier: {earlier}",
        (earlier,),
    )


def _newest(newest: SeriesTable) -> float:
    times = newest.values[newest.present & ~newest.unreadable]
    return float(np.nanmax(times)) if np.isfinite(times).any() else math.nan
