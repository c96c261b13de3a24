from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ballast.placement.layout import Layout
from ballast.planners.relieve import relieve
from ballast.planners.step import Admit, PlannedMove, Worth, nobody
from ballast.planners.thresholds import Thresholds, hot
from tests.worlds.planning import a_layout, a_node, a_pod, every_node, everybody, standing_of

HIGH, LOW, CEILING = 0.8, 0.6, 0.7


def run(
    nodes: Any,
    pods: Any,
    *,
    limit: int | None = None,
    load: Any = None,
    admit: Admit = lambda pod, target: None,
    **more: Any,
) -> tuple[list[PlannedMove], Any, Any]:
    layout = a_layout(nodes, pods, load=load)
    standing = standing_of(layout, CEILING)
    thresholds = Thresholds.absolute(layout.load, HIGH, LOW, layout.resources)
    worth = more.pop("worth", None)
    if worth is not None:
        more["worth"] = worth(layout)
    steps = relieve(standing, everybody(layout), every_node(layout), admit, thresholds, limit=limit, **more)
    return list(steps), layout, standing


def test_a_hot_node_is_relieved_down_to_the_lower_threshold() -> None:
    pods = [a_pod(f"p{i}", 1, 0.1, "n1") for i in range(9)]
    steps, layout, standing = run([a_node("n1"), a_node("n2"), a_node("n3")], pods)
    assert [step.gain for step in steps] == pytest.approx([0.1] * 3)
    assert [layout.pods[step.pod].name for step in steps] == ["p0", "p1", "p2"]
    assert standing.load[0, 0] == pytest.approx(0.6)
    assert standing.load[1:, 0].tolist() == pytest.approx([0.2, 0.1])


def test_one_victim_that_is_enough_comes_before_several() -> None:
    pods = [a_pod("tiny", 1, 0, "n1"), a_pod("large", 5, 0, "n1"), a_pod("right", 3, 0, "n1")]
    steps, layout, _ = run([a_node("n1"), a_node("n2")], pods)
    assert [layout.pods[step.pod].name for step in steps] == ["right"]


def test_of_equals_the_lower_priority_goes() -> None:
    pods = [a_pod(f"p{i}", 3, 0, "n1", priority=9 - i) for i in range(3)]
    steps, layout, _ = run([a_node("n1"), a_node("n2")], pods)
    assert layout.pods[steps[0].pod].name == "p2"


def test_the_hottest_comes_first_and_moves_are_counted() -> None:
    pods = [a_pod(f"a{i}", 1, 0, "n1") for i in range(9)] + [a_pod(f"b{i}", 1, 0, "n2") for i in range(10)]
    steps, layout, _ = run([a_node("n1"), a_node("n2"), a_node("n3", 100, 100)], pods, limit=2)
    assert [layout.pods[step.pod].name for step in steps] == ["b0", "a0"]


def test_nothing_is_done_at_the_threshold_or_without_knowledge() -> None:
    pods = [a_pod(f"p{i}", 1, 1, "n1") for i in range(8)]
    assert run([a_node("n1"), a_node("n2")], pods)[0] == []
    assert run([a_node("n1"), a_node("n2")], pods, load=np.array([[np.nan, np.nan], [0.1, 0.1]]))[0] == []
    assert run([a_node("n1"), a_node("n2")], pods, load=np.array([[0.9, np.nan], [0.1, np.nan]]))[0] == []
    assert len(run([a_node("n1"), a_node("n2")], pods, load=np.array([[0.9, np.nan], [0.1, 0.1]]))[0]) == 3


def test_a_pod_of_unknown_use_of_anything_is_not_moved() -> None:
    """Its memory would land somewhere without being seen."""
    pods = [a_pod(f"p{i}", 1, 0.1, "n1") for i in range(9)]
    layout = a_layout([a_node("n1"), a_node("n2")], pods)
    layout.used[0, 1] = np.nan
    thresholds = Thresholds.absolute(layout.load, HIGH, LOW, layout.resources)
    standing = standing_of(layout, CEILING)
    steps = relieve(standing, everybody(layout), every_node(layout), lambda pod, target: None, thresholds)
    assert [step.pod for step in steps] == [1, 2, 3]


def test_deviation_looks_at_the_mean_of_the_pool() -> None:
    load = np.array([[0.9], [0.5], [0.4], [0.2]])
    pool = np.array([0, 0, 1, 1])
    thresholds = Thresholds.deviation(load, np.ones(4, bool), pool, 0.15)
    assert hot(load, np.ones(4, bool), thresholds)[:, 0].tolist() == [True, False, False, False]
    assert thresholds.low[:, 0].tolist() == pytest.approx([0.775, 0.775, 0.375, 0.375])
    alone = Thresholds.deviation(load, pool == 0, pool, 0.15)
    assert hot(load, np.ones(4, bool), alone)[:, 0].tolist() == [True, False, False, False]


def test_each_resource_has_its_own_thresholds() -> None:
    high = {"cpu": 0.8, "memory": 0.9}
    thresholds = Thresholds.absolute(np.zeros((1, 3)), high, {"cpu": 0.6, "disk": 0.5}, ("cpu", "memory", "disk"))
    assert thresholds.high.tolist() == [[0.8, 0.9, np.inf]]
    assert thresholds.low.tolist() == [[0.6, 0.9, 0.5]]
    assert Thresholds.absolute(np.zeros((1, 2)), high, 0.85, ("cpu", "memory")).low.tolist() == [[0.8, 0.85]]


worlds = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 4)), max_size=16)


@settings(deadline=None)
@given(worlds)
def test_no_target_gets_too_loaded_and_no_node_is_relieved_too_far(world: Any) -> None:
    nodes = [a_node(f"n{i}") for i in range(4)]
    pods = [a_pod(f"p{i:02}", cpu, memory, f"n{on}") for i, (on, cpu, memory) in enumerate(world)]
    layout = a_layout(nodes, pods)
    standing = standing_of(layout, CEILING)
    thresholds = Thresholds.absolute(layout.load, HIGH, LOW, layout.resources)
    was_hot = hot(layout.load, every_node(layout), thresholds)
    admit = lambda pod, target: None  # noqa: E731
    before = standing.load.copy()
    for step in relieve(standing, everybody(layout), every_node(layout), admit, thresholds):
        concerned = before[step.source][was_hot[step.source]]
        assert (concerned > LOW + 1e-12).any()
        assert (standing.load[step.target] <= CEILING + 2e-9).all()
        assert step.gain == pytest.approx((before - standing.load)[step.source][int(step.numbers["resource"])])
        before = standing.load.copy()


def worth_of(prices: Mapping[str, float], error: float = 0.0, confidence: float = 0.0, unpaid: Any = nobody) -> Any:
    """Prices by pod, else 1; the same standard error of every load."""

    def build(layout: Layout) -> Worth:
        price = np.array([prices.get(pod.name, 1.0) for pod in layout.pods])
        return Worth(price, np.full(layout.load.shape, error), confidence, unpaid)

    return build


def names(steps: list[PlannedMove], layout: Layout) -> list[str]:
    return [layout.pods[step.pod].name for step in steps]


HOT = [a_node("n1"), a_node("n2")]


@pytest.mark.parametrize(("price", "moved"), [(39.0, ["slim"]), (41.0, [])])
def test_a_pod_that_relieves_less_than_its_price_stays(price: float, moved: list[str]) -> None:
    """Price 1 is 0.1 % of a node's load; the pod relieves 4 %."""
    unpaid: list[int] = []
    pods = [a_pod("slim", 0.4, 0, "n1"), a_pod("fixed", 0.6, 0, "n1", priority=9), a_pod("giant", 8, 0, "n1")]
    pods += [a_pod("idle", 0, 1, "n1"), a_pod("elsewhere", 1, 0, "n2")]
    prices = {"slim": price, "fixed": 1e9, "giant": 0.0, "idle": 1e9, "elsewhere": 1e9}
    worth = worth_of(prices, unpaid=lambda rows: unpaid.extend(rows.tolist()))
    steps, layout, _ = run(HOT, pods, worth=worth)
    assert names(steps, layout) == moved
    assert {layout.pods[row].name for row in unpaid} == {"fixed"} | {"slim"} - set(moved)
    if steps:
        assert steps[0].cost == pytest.approx(price / 1000)


@pytest.mark.parametrize(("confidence", "moved"), [(8.0, 1), (10.0, 0)])
def test_a_relief_that_is_lost_in_noise_is_none(confidence: float, moved: int) -> None:
    """The pod's share of the error of the node's load: 0.4 of 0.9, so 0.044 of 0.1; nine times that is its relief."""
    pods = [a_pod("noisy", 4, 0, "n1"), a_pod("fixed", 5, 0, "n1", priority=9)]
    worth = worth_of({"noisy": 0.0, "fixed": 1e9}, error=0.1, confidence=confidence)
    steps, layout, _ = run(HOT, pods, worth=worth)
    assert names(steps, layout) == ["noisy"] * moved
    if steps:
        assert steps[0].error == pytest.approx(0.4 * 0.1 / 0.9)
        assert steps[0].numbers == {"load": pytest.approx(0.9), "resource": 0.0}


def test_of_pods_that_relieve_nearly_as_much_the_cheapest_goes() -> None:
    """What the pod that may not go relieves does not count."""
    sizes = {"dear": 3.0, "cheap": 2.7, "fixed": 3.4, "small": 0.2}
    pods = [a_pod(name, size, 0, "n1") for name, size in sizes.items()]
    prices = {"dear": 4.0, "cheap": 1.0, "fixed": 1e9, "small": 0.1}
    steps, layout, _ = run(HOT, pods, worth=worth_of(prices), limit=1)
    assert names(steps, layout) == ["cheap"]
    steps, layout, _ = run(HOT, pods, worth=worth_of(prices | {"dear": 1.18}), limit=1)
    assert names(steps, layout) == ["dear"], "a sixth more is no other class of price"


def test_whom_the_gate_refuses_is_not_asked_for_again_and_others_go_on() -> None:
    asked: list[tuple[int, int]] = []

    def admit(pod: int, target: int) -> Any:
        asked.append((pod, target))
        return np.array([0, 1]) if pod == 0 else None

    pods = [a_pod(f"p{i}", 1, 0, "n1") for i in range(9)]
    steps, layout, _ = run(HOT, pods, admit=admit)
    assert names(steps, layout) == ["p2", "p3", "p4"]
    assert asked == [(0, 1), (2, 1), (3, 1), (4, 1)]


def test_only_movable_pods_whose_use_is_known_and_relieves_are_moved() -> None:
    pods = [a_pod(f"p{i}", 1, 0, "n1") for i in range(9)]
    layout = a_layout(HOT, [*pods, a_pod("p9", 0, 1, "n1")])
    layout.used[2, 0] = np.nan
    movable = np.arange(10) % 9 < 4
    thresholds = Thresholds.absolute(layout.load, HIGH, 0.0, layout.resources)
    steps = list(relieve(standing_of(layout), movable, every_node(layout), lambda *_: None, thresholds))
    assert names(steps, layout) == ["p0", "p1", "p3"]


def test_no_pod_is_moved_twice_though_a_relieved_node_becomes_a_target() -> None:
    nodes = [a_node("n1"), a_node("n2"), a_node("n3", 5.5)]
    layout = a_layout(nodes, [a_pod(f"{'ab'[i % 2]}{i // 2}", 1, 0, f"n{2 - i % 2}") for i in range(18)])
    thresholds = Thresholds(np.full((3, 2), HIGH), np.repeat([[0.6], [0.85], [0.6]], 2, axis=1))
    steps = relieve(standing_of(layout, 0.75), everybody(layout), every_node(layout), lambda *_: None, thresholds)
    moves = [(layout.pods[step.pod].name, layout.nodes[step.target].name) for step in steps]
    assert moves == [("b0", "n3"), ("b1", "n3"), ("b2", "n3"), ("a0", "n1"), ("b3", "n3")]


def test_a_node_that_cannot_be_relieved_does_not_stop_the_others() -> None:
    nodes = [a_node("n1"), a_node("n2"), a_node("n3")]
    pods = [a_pod("giant", 10, 0, "n1"), *(a_pod(f"p{i}", 1, 0, "n2") for i in range(9))]
    steps, layout, _ = run(nodes, pods)
    assert names(steps, layout) == ["p0", "p1", "p2"]


def test_a_relief_below_the_least_gain_is_not_made() -> None:
    pods = [a_pod(f"p{i}", 1, 0, "n1") for i in range(9)]
    assert len(run(HOT, pods, min_gain=0.1)[0]) == 3
    assert run(HOT, pods, min_gain=0.11)[0] == []


def test_the_emptiest_target_gets_the_pod_and_one_above_the_ceiling_none() -> None:
    nodes = [a_node("n1"), a_node("n2"), a_node("n3"), a_node("n4")]
    pods = [a_pod("p", 2.5, 0, "n1"), a_pod("q", 6, 0, "n1"), a_pod("r", 3, 0, "n2"), a_pod("s", 2, 0, "n3")]
    pods.append(a_pod("t", 7.5, 0, "n4"))
    steps, layout, _ = run(nodes, pods)
    assert [(layout.pods[step.pod].name, layout.nodes[step.target].name) for step in steps] == [("p", "n3")]
    nodes = [a_node("n1"), a_node("n2"), a_node("n3", 100)]
    pods = [a_pod("p", 2.5, 0, "n1"), a_pod("q", 6, 0, "n1"), a_pod("r", 3, 0, "n2"), a_pod("s", 32, 0, "n3")]
    steps, layout, _ = run(nodes, pods)
    assert [layout.nodes[step.target].name for step in steps] == ["n3"], "after the move, not before"


def test_without_nodes_there_is_nothing_to_relieve() -> None:
    assert run([], [])[0] == []


def test_an_overloaded_node_loses_its_excess_at_once() -> None:
    """Down to the middle between the thresholds, whatever `limit` says, which is for the others."""
    pods = [a_pod(f"a{i:02d}", 1, 0, "n1") for i in range(10)] + [a_pod(f"b{i}", 1, 0, "n2") for i in range(9)]
    nodes = [a_node("n1"), a_node("n2"), a_node("n3", 100, 100)]
    steps, layout, standing = run(nodes, pods, limit=1, overloaded=np.array([True, False, False]))
    assert [layout.nodes[step.source].name for step in steps] == ["n1", "n2", "n1", "n1"]
    assert standing.load[:2, 0].tolist() == pytest.approx([0.7, 0.8])
