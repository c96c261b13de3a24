"""Whether a scheduler follows the score labels, told from where pods land alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from ballast.base.errors import BallastError
from ballast.doctor.cluster_view import CheckNotPossible
from ballast.doctor.finding import Finding
from ballast.model.sample import Bools, Floats
from ballast.placement.node_constraints import NodeConstraints
from ballast.publishing.node_keys import NodeKeys
from ballast.scoring.demand import DEFAULT_REQUESTS
from ballast.settings import Mode
from ballast.telemetry.prometheus_client import Grid, PrometheusClient

if TYPE_CHECKING:
    from ballast.doctor.evidence import Evidence
    from ballast.model.node import Node
    from ballast.model.pod import Pod

NEWEST = 50
"""Pods of one scheduler that count, at most."""
FEWEST = 8
RECENT = 1800.0
"""Seconds; labels of longer ago are not those that the scheduler saw."""
STEP = 15.0
"""Seconds between two points of the history of scores."""
BEST = 0.75
"""The best labels are the quarter at the top of the nodes that a pod could go to."""
SURE = 10.8
"""Likelihood ratio that chance passes once in a thousand times (chi-squared, one degree of freedom)."""
OFFERED = 200
"""Nodes beside the chosen one that are compared, at most; a random part of them leaves the estimate unbiased."""
_UNMANAGED = ("DaemonSet", "Node")


@dataclass(frozen=True, eq=False)
class Landing:
    """One pod and the nodes that it could have gone to. `chosen` is a row of these.

    `other` [3, node] are what a stock scheduler goes by, 0..1: free room, evenness of the room, siblings elsewhere.
    `label` [node] is the score label at that time as a share of the highest of them, 0 where there is none.
    """

    chosen: int
    other: Floats
    label: Floats


@dataclass(frozen=True)
class Following:
    """`share` of the pods landed on nodes of the best labels, with its 95 % interval; `chance` is what would by luck.

    `follows` is None where these pods cannot tell.
    """

    share: float
    low: float
    high: float
    chance: float
    follows: bool | None


def scheduler_follows(evidence: Evidence) -> Iterator[Finding]:
    """Whether pods go where the score labels say: does any scheduler listen? Told from where pods landed.

    Found: the newest pods (50 at most, of the last half hour) went where free requests explain it, not the labels.
    Fix: `ballast profile labels`, `--set scheduler.enabled=true --set scheduler.pairing=labels`
    """
    publishing = evidence.settings.publishing
    if publishing.mode is not Mode.ON:
        raise CheckNotPossible(
            f"not looked at: BALLAST_PUBLISHING__MODE is {publishing.mode.value}, so there are no labels"
        )
    key = NodeKeys.of(publishing.prefix, publishing.label_prefix).score
    labels = np.array([_number(node.labels.get(key)) for node in evidence.nodes])
    if len(np.unique(labels)) < 2:
        raise CheckNotPossible(f"not looked at: the label {key} is the same on all {len(labels):,} nodes, or on none")
    landings = landings_of(evidence.nodes, evidence.pods, _Scores(evidence, labels), evidence.clock.wall())
    judged = {name: judge(rows) for name, rows in sorted(landings.items()) if len(rows) >= FEWEST}
    if not judged:
        count = max(map(len, landings.values()), default=0)
        raise CheckNotPossible(
            f"not looked at: {count} pods of one scheduler landed in the last {RECENT / 60:g} min; {FEWEST} are needed"
        )
    anybody = any(result.follows for result in judged.values())
    for name, result in judged.items():
        yield _finding(name, len(landings[name]), result, anybody)


def landings_of(nodes: Sequence[Node], pods: Sequence[Pod], labels: _Scores, now: float) -> dict[str, list[Landing]]:
    """By scheduler: the newest pods, oldest first. The room at each landing is replayed from pods that still run."""
    rows = {node.name: row for row, node in enumerate(nodes)}
    amounts = np.array([[node.allocatable.get(name, 0.0) for name in ("cpu", "memory")] for node in nodes])
    total = np.maximum(amounts, 1e-9)
    constraints = NodeConstraints(nodes)
    taken = np.zeros_like(total)
    siblings: dict[object, Floats] = {}
    random = np.random.default_rng(0)
    landings: dict[str, list[Landing]] = {}
    bound = sorted((pod for pod in pods if pod.node in rows), key=lambda pod: (pod.scheduled_at or 0.0, pod.name))
    for pod in bound:
        asked = np.array([pod.shape.requests.get(name) or DEFAULT_REQUESTS[name] for name in ("cpu", "memory")])
        own = siblings.setdefault((pod.namespace, pod.owner.uid if pod.owner else pod.uid), np.zeros(len(nodes)))
        row = rows[pod.node]
        if _tells(pod, now):
            fits = constraints.allowed(pod.template) & (taken + asked <= total).all(axis=1)
            offered = _offer(fits, row, random)
            share = np.clip((taken[offered] + asked) / total[offered], 0.0, 1.0)
            other = np.array([1 - share.mean(axis=1), 1 - share.std(axis=1), 1 - own[offered] / max(own.max(), 1.0)])
            label = labels.at(pod.scheduled_at or now)[offered]
            landing = Landing(int(np.flatnonzero(offered == row)[0]), other, label / max(label.max(), 1e-9))
            landings.setdefault(pod.scheduler_name, []).append(landing)
        taken[row] += asked
        own[row] += 1
    return {name: found[-NEWEST:] for name, found in landings.items()}


def judge(landings: Sequence[Landing]) -> Following:
    """By a conditional logit: do the labels explain the choices beyond what a stock scheduler goes by?

    The same question about pods that had followed tells whether these pods could show it at all.
    """
    best = [landing.label >= np.quantile(landing.label, BEST) for landing in landings]
    hits = [float(mask[landing.chosen]) for mask, landing in zip(best, landings, strict=True)]
    low, high = wilson(sum(hits), len(hits))
    ratio = label_ratio(landings)
    follows: bool | None = ratio > SURE
    if not follows:
        asked = [
            Landing(int(np.argmax(landing.other.sum(axis=0) + landing.label)), landing.other, landing.label)
            for landing in landings
        ]
        follows = False if label_ratio(asked) > SURE else None
    return Following(float(np.mean(hits)), low, high, float(np.mean([mask.mean() for mask in best])), follows)


def label_ratio(landings: Sequence[Landing]) -> float:
    """Twice what the labels add to the log likelihood of the choices; 0 where they repel."""
    full = [np.vstack([landing.other, landing.label]) for landing in landings]
    chosen = [landing.chosen for landing in landings]
    weights, with_labels = _fit(full, chosen)
    _, without = _fit([landing.other for landing in landings], chosen)
    return max(0.0, 2 * (with_labels - without)) if weights[-1] > 0 else 0.0


RIDGE = 1e-3
"""Of a squared weight: keeps choices without any chance in them at finite weights."""


def _fit(features: Sequence[Floats], chosen: Sequence[int]) -> tuple[Floats, float]:
    """Weights of largest likelihood and that log likelihood, by Newton's steps; softmax over each [feature, node]."""
    size = len(features[0])
    weights = np.zeros(size)
    value = _likelihood(weights, features, chosen)
    for _ in range(60):
        slope, bend = -2 * RIDGE * weights, 2 * RIDGE * np.eye(size)
        for matrix, row in zip(features, chosen, strict=True):
            odds = _odds(weights, matrix)
            mean = matrix @ odds
            slope = slope + matrix[:, row] - mean
            bend = bend + (matrix * odds) @ matrix.T - np.outer(mean, mean)
        step = np.linalg.solve(bend, slope)
        better = _likelihood(weights + step, features, chosen)
        while better < value and np.abs(step).max() > 1e-6:  # a whole step overshoots where choices are certain
            step = step / 2
            better = _likelihood(weights + step, features, chosen)
        if better - value < 1e-6:
            break
        weights, value = weights + step, better
    return weights, value


def _likelihood(weights: Floats, features: Sequence[Floats], chosen: Sequence[int]) -> float:
    total = -RIDGE * float(weights @ weights)
    for matrix, row in zip(features, chosen, strict=True):
        points = weights @ matrix
        top = points.max()
        total += float(points[row] - top - np.log(np.exp(points - top).sum()))
    return total


def _odds(weights: Floats, matrix: Floats) -> Floats:
    points = weights @ matrix
    odds = np.exp(points - points.max())
    return np.asarray(odds / odds.sum(), float)


def wilson(hits: float, count: int) -> tuple[float, float]:
    """The 95 % interval of a share. Source: Wilson 1927, Probable inference."""
    z = 1.96
    share, spread = hits / count, z * z / count
    middle = (share + spread / 2) / (1 + spread)
    half = z / (1 + spread) * math.sqrt(share * (1 - share) / count + spread / (4 * count))
    return max(0.0, middle - half), min(1.0, middle + half)


class _Scores:
    """[node] scores at a time: from a Prometheus that scrapes Ballast, else the labels of now."""

    def __init__(self, evidence: Evidence, labels: Floats) -> None:
        self._labels = labels
        self._grid = Grid(evidence.clock.wall() // STEP * STEP - RECENT, STEP, round(RECENT / STEP) + 1)
        self._history = _history(evidence, self._grid)

    def at(self, time: float) -> Floats:
        """The newest scores that the scheduler may have seen; labels of now where there is no history."""
        index = min(max(int((time - self._grid.start) // self._grid.step), 0), self._grid.count - 1)
        past = self._history[:, index] if self._history is not None else self._labels
        return np.nan_to_num(past) if np.isfinite(past).any() else self._labels


def _history(evidence: Evidence, grid: Grid) -> Floats | None:
    """[node, time]; NaN where unknown. None where Prometheus has no scores."""
    if evidence.settings.prometheus.url is None or evidence.answer is not None:
        return None
    client = PrometheusClient(evidence.settings)
    try:
        answer: Mapping[str, Any] = msgspec.json.decode(client.ask("max by (node) (ballast_node_score)", grid))
    except (BallastError, msgspec.DecodeError):
        return None
    finally:
        client.close()
    rows = {node.name: row for row, node in enumerate(evidence.nodes)}
    history = np.full((len(rows), grid.count), np.nan)
    for series in answer["data"]["result"]:
        row = rows.get(series["metric"].get("node", ""))
        for time, text in series["values"] if row is not None else ():
            history[row, round((time - grid.start) / grid.step) % grid.count] = float(text)
    return history if np.isfinite(history).any() else None


def _tells(pod: Pod, now: float) -> bool:
    """Whether a scheduler chose its node a short while ago, by what is known of the pod."""
    chosen = pod.scheduled_at is not None and now - RECENT <= pod.scheduled_at
    owned = pod.owner is not None and pod.owner.kind in _UNMANAGED
    return chosen and not owned and not pod.template.opaque and not pod.template.preferred


def _offer(fits: Bools, row: int, random: np.random.Generator) -> Any:
    """Rows of the nodes that are compared, the chosen one among them."""
    others = np.flatnonzero(fits)
    others = others[others != row]
    if len(others) > OFFERED:
        others = random.choice(others, OFFERED, replace=False)
    return np.append(others, row)


def _number(text: str | None) -> float:
    return float(text) if text is not None and text.isdecimal() and len(text) < 4 else 0.0


def _finding(name: str, count: int, result: Following, anybody: bool) -> Finding:
    seen = (
        f"{result.share:.0%} of its newest {count} pods landed on the quarter of nodes with the best labels "
        f"(95 % interval {result.low:.0%} to {result.high:.0%}; {result.chance:.0%} of these nodes have them)"
    )
    fix: tuple[str, ...] = ()
    if result.follows:
        status, what = "ok", "it follows the labels"
    elif result.follows is None:
        status, what = "skipped", "whether it follows the labels cannot be told yet: free requests explain it as well"
    elif anybody:
        status, what = "ok", "it does not follow the labels; another scheduler does"
    else:
        status, what = "warn", "nobody listens: free requests explain where its pods went, the labels do not"
        fix = (
            "helm upgrade ballast charts/ballast --namespace ballast --reset-then-reuse-values "
            "--set scheduler.enabled=true --set scheduler.pairing=labels",
            "ballast profile labels",
        )
    bounds = (round(result.share, 4), round(result.low, 4), round(result.high, 4))
    return Finding("scheduler-follows", status, name, f"{what}; {seen}", fix, *bounds)  # type: ignore[arg-type]
