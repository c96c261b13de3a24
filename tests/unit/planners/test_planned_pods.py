"""Which pods room is made for, and how many more are expected."""

from typing import Any

import numpy as np
import pytest

from ballast.eviction.facts import ClusterObjects, Facts, promised
from ballast.model.attachments import NodeClaim, ScaleUp
from ballast.model.node import Node, Taint
from ballast.model.pod import Pod
from ballast.model.shape import ContainerShape, shape_of
from ballast.placement.layout import layout
from ballast.planners.planned_pods import arrivals, waiting

NOW = 1_700_000_000.0
OLD = NOW - 600
SMALL = {"cpu": 1.0, "memory": 1e9, "pods": 10.0}


def a_pod(name: str = "w", **more: Any) -> Pod:
    given = {"phase": "Pending", "waiting_since": OLD, "shape": shape_of([ContainerShape({"cpu": 2.0})])}
    return Pod("shop", name, **{**given, **more})


def waits(*pods: Pod, nodes: tuple[Node, ...] = (), least: float = 120.0, **more: Any) -> list[str]:
    every = (Node("n1", allocatable=SMALL, created=OLD - 9999), *nodes)
    facts = Facts(ClusterObjects(every, pods, **more), now=NOW)
    arranged = layout(every, pods, (), np.zeros((len(every), 0)))
    found = waiting(arranged, facts, least)
    return [pod.name for row, pod in enumerate(arranged.pods) if found[row]]


def test_a_pod_waits_once_it_has_waited_long_enough() -> None:
    assert waits(a_pod()) == ["w"]
    assert waits(a_pod(waiting_since=NOW - 119)) == []
    assert waits(a_pod(waiting_since=NOW - 120)) == ["w"]
    assert waits(a_pod(waiting_since=NOW - 1), least=0.0) == ["w"]
    assert waits(a_pod(waiting_since=0.0)) == ["w"]
    assert waits(a_pod(waiting_since=None)) == []


def test_who_is_nominated_does_not_wait() -> None:
    assert waits(a_pod(nominated="n1")) == []
    assert waits(a_pod(nominated="gone")) == ["w"]


def test_who_an_autoscaler_adds_a_node_for_does_not_wait() -> None:
    ups = [ScaleUp("shop", "e1", "shop/w", NOW - 60), ScaleUp("shop", "e2", "shop/old", NOW - 7200)]
    assert waits(a_pod(), a_pod("old"), promised=promised(ups, NOW)) == ["old"]


@pytest.mark.parametrize(
    ("more", "left"),
    [
        ({}, ["x"]),
        ({"created": NOW - 3600}, ["w", "x"]),
        ({"ready": True}, ["w", "x"]),
        ({"deleting": True}, ["w", "x"]),
        ({"allocatable": {"cpu": 4.0, "pods": 10.0}}, []),
        ({"taints": (Taint("node.kubernetes.io/not-ready", "NoSchedule"),)}, ["x"]),
        ({"taints": (Taint("team", "NoSchedule"),)}, ["w", "x"]),
    ],
    ids=("starting", "long not ready", "ready", "deleting", "larger", "starting taint", "lasting taint"),
)
def test_who_fits_on_a_node_that_is_starting_does_not_wait(more: Any, left: list[str]) -> None:
    node = Node("new", **{"allocatable": {"cpu": 3.0, "pods": 10.0}, "created": NOW - 60, "ready": False, **more})
    assert waits(a_pod(), a_pod("x"), nodes=(node,)) == left


def test_who_fits_on_a_node_that_karpenter_has_ordered_does_not_wait() -> None:
    def claim(**more: Any) -> tuple[NodeClaim, ...]:
        return (NodeClaim("c", **{"allocatable": {"cpu": 3.0, "pods": 9.0}, **more}),)

    assert waits(a_pod(), node_claims=claim()) == []
    assert waits(a_pod(), node_claims=claim(allocatable={})) == ["w"]
    assert waits(a_pod(), node_claims=claim(ready=True)) == ["w"]
    assert waits(a_pod(), node_claims=claim(node="n1")) == ["w"]
    assert waits(a_pod(), node_claims=claim(taints=(Taint("gpu", "NoSchedule"),))) == ["w"]


def test_arrivals() -> None:
    def came(*ages: float, **more: Any) -> float:
        return arrivals([a_pod(f"p{n}", created=NOW - age, **more) for n, age in enumerate(ages)], NOW)

    each_minute = [60.0 * n for n in range(1, 61)]
    assert came() == 0
    assert came(*[900.0] * 500) == 0
    assert came(*each_minute) == pytest.approx(60, rel=0.05)
    assert came(*each_minute, *[900.0] * 500) == pytest.approx(60, rel=0.05)
    assert came(*each_minute[:30]) == pytest.approx(60, rel=0.1)
    assert came(*[7200.0] * 9, 1800.0) == 0
    assert came(*each_minute, deleting=True) == 0
    assert came(0.0) == 0
