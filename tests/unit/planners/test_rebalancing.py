from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ballast.model.pod import Owner
from ballast.placement.layout import Layout
from ballast.placement.load_spread import deviations
from ballast.placement.siblings import ZONE
from ballast.placement.simulated_placement import SimulatedPlacement
from ballast.planners.steepest_moves import steepest_moves
from ballast.planners.step import EVEN, PlannedMove, Worth
from tests.properties import examples
from tests.worlds.planning import a_layout, a_node, a_pod, every_node, everybody, standing_of

Floats = np.ndarray[Any, np.dtype[np.float64]]


def objective(load: Floats, pool: Any) -> float:
    return float(
        sum(
            np.square(deviations(load[pool == n], np.ones((pool == n).sum(), bool), pool[pool == n])).mean()
            for n in np.unique(pool)
        )
    )


def steepest(standing: SimulatedPlacement, moved: set[int]) -> float:
    """By trying every move."""
    layout = standing.layout
    best = 0.0
    for pod in range(len(layout.pods)):
        home = int(standing.on[pod])
        if home < 0 or pod in moved:
            continue
        for target in np.flatnonzero(standing.open_to(pod)).tolist():
            load = standing.load.copy()
            load[home] -= standing.increment(pod, home)
            load[target] += standing.increment(pod, target)
            best = max(best, objective(standing.load, layout.pool) - objective(load, layout.pool))
    return best


def walk(layout: Layout, ceiling: float, limit: int | None = None) -> list[tuple[PlannedMove, float, float]]:
    """Steps with the gain of the best move and the measured one."""
    standing = standing_of(layout, ceiling)
    moved: set[int] = set()
    found = []
    expected, before = steepest(standing, moved), objective(standing.load, layout.pool)
    steps = steepest_moves(standing, everybody(layout), every_node(layout), lambda pod, target: None, limit=limit)
    for step in steps:
        after = objective(standing.load, layout.pool)
        found.append((step, expected, before - after))
        moved.add(step.pod)
        expected, before = steepest(standing, moved), after
    assert limit is not None or expected < 1e-11
    return found


sizes = st.sampled_from([8, 16, 32])
worlds = st.builds(
    lambda capacities, pods, pools: (capacities, pods, pools),
    st.lists(st.tuples(sizes, sizes), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5), st.integers(0, 5)), max_size=14),
    st.booleans(),
)


@settings(deadline=None)
@given(worlds, st.sampled_from([0.5, 0.9, 10.0]))
def test_each_step_is_the_steepest_there_is(world: Any, ceiling: float) -> None:
    capacities, pods, pools = world
    nodes = [
        a_node(f"n{i}", cpu, memory, pods=6, labels={"pool": str(i % 2)}) for i, (cpu, memory) in enumerate(capacities)
    ]
    placed = [a_pod(f"p{i:02}", cpu, memory, f"n{on % len(nodes)}") for i, (on, cpu, memory) in enumerate(pods)]
    layout = a_layout(nodes, placed, pool_label="pool" if pools else None)
    for step, expected, measured in walk(layout, ceiling):
        assert step.gain == pytest.approx(expected, abs=1e-11)
        assert step.gain == pytest.approx(measured, abs=1e-11)


@pytest.mark.parametrize("seed", [56, 119, 144, 197, 219, 253])
def test_no_step_is_an_offer_that_siblings_have_closed(seed: int) -> None:
    g = np.random.default_rng(seed)
    count = int(g.integers(5, 13))
    nodes = [a_node(f"n{i:02}", 20, 20, labels={ZONE: "ab"[i % 2]}) for i in range(count)]
    pods = []
    for work in range(g.integers(2, 7)):
        owner, cpu, hot = Owner("ReplicaSet", f"w{work}", f"w{work}", True), g.choice([0.5, 1.0, 1.5]), g.random() < 0.4
        for i in range(g.integers(2, 21)):
            on = 0 if hot and g.random() < 0.4 else int(g.integers(count))
            pods.append(a_pod(f"w{work}-{i:02}", cpu, 0.1, f"n{on:02}", owner=owner))
    layout = a_layout(nodes, pods)
    standing, replayed = standing_of(layout, 0.8), standing_of(layout, 0.8)
    for step in steepest_moves(standing, everybody(layout), every_node(layout), lambda pod, target: None):
        assert replayed.open_to(step.pod)[step.target]
        replayed.move(step.pod, step.target)


@pytest.mark.slow
@examples(15)
@given(st.integers(0, 2**32 - 1))
def test_the_shortlist_loses_nothing(seed: int) -> None:
    """The same steps with and without it, where nodes differ in size and many are full."""
    g = np.random.default_rng(seed)
    nodes = [a_node(f"n{i:02}", *g.choice([8, 16, 32], 2), pods=12) for i in range(40)]
    pods = [a_pod(f"p{i:03}", *g.integers(1, 4, 2), f"n{int(40 * g.random() ** 2):02}") for i in range(150)]
    use = {f"a/{pod.name}": {"cpu": float(g.random()), "memory": float(g.random())} for pod in pods}
    layout = a_layout(nodes, pods, usage=use)

    def plan() -> list[tuple[int, int, float]]:
        steps = steepest_moves(standing_of(layout, 0.8), everybody(layout), every_node(layout), lambda p, t: None)
        return [(step.pod, step.target, step.gain) for step in steps]

    whole = plan()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ballast.planners.steepest_moves._WHOLE", 4)
        patch.setattr("ballast.planners.steepest_moves._EACH", 2)
        patch.setattr("ballast.planners.steepest_moves._AGE", 5)
        listed = plan()
    assert [step[:2] for step in listed] == [step[:2] for step in whole]
    assert np.allclose([step[2] for step in listed], [step[2] for step in whole], atol=1e-12)


def test_equal_gains_go_by_name() -> None:
    nodes = [a_node(name) for name in ("n3", "n1", "n2")]
    pods = [a_pod(name, 1, 1, "n3") for name in ("b", "a", "c", "d")]
    step = walk(a_layout(nodes, pods), 10.0, limit=1)[0][0]
    assert (step.pod, step.source, step.target) == (0, 2, 0)


def test_refused_pods_are_not_asked_for_again() -> None:
    nodes = [a_node("n1"), a_node("n2")]
    pods = [a_pod(f"p{i}", 1, 1, "n1") for i in range(4)]
    layout = a_layout(nodes, pods)
    asked: list[int] = []

    def admit(pod: int, target: int) -> Any:
        asked.append(pod)
        return np.array([pod, pod + 1]) if pod == 0 else None

    steps = list(steepest_moves(standing_of(layout), everybody(layout), every_node(layout), admit))
    assert asked == [0, 2, 3]
    assert [step.pod for step in steps] == [2, 3]


def test_a_gain_below_the_minimum_is_left() -> None:
    nodes, pods = [a_node("n1"), a_node("n2")], [a_pod(f"p{i}", 1, 1, "n1") for i in range(4)]
    layout = a_layout(nodes, pods)
    [(first, *_), (second, *_)] = walk(layout, 10.0)
    standing = standing_of(layout)
    between = (first.gain + second.gain) / 2
    chosen = steepest_moves(standing, everybody(layout), every_node(layout), lambda p, t: None, min_gain=between)
    assert [step.gain for step in chosen] == [first.gain]


def first_move(
    *loads: float, error: tuple[float, ...] = (), doubt: float = 0.0, price: float = 0.0
) -> tuple[str, float, float] | None:
    """The pod that goes first, its gain and error, at a confidence of 3; equal nodes with pods of a tenth of one."""
    pods = [a_pod(f"p{row}{n}", 1, 1, f"n{row}") for row, load in enumerate(loads) for n in range(round(10 * load))]
    layout = a_layout([a_node(f"n{row}") for row in range(len(loads))], pods)
    layout = replace(layout, doubt=np.full(layout.used.shape, doubt))
    errors = np.array([error or (0.0,) * len(loads)] * 2).T
    worth = Worth(np.full(len(pods), price), errors, 3.0)
    steps = steepest_moves(
        standing_of(layout), everybody(layout), every_node(layout), lambda pod, target: None, worth=worth, limit=1
    )
    return next(((pods[step.pod].name, step.gain, step.error) for step in steps), None)


def test_a_move_gains_more_than_the_doubt_about_its_pod() -> None:
    certain = first_move(0.6, 0.2)
    assert certain == ("p00", pytest.approx(0.03), 0.0)
    doubtful = first_move(0.6, 0.2, doubt=0.3)
    assert doubtful is not None
    assert doubtful[1] > 3 * doubtful[2] > 0
    assert first_move(0.6, 0.2, doubt=0.3 * doubtful[1] / (3 * doubtful[2]) * 0.99) is not None
    assert first_move(0.6, 0.2, doubt=0.3 * doubtful[1] / (3 * doubtful[2]) * 1.01) is None


def test_a_move_gains_more_than_its_price_beyond_the_doubt() -> None:
    doubtful = first_move(0.6, 0.2, doubt=0.3)
    assert doubtful is not None
    left = (doubtful[1] - 3 * doubtful[2]) / (EVEN / 2)
    assert first_move(0.6, 0.2, doubt=0.3, price=0.99 * left) is not None
    assert first_move(0.6, 0.2, doubt=0.3, price=1.01 * left) is None


def test_what_is_more_certain_to_gain_goes_before_what_may_gain_more() -> None:
    assert (first_move(0.7, 0.6, 0.2, 0.2) or ())[0] == "p00"
    assert (first_move(0.7, 0.6, 0.2, 0.2, error=(0.04, 0.0, 0.0, 0.0)) or ())[0] == "p00"
    assert (first_move(0.7, 0.6, 0.2, 0.2, error=(0.06, 0.0, 0.0, 0.0)) or ())[0] == "p10"


def test_a_node_of_which_anything_is_unknown_gives_nothing() -> None:
    pods = [a_pod(f"p{i}", 1, 1, "n1") for i in range(9)]
    layout = a_layout([a_node("n1"), a_node("n2")], pods, load=np.array([[0.9, np.nan], [0.1, 0.1]]))
    assert not list(
        steepest_moves(standing_of(layout), everybody(layout), every_node(layout), lambda pod, target: None)
    )


def test_pods_that_may_not_move_stay() -> None:
    layout = a_layout([a_node("n1"), a_node("n2")], [a_pod(f"p{i}", 1, 1, "n1") for i in range(4)])
    movable = np.array([False, True, False, False])
    steps = steepest_moves(standing_of(layout), movable, every_node(layout), lambda pod, target: None)
    assert [step.pod for step in steps] == [1]


def test_pods_stay_in_their_pool() -> None:
    nodes = [a_node(f"n{row}", labels={"pool": pool}) for row, pool in enumerate("aab")]
    layout = a_layout(nodes, [a_pod("p", 1, 1, "n0")], pool_label="pool")
    assert standing_of(layout).open_to(0).tolist() == [False, True, False]


def test_unknown_nodes_neither_give_nor_take() -> None:
    nodes = [a_node("n1"), a_node("n2"), a_node("n3")]
    pods = [a_pod(f"p{i}", 1, 1, "n1") for i in range(4)] + [a_pod("q", 4, 4, "n3")]
    layout = a_layout(nodes, pods, load=np.array([[0.4, 0.4], [0.0, np.nan], [np.nan, np.nan]]))
    assert walk(layout, 10.0) == []


def test_what_nobody_knows_the_use_of_stays() -> None:
    layout = a_layout([a_node("n1"), a_node("n2")], [a_pod("p", 0, 0, "n1")], load=np.array([[0.9, 0.9], [0, 0]]))
    assert walk(layout, 10.0) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moves", "kind", "left"), [(30, (1,), 0.70), (150, (1,), 0.30), (30, (1, 2, 4), 0.82), (150, (1, 2, 4), 0.45)]
)
def test_few_moves_even_out_much(moves: int, kind: tuple[int, ...], left: float) -> None:
    """100 nodes, 3,000 pods of 200 workloads that use other amounts than they ask for."""
    g = np.random.default_rng(1)
    size = g.choice(kind, 100)
    owner = g.integers(0, 200, 3000)
    use = g.lognormal(0, 0.6, (200, 2))
    asked = use * g.lognormal(0, 0.35, (200, 2))
    on = g.choice(100, 3000, p=size / size.sum())
    whole = np.stack([size, size], axis=1) * use[owner].sum(axis=0) / size.sum() / 0.5
    asked *= 0.6 * whole.sum(axis=0) / asked[owner].sum(axis=0)
    load = np.zeros((100, 2))
    np.add.at(load, on, use[owner])
    nodes = [a_node(f"n{i:03}", *whole[i]) for i in range(100)]
    pods = [a_pod(f"p{i:04}", *asked[owner[i]], f"n{on[i]:03}") for i in range(3000)]
    usage = {f"a/p{i:04}": dict(zip(("cpu", "memory"), use[owner[i]], strict=True)) for i in range(3000)}
    layout = a_layout(nodes, pods, load=load / whole, usage=usage)
    standing = standing_of(layout)
    made = list(steepest_moves(standing, everybody(layout), every_node(layout), lambda p, t: None, limit=moves))
    assert len(made) == moves
    share = np.sqrt(objective(standing.load, layout.pool) / objective(layout.load, layout.pool))
    assert share <= left
