from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.eviction.facts import ClusterObjects, Facts
from ballast.eviction.gate import Gate
from ballast.eviction.gate_rules import UNLIMITED, EvictionLimit, GateRules
from ballast.model.pod import Owner
from ballast.model.workload import Workload
from ballast.placement.layout import Layout
from ballast.placement.load_spread import deviations
from ballast.planners import rebalance as module
from ballast.planners.aims import Aims
from ballast.planners.eviction_plan import make_plan
from ballast.planners.rebalance import even_out
from ballast.planners.steepest_moves import steepest_moves
from ballast.planners.step import PlannedMove, Worth
from tests.properties import examples
from tests.worlds.planning import a_layout, a_node, a_pod, every_node, everybody, standing_of

OWNERS = [Owner("ReplicaSet", f"w{number}", f"u{number}", True) for number in range(6)]


def always(pod: int, target: int) -> None:
    return None


def uneven(nodes: int, each: int, seed: int, owners: Sequence[Owner | None] = OWNERS, **more: Any) -> Layout:
    g = np.random.default_rng(seed)
    sizes = g.choice([50.0, 100.0], nodes)
    homes = g.choice(nodes, nodes * each, p=sizes / sizes.sum())
    placed = [
        a_pod(
            f"p{i:04}",
            float(g.lognormal(0.7, 0.6)),
            float(g.lognormal(0.7, 0.6)),
            f"n{home:02}",
            uid=f"u{i}",
            owner=owners[i % len(owners)],
            ready=True,
        )
        for i, home in enumerate(homes.tolist())
    ]
    labels = [{"pool": str(row % 2)} for row in range(nodes)]
    listed = [a_node(f"n{row:02}", sizes[row], sizes[row], labels=labels[row], created=1.0) for row in range(nodes)]
    return a_layout(listed, placed, **more)


def sigma(layout: Layout, load: Any) -> float:
    return float(np.sqrt(np.square(deviations(load, every_node(layout), layout.pool)).mean()))


def towards(layout: Layout, **more: Any) -> tuple[list[PlannedMove], float]:
    standing = standing_of(layout, more.pop("ceiling", 0.9))
    steps = list(even_out(standing, everybody(layout), every_node(layout), always, rehearse=lambda: always, **more))
    return steps, sigma(layout, standing.load)


def steepest(layout: Layout, **more: Any) -> tuple[list[PlannedMove], float]:
    standing = standing_of(layout, more.pop("ceiling", 0.9))
    steps = list(steepest_moves(standing, everybody(layout), every_node(layout), always, **more))
    return steps, sigma(layout, standing.load)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("limit", [24, None], ids=["a tenth of the pods", "any number"])
def test_many_moves_leave_less_than_the_steepest(seed: int, limit: int | None) -> None:
    layout = uneven(12, 20, seed, owners=[None])
    steps, left = towards(layout, limit=limit)
    assert left < 0.97 * steepest(layout, limit=limit)[1]
    assert limit is None or len(steps) <= limit
    assert towards(layout, limit=limit)[0] == steps


def test_few_moves_are_the_steepest() -> None:
    layout = uneven(12, 20, 0)
    assert towards(layout, limit=10) == steepest(layout, limit=10)


def test_a_cluster_beyond_the_bound_takes_the_steepest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST", 12 * 240 - 1)
    layout = uneven(12, 20, 0)
    assert towards(layout) == steepest(layout)


@examples(15)
@given(st.integers(0, 1000), st.sampled_from([None, 3, 6]), st.sampled_from([0.0, 0.3, 3.0]), st.booleans())
def test_each_move_pays_by_itself_and_all_gain_no_less(seed: int, limit: int | None, price: float, pools: bool) -> None:
    layout = uneven(5, 6, seed, pool_label="pool" if pools else None)
    worth = Worth(np.full(len(layout.pods), price), np.full(layout.load.shape, 0.002), 1.0)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "LEAST", 1)
        patched.setattr(module, "EVALUATIONS_PER_POD", 50)
        steps, _ = towards(layout, ceiling=0.5, limit=limit, worth=worth)
    standing = standing_of(layout, 0.5)
    for step in steps:
        assert step.gain - step.error > step.cost - 1e-9
        assert standing.open_to(step.pod)[step.target]
        standing.move(step.pod, step.target)
    before, _ = steepest(layout, ceiling=0.5, limit=limit, worth=worth)
    assert len({step.pod for step in steps}) == len(steps)
    assert sum(step.gain - step.cost for step in steps) >= sum(step.gain - step.cost for step in before) - 1e-12


@pytest.mark.slow
def test_drafts_count_against_no_limit() -> None:
    layout = uneven(12, 20, 0)
    workloads = [Workload("ReplicaSet", "a", each.name, each.uid, replicas=40) for each in OWNERS]
    facts = Facts(ClusterObjects(layout.nodes, layout.pods, workloads, ()), now=1_700_000_000.0)
    open_gate = {"limit_node": UNLIMITED, "limit_namespace": UNLIMITED, "limit_workload": UNLIMITED, "rates": ()}
    for most in (25, 60):
        gate = Gate(facts, GateRules(limit_total=EvictionLimit(most), **open_gate))  # type: ignore[arg-type]
        plan = make_plan("rebalance", layout, gate, Aims(target_high=0.9, high=0.95))
        assert gate.tally.total == len(plan.steps) <= most
        assert len(plan.steps) >= 20
