"""All nodes in columns, for the wall and the table of the page; names apart from loads, which change all the time."""

import hashlib
from collections.abc import Sequence
from typing import Protocol

import msgspec
import numpy as np

from ballast.answers.views import FleetLoads, FleetNames, FoundPod
from ballast.model.node_state import NodeState
from ballast.model.pod import Pod
from ballast.model.sample import Floats
from ballast.model.snapshot import Snapshot, Window
from ballast.serving.fleet_history import SCORE, FleetHistory
from ballast.serving.nodes import Verdicts

ZONES = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
STATES = tuple(state.value for state in NodeState)
CLASSES = ("low", "normal", "high")


def roster(snapshot: Snapshot) -> str:
    """Names the order of the nodes: columns of the same roster belong together."""
    return hashlib.blake2b("\n".join(node.name for node in snapshot.nodes).encode(), digest_size=8).hexdigest()


def names(snapshot: Snapshot) -> bytes:
    """`answers.views.FleetNames` as JSON."""
    zones = [next((node.labels[key] for key in ZONES if key in node.labels), "") for node in snapshot.nodes]
    pools, pool = _indexed([snapshot.pool(row) for row in range(len(snapshot.nodes))])
    known_zones, zone = _indexed(zones)
    listed = [node.name for node in snapshot.nodes]
    return msgspec.json.encode(FleetNames(roster(snapshot), listed, pools, pool, known_zones, zone))


def loads(snapshot: Snapshot, verdicts: Verdicts, window: Window) -> bytes:
    """`answers.views.FleetLoads` as JSON, over one window."""
    nodes, known = snapshot.nodes, snapshot.known.tolist()
    carried = f"{verdicts.prefix}/score"
    label = f"{verdicts.prefix}/load"
    classes = [
        verdicts.classes.get(node.name) or node.labels.get(label) if there else None
        for node, there in zip(nodes, known, strict=True)
    ]
    return msgspec.json.encode(
        FleetLoads(
            roster(snapshot),
            snapshot.time,
            window.name,
            snapshot.resources,
            {name: _thousandths(window.mean[row]) for row, name in enumerate(snapshot.resources)},
            [verdicts.scores.get(node.name) if there else None for node, there in zip(nodes, known, strict=True)],
            [int(code) for code in snapshot.states.codes],
            [CLASSES.index(name) if name in CLASSES else None for name in classes],
            [_whole(node.labels.get(carried)) for node in nodes],
            [int(node.schedulable) for node in nodes],
        )
    )


def past(snapshot: Snapshot, history: FleetHistory, time: float) -> bytes | None:
    """`answers.views.FleetLoads` as they were, of the nodes there are now; None where nothing of that time is kept."""
    recorded = history.at(time, [node.name for node in snapshot.nodes])
    if recorded is None:
        return None
    began, values = recorded
    score = values.pop(SCORE)
    measured = np.any([np.isfinite(column) for column in values.values()] or [np.isfinite(score)], axis=0)
    count = len(snapshot.nodes)
    return msgspec.json.encode(
        FleetLoads(
            roster(snapshot),
            began,
            "5m",
            tuple(values),
            {name: _thousandths(column) for name, column in values.items()},
            [None if np.isnan(value) else round(value) for value in score.tolist()],
            [STATES.index("known" if is_measured else "silent") for is_measured in measured.tolist()],
            [None] * count,
            [None] * count,
            [int(node.schedulable) for node in snapshot.nodes],
        )
    )


def _indexed(values: Sequence[str]) -> tuple[list[str], list[int]]:
    """The distinct values, and the place of each node's among them."""
    numbers: dict[str, int] = {}
    places = [numbers.setdefault(value, len(numbers)) for value in values]
    return list(numbers), places


def _thousandths(values: Floats) -> list[int | None]:
    finite = np.isfinite(values)
    rounded = np.rint(np.where(finite, values, 0.0) * 1000).astype(np.int64).tolist()
    return [value if known else None for value, known in zip(rounded, finite.tolist(), strict=True)]


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) <= 3 else None


FOUND = 20
"""Pods that a search gives."""


class Pods(Protocol):
    """The watch of pods."""

    def pods(self) -> Sequence[Pod]: ...


def find_pods(cache: Pods, text: str) -> list[FoundPod]:
    """The first ones by name whose namespace/name contains `text`, whatever its case."""
    part = text.lower()
    names = sorted(
        (f"{pod.namespace}/{pod.name}", pod.node)
        for pod in cache.pods()
        if part in f"{pod.namespace}/{pod.name}".lower() and not pod.finished
    )
    return [FoundPod(name, node or None) for name, node in names[:FOUND]]
