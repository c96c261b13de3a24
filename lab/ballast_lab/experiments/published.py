"""What of the measured order of nodes the publisher's label and annotation keep, on recorded load.

Each part of a trace is a cluster with a cycle at every sample. Its 15-minute means go through the publisher as it is
(`LabelPlanner`: steps, waiting, refreshes); every 15 minutes each of them is compared with the load of the next 10
minutes and of the next hour.
"""

import json
import warnings
from collections.abc import Callable, Sequence

import numpy as np
from scipy.stats import rankdata

from ballast.jobs.publishing import label_rules
from ballast.model.node import Node
from ballast.model.node_state import NodeStates
from ballast.model.sample import Floats
from ballast.model.snapshot import Snapshot, Window
from ballast.publishing.freeze import Freeze
from ballast.publishing.label_plan import LabelPlanner, PublishedKeys
from ballast.publishing.node_keys import NodeKeys
from ballast.scoring.load_variation import label_score, resource_score
from ballast.scoring.scores import half_away
from ballast.settings import load
from ballast_lab.experiments.load_traces import LoadTrace
from ballast_lab.experiments.results import markdown
from ballast_lab.experiments.running import run

WINDOW, EVERY, FIRST = 900.0, 900.0, 1800.0
HORIZONS = {"10m": 600.0, "1h": 3600.0}
NAMES = ("mean", "score", "label", "annotation")
FEWEST = 5
LONGEST = 8 * 86_400.0
"""Seconds of a part that are replayed."""
Row = dict[str, object]


def published(
    traces: Sequence[LoadTrace],
    *,
    jobs: int = 1,
    begin: Callable[[int], Callable[[], None]] = lambda total: lambda: None,
) -> list[Row]:
    """One row a trace, horizon and name: means over the parts of the trace and over time."""
    calls = [(part[:, : round(LONGEST / trace.step)], trace.step) for trace in traces for part in trace.parts]
    measured = iter(run(_replay, calls, jobs, begin(len(calls))))
    rows: list[Row] = []
    for trace in traces:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a trace that is too short for one comparison is NaN
            figures = np.nanmean([next(measured) for _ in trace.parts], axis=0)
        for (number, horizon), (place, name) in (
            (first, second) for first in enumerate(HORIZONS) for second in enumerate(NAMES)
        ):
            rho, gain, best, writes = (
                None if np.isnan(value) else round(float(value), 4) for value in figures[number, place]
            )
            rows.append(
                {
                    "trace": trace.name,
                    "horizon": horizon,
                    "name": name,
                    "rho": rho,
                    "gain": gain,
                    "best_share": best,
                    "writes_per_node_hour": writes,
                }
            )
    return rows


def table(rows: Sequence[Row]) -> str:
    """Markdown: of each trace and horizon the order, the gain, the nodes with the best value, and writes."""

    def cell(value: object, percent: bool = False) -> str:
        return "–" if not isinstance(value, float) else f"{100 * value:.0f} %" if percent else f"{value:.3f}"

    lines = [
        [
            f"{row['trace']}, {row['horizon']}",
            str(row["name"]),
            cell(row["rho"]),
            cell(row["gain"], True),
            cell(row["best_share"], True),
            cell(row["writes_per_node_hour"]),
        ]
        for row in rows
    ]
    return markdown(["trace, horizon", "as", "order", "gain", "nodes with the best", "writes / node h"], lines)


def _replay(loads: Floats, step: float) -> Floats:
    """[horizon, name, figure] of one part [node, sample]."""
    settings = load({"BALLAST_TELEMETRY__INTERVAL": f"{step:g}s"})
    keys = NodeKeys.of(settings.publishing.prefix, settings.publishing.label_prefix)
    planner, calm = LabelPlanner(keys, label_rules(settings)), Freeze(1.0, 1e9)
    names = [f"n{row}" for row in range(len(loads))]
    nodes = tuple(Node(name, uid=name) for name in names)
    carried = {name: PublishedKeys(None, None, None, tainted=False) for name in names}
    writes, figures, cycles = np.zeros(2), [], 0
    width, longest = round(WINDOW / step), round(max(HORIZONS.values()) / step)
    for now in range(round(FIRST / step), loads.shape[1] - longest + 1):
        snapshot = _snapshot(nodes, loads[:, max(0, now - width) : now], now * step)
        mean, deviation = snapshot.primary.mean[0], snapshot.primary.std[0]
        scores = [None if np.isnan(score) else float(score) for score in label_score(mean)]
        cycles += 1
        for change in planner.plan(snapshot, dict(zip(names, scores, strict=True)), carried, calm, now * step):
            old = carried[change.node]
            writes += keys.score in change.labels, bool(change.annotations)
            carried[change.node] = PublishedKeys(
                change.labels.get(keys.score, old.score),
                change.labels.get(keys.load, old.load),
                change.annotations.get(keys.window, old.window),
                tainted=False,
            )
        if now * step % EVERY < step:
            labels = np.array([np.nan if keyed.score is None else float(keyed.score) for keyed in carried.values()])
            noted = np.array([_cpu(keyed.window) for keyed in carried.values()])
            score = half_away(resource_score(np.ones(len(mean)), 0.0, mean, deviation))
            guesses = np.stack([mean, -score, -labels, noted])
            figures.append(
                [_figures(guesses, loads[:, now : now + round(ahead / step)]) for ahead in HORIZONS.values()]
            )
    if not figures:
        return np.full((len(HORIZONS), len(NAMES), 4), np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        means = np.nanmean(np.array(figures), axis=0)
    hours = cycles * step / 3600 * len(names)
    written = np.array([np.nan, np.nan, *(writes / hours)])
    return np.concatenate([means, np.broadcast_to(written[None, :, None], (*means.shape[:2], 1))], axis=2)


def _snapshot(nodes: tuple[Node, ...], past: Floats, time: float) -> Snapshot:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        mean, deviation = np.nanmean(past, axis=1), np.nanstd(past, axis=1)
    known = np.isfinite(mean)
    count = len(nodes)
    window = Window(
        "15m",
        WINDOW,
        mean[None],
        deviation[None],
        mean[None],
        np.full((1, count), past.shape[1]),
        np.ones((1, count)),
        known[None],
    )
    return Snapshot(
        time,
        nodes,
        ("cpu",),
        {"15m": window},
        np.where(known, time, np.nan)[None],
        np.ones((1, count)),
        NodeStates.of(known),
    )


def _cpu(annotation: str | None) -> float:
    return float(json.loads(annotation)["cpu"]["mean"]) if annotation else np.nan


def _figures(guesses: Floats, future: Floats) -> Floats:
    """[name, (order, gain, share with the best)]: Spearman's correlation, and what the tenth called lowest wins."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        truth = np.nanmean(future, axis=1)
    there = np.isfinite(guesses).all(axis=0) & np.isfinite(truth)
    if there.sum() < FEWEST:
        return np.full((len(guesses), 3), np.nan)
    guesses, truth = guesses[:, there], truth[there]
    return np.array([[_order(guess, truth), _gain(guess, truth), (guess == guess.min()).mean()] for guess in guesses])


def _order(guess: Floats, truth: Floats) -> float:
    ranks, wanted = (rankdata(values) - (len(values) + 1) / 2 for values in (guess, truth))
    size = np.sqrt((ranks**2).sum() * (wanted**2).sum())
    return float(ranks @ wanted / size) if size else np.nan


def _gain(guess: Floats, truth: Floats) -> float:
    """The share of what the truly lowest tenth wins; nodes that are equal to the last of the tenth count in part."""
    tenth = max(1, len(truth) // 10)
    most = truth.mean() - np.sort(truth)[:tenth].mean()
    if most <= 0:
        return np.nan
    last = np.sort(guess)[tenth - 1]
    sure, tied = guess < last, guess == last
    chosen = (truth[sure].sum() + (tenth - sure.sum()) * truth[tied].mean()) / tenth
    return float((truth.mean() - chosen) / most)
