"""What owners prefer: planned moves do not undo it, as kube-scheduler's scores would not."""

import json

import msgspec
import numpy as np
import pytest

from ballast.cluster.objects import wire
from ballast.cluster.objects.templates import to_template
from ballast.model.node import Node
from ballast.model.pod import Owner, Pod
from ballast.model.template import Template
from ballast.placement.simulated_placement import Preferences
from tests.unit.planners.test_siblings import ZONE, plan
from tests.worlds.planning import a_layout, a_node, a_pod, standing_of

HOST = "kubernetes.io/hostname"
LABELS = {"app": "cache"}
SELECTOR = {"labelSelector": {"matchLabels": LABELS}}
ZONE_A = {"preference": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a"]}]}, "weight": 100}
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TO_ZONE = {"affinity": {"nodeAffinity": {PREFERRED: [ZONE_A]}}}


def near(kind: str, key: str = HOST) -> dict[str, object]:
    return {"affinity": {kind: {PREFERRED: [{"weight": 50, "podAffinityTerm": {"topologyKey": key, **SELECTOR}}]}}}


def spread(key: str) -> dict[str, object]:
    constraint = {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", **SELECTOR}
    return {"topologySpreadConstraints": [constraint]}


def template(spec: dict[str, object]) -> Template:
    source = {"metadata": {"name": "p", "namespace": "a", "labels": LABELS}, "spec": spec}
    return to_template(msgspec.json.decode(json.dumps(source), type=wire.Pod))


def nodes() -> list[Node]:
    """n0 and n1 are in zone a, n2 and n3 in b."""
    return [a_node(f"n{row}", labels={HOST: f"n{row}", ZONE: "aabb"[row]}) for row in range(4)]


def subject(on: str, spec: dict[str, object], **more: object) -> Pod:
    owner = Owner("ReplicaSet", "web", "web", True)
    return a_pod("web", 1.0, 0.1, on, owner=owner, uid="web", template=template(spec), ready=True, created=1.0, **more)


def cache(name: str, on: str) -> Pod:
    owner = Owner("ReplicaSet", name, name, True)
    return a_pod(name, 1.0, 0.1, on, owner=owner, uid=name, labels=LABELS, ready=True, created=1.0)


def open_to(pods: list[Pod], *, keeps: bool = False, of: list[Node] | None = None) -> list[int]:
    placement = standing_of(a_layout(of or nodes(), pods))
    placement.preferences = Preferences.KEPT if keeps else Preferences.SECOND
    row = next(row for row, pod in enumerate(placement.layout.pods) if pod.name == "web")
    return np.flatnonzero(placement.open_to(row)).tolist()


@pytest.mark.parametrize(
    ("pods", "left"),
    [
        ([subject("n0", TO_ZONE)], [1]),
        ([subject("n2", TO_ZONE)], [0, 1, 3]),
        ([subject("n0", near("podAffinity", ZONE)), cache("c", "n1")], [1]),
        ([subject("n0", near("podAntiAffinity")), cache("c", "n1")], [2, 3]),
        ([subject("n0", near("podAntiAffinity")), cache("c", "n0"), cache("d", "n1")], [1, 2, 3]),
        ([subject("n0", spread(ZONE)), cache("c", "n2")], [1]),
        ([subject("n0", spread(HOST)), cache("c", "n2")], [1, 3]),
    ],
    ids=("zone", "wrong-zone", "affinity", "anti-affinity", "crowd", "spread-zone", "spread-host"),
)
def test_nodes_that_a_pod_likes_less_are_left_out(pods: list[Pod], left: list[int]) -> None:
    assert open_to(pods) == open_to(pods, keeps=True) == left


def test_where_no_other_is_left_some_planners_go_to_them_and_rebalance_does_not() -> None:
    pods = [subject("n0", TO_ZONE)]
    some = [nodes()[row] for row in (0, 2, 3)]
    assert open_to(pods, of=some) == [1, 2]
    assert open_to(pods, of=some, keeps=True) == []


@pytest.mark.parametrize("spec", [TO_ZONE, near("podAntiAffinity", ZONE), spread(ZONE)])
def test_plans_keep_a_pod_where_it_likes_to_be(spec: dict[str, object]) -> None:
    """n0 and n1 are full, n2 and n3 are empty but liked less: evenness does not pay for that, a hot node does."""
    own = [subject("n0", spec, labels={"app": "none"})]
    others = [cache(f"c{row}", f"n{row}") for row in (2, 3)]
    big = [a_pod("big", 6.0, 0.1, "n1", owner=Owner("DaemonSet", "big", "big", True), uid="big", ready=True)]
    there = [a_pod("rest", 5.0, 0.1, "n0", owner=Owner("DaemonSet", "rest", "rest", True), uid="rest", ready=True)]
    pods = [*own, *others, *big, *there]
    moved = {kind: [step.pod for step in plan(kind, nodes(), pods).steps] for kind in ("rebalance", "relieve")}
    assert "a/web" not in moved["rebalance"]
    assert moved["relieve"] == ["a/web"]


def test_a_score_is_that_of_the_scheduler() -> None:
    """Sources: interpodaffinity, podtopologyspread and nodeaffinity of kube-scheduler, their scores normalized."""
    pods = [subject("n0", {**TO_ZONE, **spread(HOST)}), cache("c", "n1"), cache("d", "n1"), cache("e", "n2")]
    placement = standing_of(a_layout(nodes(), pods))
    row = next(row for row, pod in enumerate(placement.layout.pods) if pod.name == "web")
    scores = placement.neighbours.preference(row, np.ones(4, bool))
    assert scores.tolist() == pytest.approx([200, 100, 50, 100])
