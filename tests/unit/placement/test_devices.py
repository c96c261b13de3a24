"""Evictions that give whole devices back, where parts of them are handed out."""

import msgspec
import numpy as np

from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.planners.redistribute import redistribute
from tests.worlds.planning import a_layout, a_node, a_pod, everybody, standing_of

SHARE = "alibabacloud.com/gpu-"


def gpu_node(name: str, count: int) -> Node:
    node = a_node(name, 32, 32)
    return msgspec.structs.replace(node, allocatable={**node.allocatable, SHARE + "count": float(count)})


def gpu_pod(name: str, milli: int, on: str = "", index: str = "") -> Pod:
    annotations = {SHARE + "milli": str(milli), **({SHARE + "index": index} if index else {})}
    waiting = None if on else 1.0
    return msgspec.structs.replace(a_pod(name, 1, 1, on, waiting), annotations=annotations)


def test_halves_of_two_devices_are_no_room_and_one_eviction_makes_a_whole_one() -> None:
    nodes = [gpu_node("a", 2), gpu_node("b", 1)]
    pods = [
        gpu_pod("left", 500, "a", "0"),
        gpu_pod("right", 500, "a", "1"),
        gpu_pod("other", 500, "b", "0"),
        gpu_pod("waits", 1000),
    ]
    layout = a_layout(nodes, pods)
    standing = standing_of(layout)
    steps = list(redistribute(standing, everybody(layout), lambda pod, target: None, arrivals=None))
    moved = [(layout.pods[step.pod].name, layout.nodes[step.target].name) for step in steps]
    assert moved == [("left", "b")]
    assert [layout.pods[pod].name for pod in steps[0].starts] == ["waits"]


def test_a_sum_of_parts_is_no_reason_to_evict() -> None:
    nodes = [gpu_node("a", 2), gpu_node("b", 1)]
    pods = [
        gpu_pod("left", 600, "a", "0"),
        gpu_pod("right", 600, "a", "1"),
        gpu_pod("other", 500, "b", "0"),
        gpu_pod("waits", 1000),
    ]
    layout = a_layout(nodes, pods)
    standing = standing_of(layout)
    assert not list(redistribute(standing, everybody(layout), lambda pod, target: None, arrivals=None))
    assert np.array_equal(standing.on, layout.on)
