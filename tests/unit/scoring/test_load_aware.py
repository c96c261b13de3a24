"""load-aware: the load decides while the pods to come find room."""

import math
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.model.shape import ContainerShape, Shape, shape_of
from ballast.scoring.demand import units
from ballast.scoring.expected_use import NodeAmounts, Presence, RecentPods
from ballast.scoring.fleet import Placed
from ballast.scoring.residual import Criterion
from tests.unit.scoring.worlds import NOW, a_fleet, load, node, pod, scored

NODES = [node("a", {"cpu": "10", "memory": "10Gi"}), node("b", {"cpu": "10", "memory": "10Gi"})]
LOADS = load(a={"cpu": 60, "memory": 10}, b={"cpu": 10, "memory": 10})
SMALL = pod({"cpu": "1", "memory": "64Mi"})
CPU = shape_of([ContainerShape({"cpu": 1.0})])
GIB = 2.0**30
LARGE = shape_of([ContainerShape({"cpu": 3.0, "memory": GIB})])


def criterion(*amounts: float) -> Criterion:
    return Criterion(np.array(amounts)[:, None], np.full(len(amounts), 1 / len(amounts)))


def poisson_at_most(count: int, mean: float) -> float:
    return sum(math.exp(-mean) * mean**k / math.factorial(k) for k in range(count + 1))


@pytest.mark.parametrize("departures", [0.0, 2.0])
def test_scarcity_is_the_chance_that_the_arrivals_of_some_kind_do_not_all_fit(departures: float) -> None:
    free = np.array([[4.0], [3.0]])
    chance = criterion(1.0, 2.0).scarcity(free, np.array([0.5, 0.5]), 6.0, departures)
    half = int(departures / 2)
    assert chance == pytest.approx(1 - poisson_at_most(7 + half, 3.0) * poisson_at_most(3 + half, 3.0))


@given(st.lists(st.floats(0, 50), min_size=1, max_size=5), st.floats(0, 40), st.floats(0, 40))
def test_scarcity_falls_with_room_and_rises_with_arrivals(free: list[float], arrivals: float, more: float) -> None:
    kinds, shares = criterion(1.0, 3.0), np.array([0.7, 0.3])
    room = np.array(free)[:, None]
    now = kinds.scarcity(room, shares, arrivals)
    assert 0 <= now <= 1
    assert kinds.scarcity(room, shares, arrivals + more) >= now - 1e-9
    assert kinds.scarcity(room + 3.0, shares, arrivals) <= now + 1e-9


def test_nobody_arrives_so_nothing_is_scarce() -> None:
    assert criterion(1.0).scarcity(np.zeros((2, 1)), np.ones(1), 0) == 0


def test_with_room_for_all_the_residual_has_its_least_weight() -> None:
    fleet = a_fleet(NODES, [], LOADS)
    score = scored(fleet, SMALL, "load-aware")
    assert score.terms["scarcity"].tolist() == [0.0, 0.0]
    parts = [score.terms[name] for name in ("load-variation", "dominant-residual")]
    assert score.exact == pytest.approx(0.85 * parts[0] + 0.15 * parts[1])


def test_where_room_is_scarce_the_residual_weighs_more_up_to_its_bound() -> None:
    placed = [pod({"cpu": "3", "memory": "64Mi"}, name=f"p{i}", on="b") for i in range(3)]
    for document in placed:
        document["metadata"]["creationTimestamp"] = datetime.fromtimestamp(NOW - 60, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    fleet = a_fleet(NODES, placed, LOADS)
    score = scored(fleet, SMALL, "load-aware")
    assert 0.15 < score.terms["scarcity"][0] < 1
    weight = min(score.terms["scarcity"][0], 0.3)
    parts = [score.terms[name] for name in ("load-variation", "dominant-residual")]
    assert score.exact == pytest.approx((1 - weight) * parts[0] + weight * parts[1])


def test_where_pods_ask_for_devices_the_window_s_deviation_counts_and_the_residual_has_no_bound() -> None:
    nodes = [node(name, {"cpu": "10", "memory": "10Gi", "nvidia.com/gpu": "2"}) for name in "ab"]
    placed = [pod({"cpu": "3", "memory": "64Mi", "nvidia.com/gpu": "1"}, name=f"p{i}", on="b") for i in range(2)]
    for document in placed:
        document["metadata"]["creationTimestamp"] = datetime.fromtimestamp(NOW - 60, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    fleet = a_fleet(nodes, placed, LOADS)
    score = scored(fleet, SMALL, "load-aware")
    assert score.terms["load-variation"].tolist() == scored(fleet, SMALL, "load-variation").exact.round().tolist()
    weight = score.terms["scarcity"][0]
    assert weight > 0.3
    parts = [score.terms[name] for name in ("load-variation", "dominant-residual")]
    assert score.exact == pytest.approx((1 - weight) * parts[0] + weight * parts[1])


def test_of_two_equal_loads_that_of_many_small_pods_is_the_smaller_risk() -> None:
    """Each node is measured at 40 % and has 4 cores of requests; the window's own deviation does not count."""
    loads = load(a={"cpu": 40, "memory": 10}, b={"cpu": 40, "memory": 10})
    large = [pod({"cpu": "4", "memory": "64Mi"}, name="large", on="a")]
    small = [pod({"cpu": "500m", "memory": "8Mi"}, name=f"small{number}", on="b") for number in range(8)]
    fleet = a_fleet(NODES, large + small, loads)
    ratio = fleet.expected_use.ratios["cpu"]
    terms = scored(fleet, SMALL, "load-aware").terms["load-variation"]
    risk = np.hypot(ratio * np.array([4.0, math.sqrt(8) * 0.5]), 1.0) / 10
    assert terms == pytest.approx(100 * (1 - (0.4 + 0.1 + risk) / 2), abs=0.5)
    assert terms[1] > terms[0]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 2**53), st.integers(1, 100)), max_size=8))
def test_squares_of_pods_of_any_size_are_sums_and_leave_nothing(stays: list[tuple[int, int, int]]) -> None:
    placed = Placed(3)
    expected = np.zeros(3)
    for row, milli, count in stays:
        placed.add(row, shape_of([ContainerShape({"cpu": milli / 1000})]), count)
        expected[row] += count * float(units("cpu", milli / 1000)) ** 2
    assert placed.squares() == pytest.approx(expected)
    for row, milli, count in stays:
        placed.add(row, shape_of([ContainerShape({"cpu": milli / 1000})]), -count)
    assert placed.squares() == pytest.approx(np.zeros(3), abs=1e-9 * max(float(expected.max()), 1.0))


def of_two_nodes(used: float, requested: float) -> dict[str, NodeAmounts]:
    """Cpu, the same on both; each has 100 cores."""
    pair = np.ones(2)
    return {"cpu": NodeAmounts(used / 2 * pair, (requested / 2 * pair).astype(np.int64), np.array([100_000] * 2))}


def pods(*presences: Presence, used: float = 40_000.0, requested: float = 80_000.0) -> RecentPods:
    """On two nodes, with a window of 900 s that ends at 1000."""
    recent = RecentPods(2, 1000.0, 900.0)
    recent.measure(of_two_nodes(used, requested), filter(recent.recent, presences))
    return recent


def test_a_pod_is_expected_to_use_of_its_request_what_the_cluster_does() -> None:
    assert pods().of(CPU, "", "cpu") == 500
    assert pods(used=0).of(CPU, "", "cpu") == 1000, "what is not measured is not zero"
    limited = shape_of([ContainerShape({"cpu": 1.0}, {"cpu": 0.2})])
    assert pods().of(limited, "", "cpu") == 200
    siblings = RecentPods(1, 0.0, 900.0, {"rs": {"cpu": 2.0}})
    assert (siblings.of(CPU, "rs", "cpu"), siblings.of(CPU, "other", "cpu")) == (2000, 1000)


@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.sampled_from([CPU, LARGE]), st.floats(0, 1100), st.floats(0, 1100)), max_size=9
    )
)
def test_many_pods_count_as_one_after_the_other(drawn: list[tuple[int, Shape, float, float]]) -> None:
    presences = [Presence(row, shape, "", since, until or math.inf) for row, shape, since, until in drawn]
    many = pods(*presences)
    single = RecentPods(2, 1000.0, 900.0, ratios=many.ratios)
    for presence in filter(single.recent, presences):
        single.count(presence)
    for name in ("cpu", "memory"):
        assert many.unseen(name) == pytest.approx(single.unseen(name))


@pytest.mark.parametrize(
    ("since", "until", "share"),
    [
        (1000.0, math.inf, 1.0),
        (1030.0, math.inf, 1.0),
        (550.0, math.inf, 0.5),
        (100.0, math.inf, 0.0),
        (0.0, 550.0, -0.5),
        (0.0, 1010.0, -1.0),
        (325.0, 550.0, -0.25),
        (0.0, 100.0, 0.0),
        (1001.0, 1002.0, 0.0),
    ],
)
def test_the_window_shows_a_pod_by_the_part_of_it_in_which_it_ran(since: float, until: float, share: float) -> None:
    recent = RecentPods(2, 1000.0, 900.0, ratios={"cpu": 0.5})
    presence = Presence(1, CPU, "", since, until)
    recent.measure({}, [presence] if recent.recent(presence) else [])
    assert recent.unseen("cpu").tolist() == pytest.approx([0.0, 500 * share])


def test_what_the_window_does_not_show_is_no_evidence_of_the_ratio() -> None:
    """Two thirds of what is requested ran for half of the window."""
    assert pods(*[Presence(1, CPU, "", 550.0)] * 40, requested=120_000.0).of(CPU, "", "cpu") == pytest.approx(400)
    gone = [Presence(1, CPU, "", 0.0, 550.0)] * 40
    assert pods(*gone, requested=60_000.0).of(CPU, "", "cpu") == pytest.approx(500)


@given(st.lists(st.tuples(st.integers(0, 1), st.floats(0, 1100), st.floats(0, 500) | st.just(math.inf)), max_size=8))
def test_what_is_counted_and_taken_back_leaves_nothing(stays: list[tuple[int, float, float]]) -> None:
    recent = RecentPods(2, 1000.0, 900.0)
    presences = [Presence(row, CPU, "", since, since + length) for row, since, length in stays]
    for presence in presences:
        recent.count(presence)
    for presence in presences:
        recent.count(presence, -1)
    assert recent.unseen("cpu") == pytest.approx(np.zeros(2), abs=1e-6)


def test_a_ratio_is_learned_where_the_window_shows_what_is_requested() -> None:
    burst = [Presence(row, CPU, "", 990.0) for row in (0, 1)] * 5
    assert pods(*burst, used=50_000.0, requested=10_000.0).of(CPU, "", "cpu") == 1000, "what else runs is not theirs"
    assert pods(used=50_000.0, requested=200.0).of(CPU, "", "cpu") == 1000, "two small pods tell nothing of a node"
    later = RecentPods(2, 1000.0, 900.0, ratios={"cpu": 0.4})
    later.measure(of_two_nodes(50_000.0, 10_000.0), burst)
    assert later.of(CPU, "", "cpu") == 400
