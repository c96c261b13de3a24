"""The strategies that read requests; a real kube-scheduler is asked in tests/cluster."""

from typing import Any

import pytest

from ballast.base.errors import UsageError
from ballast.scoring.requested_to_capacity import curve
from ballast.scoring.strategy import strategy
from tests.unit.scoring.worlds import a_fleet, by_node, node, pod, scored

FAMILY = ("least-allocated", "most-allocated", "requested-to-capacity", "balanced")
FOO = "intel.com/foo"


def example() -> tuple[Any, Any]:
    """The worked example of the Kubernetes documentation of bin packing."""
    nodes = [
        node("node-1", {"cpu": "8", "memory": "1Gi", FOO: "4"}),
        node("node-2", {"cpu": "8", "memory": "1Gi", FOO: "8"}),
    ]
    placed = [
        pod({"cpu": "1", "memory": "256Mi", FOO: "1"}, name="one", on="node-1"),
        pod({"cpu": "6", "memory": "512Mi", FOO: "2"}, name="two", on="node-2"),
    ]
    return a_fleet(nodes, placed), pod({"cpu": "2", "memory": "256Mi", FOO: "2"})


@pytest.mark.parametrize(("scale", "expected"), [(10, [5, 7]), (100, [60, 69])])
def test_the_documentations_example_and_what_the_scheduler_makes_of_it(scale: int, expected: list[int]) -> None:
    fleet, arriving = example()
    weights = {FOO: 5, "memory": 1, "cpu": 3}
    found = scored(fleet, arriving, "requested-to-capacity", resources=weights, shape=[[0, 0], [100, 10]], scale=scale)
    assert found.scores.tolist() == expected


def test_shares_are_cut_not_rounded() -> None:
    fleet = a_fleet([node("n", {"cpu": "3", "memory": "3"})])
    arriving = pod({"cpu": "1", "memory": "1"})
    assert scored(fleet, arriving, "least-allocated").scores.tolist() == [66]
    assert scored(fleet, arriving, "most-allocated").scores.tolist() == [33]


def test_containers_without_requests_count_as_100m_and_200_mebibytes_in_scores_alone() -> None:
    fleet = a_fleet([node("n", {"cpu": "1", "memory": "2000Mi"})], [pod({}, name="old", on="n")])
    assert scored(fleet, pod({}), "most-allocated").scores.tolist() == [20]
    assert scored(fleet, pod({"cpu": "0", "memory": "0"}), "most-allocated").scores.tolist() == [10]
    assert scored(fleet, pod({"cpu": "500m"}), "balanced").scores.tolist() == [50 + (50 + 75 - 100) // 2]


def test_more_than_there_is_scores_as_full() -> None:
    fleet = a_fleet([node("n", {"cpu": "1", "memory": "1Gi"})])
    arriving = pod({"cpu": "2", "memory": "2Gi"})
    assert scored(fleet, arriving, "least-allocated").scores.tolist() == [0]
    assert scored(fleet, arriving, "most-allocated").scores.tolist() == [100]
    assert scored(fleet, arriving, "requested-to-capacity").scores.tolist() == [100]


def test_extended_resources_count_where_asked_for_and_present() -> None:
    fleet = a_fleet([node("with", {"cpu": "4", FOO: "4"}), node("without", {"cpu": "4"})])
    weights = {"cpu": 1, FOO: 3}
    asking = by_node(fleet, scored(fleet, pod({"cpu": "1", FOO: "3"}), "most-allocated", resources=weights))
    assert asking == {"with": (25 + 3 * 75) // 4, "without": 25}
    plain = by_node(fleet, scored(fleet, pod({"cpu": "1"}), "most-allocated", resources=weights))
    assert plain == {"with": 25, "without": 25}


@pytest.mark.parametrize("name", FAMILY)
def test_nothing_allocatable_is_no_error(name: str) -> None:
    fleet = a_fleet([node("bare", {}), node("zero", {"cpu": "0", "memory": "0"}), node("n", {"cpu": "4"})])
    found = scored(fleet, pod({"cpu": "1"}), name)
    assert found.unknown.tolist() == [False] * 3
    assert all(0 <= each <= 100 for each in found.scores.tolist())


def test_finished_pods_and_pods_on_other_nodes_do_not_count() -> None:
    done = pod({"cpu": "1"}, name="done", on="n")
    done["status"]["phase"] = "Succeeded"  # type: ignore[index]
    fleet = a_fleet([node("n", {"cpu": "2"})], [done, pod({"cpu": "1"}, name="else", on="gone")])
    assert scored(fleet, pod({"cpu": "1"}), "most-allocated", resources={"cpu": 1}).scores.tolist() == [50]


def test_a_pod_that_requests_nothing_finds_all_nodes_equally_balanced() -> None:
    fleet = a_fleet(
        [node("a", {"cpu": "2", "memory": "4Gi"}), node("b", {"cpu": "9", "memory": "1Gi"})],
        [pod({"cpu": "1"}, name="old", on="a")],
    )
    assert scored(fleet, pod({}), "balanced").scores.tolist() == [75, 75]


def test_pod_level_requests_count_for_balance_and_for_placed_pods_but_not_in_the_fit_of_an_arriving_one() -> None:
    whole = pod({"cpu": "100m"}, resources={"requests": {"cpu": "1"}})
    nodes = [node("n", {"cpu": "2", "memory": "2000Mi"})]
    empty = a_fleet(nodes)
    assert scored(empty, whole, "most-allocated", resources={"cpu": 1}).scores.tolist() == [5]
    assert scored(empty, whole, "balanced").terms["after"].tolist() == [75.0]
    taken = a_fleet(nodes, [{**whole, "metadata": {"name": "p"}, "spec": {**whole["spec"], "nodeName": "n"}}])
    assert scored(taken, pod({"cpu": "0"}), "most-allocated", resources={"cpu": 1}).scores.tolist() == [50]


@pytest.mark.parametrize(
    ("shape", "percent", "score"),
    [
        ([(0, 10), (30, 0)], 10, 67),
        ([(0, 0), (100, 10)], 37, 37),
        ([(20, 3), (60, 9)], 0, 30),
        ([(20, 3), (60, 9)], 100, 90),
        ([(0, 10), (100, 0)], 99, 1),
    ],
)
def test_a_falling_curve_is_cut_towards_zero_as_in_go(shape: list[tuple[int, int]], percent: int, score: int) -> None:
    assert curve(shape, 10)[percent] == score


@pytest.mark.parametrize("name", FAMILY)
@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"resources": {"cpu": 0}}, "weight of cpu cannot be 0"),
        ({"resources": {"cpu": 101}}, "weight of cpu cannot be 101"),
        ({"resources": {"cpu": -3}}, "weight of cpu cannot be -3"),
        ({"resources": {"cpu": 1.5}}, "weight of cpu cannot be 1.5"),
        ({"resources": {"cpu": "many"}}, "weight of cpu cannot be"),
        ({"resources": {"gpu": 1}}, "resources cannot be .*no resource the scheduler scores.*nvidia.com/gpu"),
        ({"resources": {"pods": 1}}, "resources cannot be"),
        ({"resources": {}}, "at least one entry"),
        ({"resources": 3}, r'give {"cpu": 1'),
        ({"resources": ["cpu", 1]}, r'give {"cpu": 1'),
        ({"resources": ["cpu", "cpu"]}, "name every resource once"),
        ({"resources": "cpu=0,memory"}, "weight of cpu cannot be"),
        ({"resourcs": {"cpu": 1}}, "has no key resourcs. Did you mean resources"),
        ({"in_flight": "some"}, "off, upstream, full"),
    ],
)
def test_what_cannot_be_used_is_refused_with_what_can(name: str, keys: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        strategy(name, keys)


def test_a_refused_weight_says_that_the_documentation_allows_more_than_the_scheduler() -> None:
    with pytest.raises(UsageError, match=r"1 to 100; its documentation of bin packing allows negative"):
        strategy("most-allocated", {"resources": {"cpu": -1}})
    with pytest.raises(UsageError, match="only 1 here"):
        strategy("balanced", {"resources": {"cpu": 2}})


@pytest.mark.parametrize(
    "shape",
    [[], "flat", [[0, 0], [0, 5]], [[50, 1], [20, 2]], [[0, 11]], [[-1, 0]], [[101, 0]], [[0.5, 1]], [[0]], [[0, "x"]]],
)
def test_a_curve_that_is_none_is_refused(shape: object) -> None:
    with pytest.raises(UsageError, match="shape cannot be"):
        strategy("requested-to-capacity", {"shape": shape})


def test_an_unknown_scale_is_refused() -> None:
    with pytest.raises(UsageError, match="scale cannot be 50"):
        strategy("requested-to-capacity", {"scale": 50})


@pytest.mark.parametrize("name", ["most-allocated", "least-allocated", "requested-to-capacity"])
@pytest.mark.parametrize(
    "resources",
    [
        {"cpu": None, "memory": 1, "intel.com/foo": 3},
        "cpu,memory,intel.com/foo=3",
        "cpu=1, memory=1, intel.com/foo=3",
        [{"name": "cpu"}, {"name": "memory", "weight": 1}, {"name": "intel.com/foo", "weight": 3}],
    ],
)
def test_a_weight_is_1_where_none_is_given(name: str, resources: object) -> None:
    assert strategy(name, {"resources": resources}) == strategy(
        name, {"resources": {"cpu": 1, "memory": 1, "intel.com/foo": 3}}
    )
