"""Small snapshots for the tests of publishing."""

from collections.abc import Mapping, Sequence

import numpy as np

from ballast.model.node import Node
from ballast.model.node_state import NodeStates
from ballast.model.snapshot import Snapshot, Window
from ballast.publishing.label_plan import LabelRules, PublishedKeys
from ballast.publishing.node_keys import NodeKeys

KEYS = NodeKeys.of("ballast.dev")
RULES = LabelRules(
    low=0.3,
    high=0.8,
    overloaded=0.9,
    hysteresis=0.05,
    refresh=3600.0,
    jitter=0.1,
    forget_after=3600.0,
    interval=30.0,
    taint=False,
)


def snapshot_of(
    loads: Mapping[str, tuple[float, float] | None],
    *,
    at: float = 1_700_000_000.0,
    young: Sequence[str] = (),
    nodes: Mapping[str, Node] | None = None,
) -> Snapshot:
    """One 15m window of cpu and memory; None is an unknown node, NaN an unknown resource."""
    names = sorted(loads)
    mean = np.array([[np.nan if loads[n] is None else loads[n][k] for n in names] for k in (0, 1)], dtype=float)  # type: ignore[index]
    known = ~np.isnan(mean)
    window = Window(
        name="15m",
        seconds=900.0,
        mean=mean,
        std=np.where(known, 0.0, np.nan),
        p95=mean,
        count=np.where(known, 60, 0),
        coverage=known.astype(float),
        known=known,
    )
    return Snapshot(
        time=at,
        nodes=tuple((nodes or {}).get(n, Node(name=n)) for n in names),
        resources=("cpu", "memory"),
        windows={"15m": window},
        newest=np.where(known, at, np.nan),
        allocatable_share=np.ones_like(mean),
        states=NodeStates.of(known.any(axis=0), np.array([n in young for n in names], bool), 2),
    )


def carried_by(nodes: Sequence[Node]) -> dict[str, PublishedKeys]:
    return {node.name: PublishedKeys.of(node, KEYS) for node in nodes}
