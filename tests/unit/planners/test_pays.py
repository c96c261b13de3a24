"""Noise moves nothing; what is uneven moves as before; of victims that relieve nearly as much the cheap one goes."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ballast.eviction.price import DEAREST, price_of
from ballast.model.node import Node
from ballast.model.node_state import NodeStates
from ballast.model.pod import Owner
from ballast.model.sample import Floats
from ballast.model.snapshot import Snapshot, Window
from ballast.placement.layout import Layout
from ballast.placement.load_spread import deviations
from ballast.planners.relieve import relieve
from ballast.planners.steepest_moves import steepest_moves
from ballast.planners.step import PlannedMove, Worth
from ballast.planners.thresholds import Thresholds
from ballast.windows.standard_error import LoadErrors
from tests.worlds import planning
from tests.worlds.planning import every_node, everybody, standing_of
from tests.worlds.shop import DEPLOYMENT, SET, WEB, Shop, a_pod

EVERY = 30.0
LENGTHS = (900.0, 600.0, 300.0)
MEAN = 0.65
WORLDS = [(40, 20), (5, 20)]


def world(nodes: int, each: int) -> Layout:
    """Equal nodes with equal pods, of 16 cores and 64 GiB."""
    homes = [f"n{node:03}" for node in range(nodes)]
    pods = [planning.a_pod(f"p{node:03}-{pod:03}", on=homes[node]) for node in range(nodes) for pod in range(each)]
    layout = planning.a_layout([planning.a_node(name) for name in homes], pods, load=np.full((nodes, 2), MEAN))
    return replace(layout, used=layout.whole[layout.on] * MEAN / each)


def samples(layout: Layout, noise: float, hours: float, hold: int, seed: int) -> Floats:
    """[time, pod, resource]: factors around 1 of what a pod uses, each held for `hold` samples."""
    g, count = np.random.default_rng(seed), int(hours * 3600 / EVERY)
    drawn = g.normal(1.0, noise, (-(-count // hold) + 1, len(layout.pods), 2)).astype(np.float32)
    return np.repeat(drawn, hold, axis=0)[hold // 3 : hold // 3 + count].astype(float)


def looks(layout: Layout, factors: Floats) -> Iterator[Layout]:
    """The layout at every second sample as the daemon sees it: means of windows, errors of the loads."""
    nodes = tuple(Node(node.name) for node in layout.nodes)
    home, count = layout.on, len(nodes)
    share = layout.used / layout.whole[home]
    load = np.stack([np.stack([np.bincount(home, (f * share)[:, k], count) for k in (0, 1)]) for f in factors])
    errors = LoadErrors(lag=120.0)
    for end in range(int(LENGTHS[0] / EVERY), len(load), 2):
        windows = {}
        for seconds in LENGTHS:
            part = load[end - int(seconds / EVERY) : end]
            mean, full = part.mean(axis=0), np.ones((2, count))
            windows[f"{seconds:g}s"] = Window(
                f"{seconds:g}s",
                seconds,
                mean,
                part.std(axis=0),
                mean,
                full.astype(np.int64) * len(part),
                full,
                full > 0,
            )
        known = NodeStates.of(np.ones(count, bool))
        snapshot = Snapshot(end * EVERY, nodes, ("cpu", "memory"), windows, mean, mean, known)
        errors.observe(snapshot)
        assert errors.newest is not None
        used = layout.used * factors[end - int(LENGTHS[0] / EVERY) : end].mean(axis=0)
        yield replace(layout, load=snapshot.primary.mean.T, error=errors.newest[1].T, used=used)


def moves(
    layout: Layout, *, confidence: float = 3.0, price: float = 1.0, limit: int | None = None
) -> list[PlannedMove]:
    worth = Worth(np.full(len(layout.pods), price), layout.error, confidence)
    standing = standing_of(layout, 0.9)
    steps = steepest_moves(standing, everybody(layout), every_node(layout), lambda *_: None, limit=limit, worth=worth)
    return list(steps)


@pytest.mark.slow
@pytest.mark.parametrize("hold", [1, 30], ids=["each sample", "each window"])
@pytest.mark.parametrize("noise", [0.02, 0.1])
@pytest.mark.parametrize(("nodes", "each"), WORLDS)
def test_noise_moves_nothing(nodes: int, each: int, noise: float, hold: int) -> None:
    layout = world(nodes, each)
    for seen in looks(layout, samples(layout, noise, 3.0, hold, seed=nodes + hold)):
        assert moves(seen, limit=1) == []


@pytest.mark.parametrize(("nodes", "each"), WORLDS)
def test_what_is_truly_uneven_moves_as_before(nodes: int, each: int) -> None:
    layout = world(nodes, each)
    factors = samples(layout, 0.05, 1.0, 1, seed=3)
    uneven = np.random.default_rng(1).uniform(0.6, 1.4, nodes).astype(np.float32)
    *_, seen = looks(layout, factors * uneven[layout.on][None, :, None])
    now = moves(seen, limit=nodes // 5)
    before = moves(seen, confidence=0.0, price=0.0, limit=len(now))
    assert len(now) == nodes // 5
    assert fall(seen, now) >= 0.9 * fall(seen, before)


def fall(layout: Layout, steps: list[PlannedMove]) -> float:
    standing = standing_of(layout, 0.9)
    before = deviations(standing.load, every_node(layout), layout.pool).sum()
    for step in steps:
        standing.move(step.pod, step.target)
    return float(before - deviations(standing.load, every_node(layout), layout.pool).sum())


def test_a_move_pays_more_than_its_error_and_its_price() -> None:
    layout = world(10, 10)
    load = layout.load * np.linspace(0.5, 1.3, 10)[:, None]
    seen = replace(layout, load=load, used=layout.used * (load / layout.load)[layout.on], error=np.full((10, 2), 0.01))
    found = moves(seen)
    assert found
    assert all(step.gain > 3 * step.error + step.cost and step.error > 0 < step.cost for step in found)
    assert len(moves(seen, price=30.0)) < len(found) < len(moves(seen, confidence=0.0, price=0.0))


def test_the_cheaper_of_victims_that_relieve_nearly_as_much_goes() -> None:
    layout = world(3, 4)
    used = layout.used.copy()
    used[:4] *= np.array([1.0, 1.02, 0.95, 0.5])[:, None]
    layout = replace(layout, used=used, load=np.array([[0.95, 0.95], [0.2, 0.2], [0.2, 0.2]]))
    price = np.ones(len(layout.pods))
    thresholds = Thresholds.absolute(layout.load, 0.8, 0.6, layout.resources)

    def victim() -> int:
        standing = standing_of(layout, 0.8)
        worth = Worth(price, layout.error)
        counted = every_node(layout)
        return next(relieve(standing, everybody(layout), counted, lambda *_: None, thresholds, worth=worth)).pod

    assert victim() == 1
    price[1], price[2], price[3] = 8.0, 0.25, 0.05
    assert victim() == 2


def test_what_makes_an_eviction_dear() -> None:
    shop = Shop(workloads=(DEPLOYMENT, SET))
    facts = shop.gate().facts

    def price(restarts: float = 30.0, **more: Any) -> float:
        return price_of(facts, a_pod(**more), {WEB: restarts})

    ordinary = price()
    assert price(priority=1_000_000) > price(priority=10) > ordinary > price(priority=-10)
    for key in ("controller.kubernetes.io/pod-deletion-cost", "scheduling.koordinator.sh/eviction-cost"):
        assert price(annotations={key: "1000"}) > ordinary > price(annotations={key: "-100"})
        assert price(annotations={key: "dear"}) == ordinary
    assert price(restarts=300.0) > ordinary > price(restarts=2.0)
    assert price(grace=120) == 2 * ordinary == 2 * price(grace=5)
    assert price(owner=Owner("CloneSet", "one", "u", True)) > ordinary


@pytest.mark.parametrize(
    "key", ["controller.kubernetes.io/pod-deletion-cost", "scheduling.koordinator.sh/eviction-cost"]
)
def test_a_cost_of_thousands_of_digits_is_the_dearest_or_cheapest(key: str) -> None:
    shop = Shop(workloads=(DEPLOYMENT, SET))
    facts = shop.gate().facts
    assert price_of(facts, a_pod(annotations={key: "9" * 4000}), {}) == DEAREST
    assert price_of(facts, a_pod(annotations={key: "-" + "9" * 4000}), {}) == 1 / DEAREST
