"""Which window and statistic orders nodes best by the load of the next hour, and which level the load stays below.

The rules of other projects are measured beside them.

Every 15 minutes of the second half of a trace all nodes are ordered by each candidate; the order is compared with that
by the mean of the next hour, and by its peak (Spearman's rank correlation, the mean over these moments).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from ballast.model.sample import Bools, Floats
from ballast_lab.experiments.figures import dots
from ballast_lab.experiments.load_traces import LoadTrace
from ballast_lab.experiments.predictors import (
    DEFAULT,
    HOUR,
    LEVELS,
    LONGEST,
    MINUTE,
    ORDERS,
    PREDICTORS,
    RULES,
    Predictor,
)
from ballast_lab.experiments.published import published, table
from ballast_lab.experiments.results import ResultRow, Results, markdown
from ballast_lab.experiments.running import run

EVERY = 15 * MINUTE
FEWEST = 3
"""Nodes that have to be known at a moment for it to count."""


@dataclass(frozen=True)
class Quality:
    """Of one predictor on one trace. Correlations are those with the next hour's mean and its peak.

    `gain` is what the tenth of the nodes that it calls least loaded wins over the mean node, as a share of what the
    truly least loaded tenth would win. `above` is the share of nodes and moments whose next hour's peak is above it.
    """

    mean: float
    peak: float
    gain: float
    above: float


def qualities(
    traces: Sequence[LoadTrace],
    names: Sequence[str],
    *,
    jobs: int = 1,
    begin: Callable[[int], Callable[[], None]] = lambda total: lambda: None,
) -> dict[str, dict[str, Quality]]:
    """By trace and by the `names` of PREDICTORS; means over the parts of a trace, which are measured in parallel.

    `begin` is called with the number of parts and returns a function that is called after each part.
    """
    calls = [(part, trace.step, tuple(names)) for trace in traces for part in trace.parts]
    found = iter(run(part_qualities, calls, jobs, begin(len(calls))))
    return {trace.name: dict(zip(names, _mean([next(found) for _ in trace.parts]), strict=True)) for trace in traces}


def part_qualities(load: Floats, step: float, names: Sequence[str]) -> Floats:
    """[predictor, figure of Quality] over the second half of a part of a trace, [node, time]."""
    ahead, every = round(HOUR / step), max(1, round(EVERY / step))
    found = []
    for now in range(load.shape[1] // 2, load.shape[1] - ahead + 1, every):
        known, future = load[:, max(0, now - round(LONGEST / step)) : now], load[:, now : now + ahead]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # windows without any sample are NaN
            guesses = np.array([PREDICTORS[name](known, step) for name in names])
            mean, peak = np.nanmean(future, axis=1), np.nanmax(future, axis=1)
        there: Bools = np.isfinite(guesses).all(axis=0) & np.isfinite(mean)
        if there.sum() >= FEWEST:
            found.append(_figures(guesses[:, there], mean[there], peak[there]))
    if not found:
        return np.full((len(names), 4), np.nan)
    return np.asarray(np.nanmean(np.array(found), axis=0))


def _figures(guesses: Floats, mean: Floats, peak: Floats) -> Floats:
    """[predictor, figure] at one moment; [predictor, node] guesses."""
    tenth = max(1, len(mean) // 10)
    best = mean.mean() - np.sort(mean)[:tenth].mean()
    chosen = np.argsort(guesses, axis=1, kind="stable")[:, :tenth]
    gain = (mean.mean() - mean[chosen].mean(axis=1)) / best if best > 0 else np.full(len(guesses), np.nan)
    above = (peak > guesses).mean(axis=1)
    return np.stack([_spearman(guesses, mean), _spearman(guesses, peak), gain, above], axis=1)


def _spearman(guesses: Floats, truth: Floats) -> Floats:
    """[predictor]: rank correlation over the nodes, NaN where all are equal."""
    ranks, wanted = rankdata(guesses, axis=1), rankdata(truth)
    ranks, wanted = ranks - ranks.mean(axis=1, keepdims=True), wanted - wanted.mean()
    size = np.sqrt((ranks**2).sum(axis=1) * (wanted**2).sum())
    return np.asarray(np.divide(ranks @ wanted, size, out=np.full(len(ranks), np.nan), where=size > 0))


def _mean(parts: Sequence[Floats]) -> list[Quality]:
    return [Quality(*map(float, each)) for each in np.mean(parts, axis=0)]


def winners(found: Mapping[str, Mapping[str, Quality]], default: str = DEFAULT) -> list[str]:
    """The candidates that order nodes better than the default by the next hour's mean, on every trace."""
    names = next(iter(found.values()))
    return [
        name
        for name in names
        if name != default and all(each[name].mean > each[default].mean for each in found.values())
    ]


def results(
    traces: Sequence[LoadTrace],
    notes: Sequence[str] = (),
    *,
    jobs: int = 1,
    begin: Callable[[int], Callable[[], None]] = lambda total: lambda: None,
) -> Results:
    """The experiment on these traces; `notes` say which ones are missing."""
    names = list(dict.fromkeys([*ORDERS, *LEVELS, *RULES]))
    found = qualities(traces, names, jobs=jobs, begin=begin)
    rows = [
        ResultRow(table, f"{trace}: {name}", None, value)
        for table, figures in _tables(found)
        for name, each in figures.items()
        for trace, value in each.items()
    ]
    orders = {trace: {name: each[name] for name in ORDERS} for trace, each in found.items()}
    better = winners(orders)
    text = "".join(f"{_TITLES[table]}\n\n{_table(figures, table)}\n" for table, figures in _tables(found))
    verdict = f"Better than {DEFAULT} on every trace: {', '.join(better) or 'none'}.\n"
    figure = dots(
        "Rank correlation with the mean of the next hour",
        {name: {trace: each[name].mean for trace, each in found.items()} for name in ORDERS},
        (0.7, 1.0),
    )
    kept = published(traces, jobs=jobs, begin=begin)
    text = f"{_PUBLISHED}\n\n{table(kept)}\n{text}"
    return Results(
        "windows",
        tuple(row for row in rows if np.isfinite(row.measured)),
        text + verdict + "".join(f"\n{note}\n" for note in notes),
        {"windows.svg": figure},
        {"better_everywhere": better, "left_out": list(notes), "published": kept},
    )


_PUBLISHED = "What the publisher keeps of the order, against the load of the next 10 minutes and of the next hour:"
ORDER_MEAN, ORDER_PEAK, GAIN, LEVEL = "order by mean", "order by peak", "gain of the lowest tenth", "peaks above level"
RULE, RULE_GAIN = "rules: order by mean", "rules: gain of the lowest tenth"
_TITLES = {
    ORDER_MEAN: "Rank correlation of the order of nodes with the mean of the next hour:",
    ORDER_PEAK: "Rank correlation with the peak of the next hour:",
    GAIN: "What the tenth of the nodes with the lowest prediction wins, as a share of what the truly lowest wins:",
    LEVEL: "As a level: share of nodes and moments whose next hour has a peak above it:",
    RULE: "The rules of other projects, with their defaults; rank correlation with the mean of the next hour:",
    RULE_GAIN: "What the tenth of the nodes that they prefer wins, as a share of what the truly lowest tenth wins:",
}


def _tables(found: Mapping[str, Mapping[str, Quality]]) -> list[tuple[str, dict[str, dict[str, float]]]]:
    """Table, then predictor, then trace."""

    def figures(names: Mapping[str, Predictor], figure: str) -> dict[str, dict[str, float]]:
        return {name: {trace: getattr(each[name], figure) for trace, each in found.items()} for name in names}

    return [
        (ORDER_MEAN, figures(ORDERS, "mean")),
        (ORDER_PEAK, figures(ORDERS, "peak")),
        (GAIN, figures(ORDERS, "gain")),
        (LEVEL, figures(LEVELS, "above")),
        (RULE, figures(RULES, "mean")),
        (RULE_GAIN, figures(RULES, "gain")),
    ]


def _table(figures: Mapping[str, Mapping[str, float]], table: str) -> str:
    """Of each trace the best value is bold; a level has none."""
    traces = list(next(iter(figures.values())))
    best = {trace: max(each[trace] for each in figures.values()) for trace in traces}

    def cell(trace: str, value: float) -> str:
        if not np.isfinite(value):
            return "–"
        shown = f"{100 * value:.0f} %" if table in (GAIN, LEVEL, RULE_GAIN) else f"{value:.3f}"
        return f"**{shown}**" if table != LEVEL and value == best[trace] else shown

    lines = ([name, *(cell(trace, each[trace]) for trace in traces)] for name, each in figures.items())
    return markdown(["window and statistic", *traces], lines)
