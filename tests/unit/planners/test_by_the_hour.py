"""Who moves, and where to, is chosen by what pods used over the last hour; what is hot now is hot."""

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.placement.layout import Layout
from ballast.planners.relieve import relieve
from ballast.planners.steepest_moves import steepest_moves
from ballast.planners.step import PlannedMove, Worth
from ballast.planners.thresholds import Thresholds
from tests.worlds.planning import a_layout, a_node, a_pod, every_node, everybody, standing_of

Used = Mapping[str, tuple[float, float]]
"""{pod: cores now, cores over the hour}"""


def world(homes: Mapping[str, str], used: Used) -> Layout:
    """Nodes of 10 cores, loaded by what their pods use now."""
    pods = [a_pod(name, 1, 1, home) for name, home in homes.items()]
    nodes = [a_node(name) for name in ("n1", "n2", "n3")]
    now, hour = ({f"a/{name}": {"cpu": cores[which]} for name, cores in used.items()} for which in (0, 1))
    load = [[sum(used[name][0] for name, home in homes.items() if home == node.name) / 10, 0.1] for node in nodes]
    return a_layout(nodes, pods, load=np.array(load), usage=now, hour=hour)


def by_the_hour(layout: Layout, *now: str) -> Layout:
    return layout.by_the_hour(np.array([node.name in now for node in layout.nodes]))


def first_relief(layout: Layout, *, confidence: float = 0.0) -> PlannedMove | None:
    thresholds = Thresholds.absolute(layout.load, 0.8, 0.6, layout.resources)
    standing, worth = standing_of(layout, 0.7), Worth(np.zeros(len(layout.pods)), layout.error, confidence)
    steps = relieve(standing, everybody(layout), every_node(layout), lambda *_: None, thresholds, worth=worth)
    return next(steps, None)


HOMES = {"spike": "n1", "steady": "n1", "other": "n1", "there": "n2", "where": "n3"}


def test_a_pod_that_rose_a_minute_ago_is_not_the_one_that_moves() -> None:
    used = {"spike": (5, 0.5), "steady": (2, 2), "other": (1.5, 1.5), "there": (1, 1), "where": (2, 2)}
    layout = world(HOMES, used)
    moved = first_relief(layout)
    assert moved is not None
    assert layout.pods[moved.pod].name == "spike", "by what they use now"
    expected = by_the_hour(layout)
    # What is hot is as loaded as it is now.
    expected.load[0] = layout.load[0]
    moved = first_relief(expected)
    assert moved is not None
    assert layout.pods[moved.pod].name == "steady"


def test_pods_of_nodes_that_are_overloaded_count_with_what_they_use_now() -> None:
    used = {"spike": (4, 0.5), "steady": (3, 3), "other": (2, 2), "there": (1, 4), "where": (2, 2)}
    expected = by_the_hour(world(HOMES, used), "n1")
    names = [pod.name for pod in expected.pods]
    cores = dict(zip(names, expected.used[:, 0].tolist(), strict=True))
    assert cores == {"spike": 4, "steady": 3, "other": 2, "there": 4, "where": 2}
    assert expected.load[:, 0].tolist() == pytest.approx([0.9, 0.4, 0.2])


def test_the_target_is_the_node_that_was_least_loaded_and_is_no_hot_one() -> None:
    homes = {**HOMES, "peak": "n2"}
    used = {"spike": (3, 3), "steady": (3, 3), "other": (3, 3), "there": (1, 1), "peak": (6.5, 0), "where": (3, 3)}
    expected = by_the_hour(world(homes, used), "n1")
    assert expected.load[1, 0] < expected.load[2, 0]
    moved = first_relief(expected)
    assert moved is not None
    assert expected.nodes[moved.target].name == "n3", "n2 is above the ceiling now"


def test_what_is_not_known_over_the_hour_is_what_it_is_now() -> None:
    layout = world(HOMES, dict.fromkeys(HOMES, (2, 2)))
    assert layout.hour.tolist() == layout.used.tolist()
    without = a_layout(list(layout.nodes), list(layout.pods), usage={"a/spike": {"cpu": 3.0}}, hour={})
    assert without.hour.tolist() == without.used.tolist()
    of_others = a_layout(list(layout.nodes), list(layout.pods), usage={}, hour={"a/spike": {"cpu": 3.0}})
    assert of_others.hour.tolist() == of_others.used.tolist(), "a pod that is not measured now has no hour either"


def test_use_that_is_far_from_its_hour_is_uncertain() -> None:
    used = {"spike": (4, 2), "steady": (3, 3), "other": (2, 2), "there": (1, 1), "where": (2, 2)}
    expected = by_the_hour(world(HOMES, used))
    assert expected.doubt is not None
    doubts = dict(zip([pod.name for pod in expected.pods], expected.doubt[:, 0].tolist(), strict=True))
    assert doubts.pop("spike") == pytest.approx(2 / np.sqrt(12))
    assert set(doubts.values()) == {0.0}


def test_both_planners_leave_alone_what_may_be_chance() -> None:
    used = {"spike": (8.5, 2.5), "there": (1, 1), "where": (1, 1)}
    layout = world({"spike": "n1", "there": "n2", "where": "n3"}, used)
    expected = by_the_hour(layout)
    expected.load[0] = layout.load[0]
    assert first_relief(expected, confidence=1.0) is not None
    assert first_relief(expected, confidence=3.0) is None
    for confidence, moves in ((0.0, 1), (30.0, 0)):
        standing, worth = standing_of(expected), Worth(np.zeros(3), expected.error, confidence)
        steps = steepest_moves(
            standing, everybody(expected), every_node(expected), lambda *_: None, limit=1, worth=worth
        )
        assert len(list(steps)) == moves


amounts = st.floats(0, 3)


@given(st.lists(st.tuples(st.sampled_from(["n1", "n2", "n3"]), amounts, amounts), min_size=1, max_size=9))
def test_nodes_are_as_loaded_as_with_what_their_pods_used(pods: list[tuple[str, float, float]]) -> None:
    homes = {f"p{row}": home for row, (home, _, _) in enumerate(pods)}
    layout = world(homes, {f"p{row}": (now, hour) for row, (_, now, hour) in enumerate(pods)})
    expected = by_the_hour(layout)
    hours = [sum(hour for home, _, hour in pods if home == node.name) / 10 for node in layout.nodes]
    assert expected.load[:, 0].tolist() == pytest.approx(hours, abs=1e-9)
    assert by_the_hour(layout, "n1", "n2", "n3").load.tolist() == layout.load.tolist()
    assert expected.now is not None
    assert expected.now.tolist() == layout.load.tolist()
