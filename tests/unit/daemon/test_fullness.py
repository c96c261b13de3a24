"""Where no move can help it is said, with what is missing."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.eviction.facts import ClusterObjects
from ballast.jobs.eviction.fullness import GIB, too_full
from ballast.model.node import Node
from ballast.planners.aims import Aims
from ballast.planning.moment import Moment

AIMS = Aims(high={"cpu": 0.8, "memory": 0.8}, target_high={"cpu": 0.7, "memory": 0.7})


def moment(*cpu: float, memory: float = 0.3, cordoned: int = -1) -> Moment:
    """Nodes of 10 cores and 40 GiB."""
    whole = {"cpu": 10.0, "memory": 40 * GIB}
    nodes = [Node(f"n{row}", f"u{row}", allocatable=whole, unschedulable=row == cordoned) for row in range(len(cpu))]
    load = np.array([[share, memory] for share in cpu])
    return Moment(now=0.0, objects=ClusterObjects(nodes=nodes), resources=("cpu", "memory"), load=load)


def test_what_is_missing_is_named() -> None:
    told = too_full(moment(0.95, 0.9, 0.65), AIMS, {"n0", "n1"})
    assert told == (
        "n0, n1: too loaded, and the other nodes lack 2.0 cores to take what is too much: one node like these"
    )
    assert too_full(moment(0.95, 0.9, 0.4), AIMS, {"n0", "n1"}) is None


def test_many_nodes_may_be_missing_and_both_resources() -> None:
    told = too_full(moment(1.6, 1.6, 1.6, 1.6, memory=0.9), AIMS, {"n0", "n1", "n2", "n3"})
    assert "lack 32.0 cores and 16.0 GiB" in (told or "")
    assert (told or "").endswith("about 4 nodes like these")


def test_a_cordoned_node_and_one_of_unknown_load_have_no_room() -> None:
    assert too_full(moment(0.95, 0.1, cordoned=1), AIMS, {"n0"}) is not None
    assert too_full(moment(0.95, float("nan")), AIMS, {"n0"}) is not None
    assert too_full(moment(0.95, 0.1), AIMS, {"n0"}) is None


def test_nothing_is_said_without_a_hot_node_or_a_limit() -> None:
    assert too_full(moment(0.95, 0.9), AIMS, ()) is None
    assert too_full(moment(0.95, 0.9), replace(AIMS, deviation=0.1), {"n0"}) is None
    assert too_full(moment(0.95, 0.9), replace(AIMS, high={"memory": 0.8}), {"n0"}) is None


@given(st.lists(st.floats(0.0, 2.0), min_size=2, max_size=8))
def test_it_is_told_where_the_excess_is_more_than_the_room(loads: list[float]) -> None:
    hot = {f"n{row}" for row, load in enumerate(loads) if load > 0.8}
    excess = sum(max(0.0, load - 0.8) for load in loads)
    room = sum(max(0.0, 0.7 - load) for load in loads)
    told = too_full(moment(*loads), AIMS, hot)
    if abs(excess - room) > 1e-6:
        assert (told is not None) == bool(hot and excess > room)


@pytest.mark.parametrize("share", [0.8, 0.81])
def test_a_node_that_is_hot_by_a_hair_lacks_little(share: float) -> None:
    told = too_full(moment(share, 0.75), AIMS, {"n0"})
    assert (told is None) == (share == 0.8)
