"""Which pods a reduction takes first."""

from typing import Any

from ballast.actuation.scaling.actuators import Cost, deletion_costs
from ballast.model.pod import Pod

COST, MARK = "controller.kubernetes.io/pod-deletion-cost", "ballast.dev/deletion-cost"
LOADS = {"hot": 0.95, "warm": 0.6, "cold": 0.2, "idle": 0.001}


def pod(name: str, node: str, annotations: dict[str, str] | None = None, **more: Any) -> Pod:
    return Pod("shop", name, uid=name, node=node, phase="Running", annotations=annotations or {}, **more)


def chosen(*pods: Pod, fewer: int = 1) -> dict[str, int | None]:
    return {change.pod.name: change.cost for change in deletion_costs(pods, LOADS, fewer, "ballast.dev")}


def test_those_on_the_hottest_nodes() -> None:
    pods = pod("a", "cold"), pod("b", "hot"), pod("c", "warm")
    assert chosen(*pods) == {"b": -95}
    assert chosen(*pods, fewer=2) == {"b": -95, "c": -60}


def test_what_someone_else_has_set_stays() -> None:
    theirs = pod("a", "hot", {COST: "7"})
    assert chosen(theirs, pod("b", "cold")) == {"b": -20}


def test_what_ballast_has_set_is_set_again_or_taken_back() -> None:
    ours = {COST: "-60", MARK: "-60"}
    assert chosen(pod("a", "warm", ours), pod("b", "hot")) == {"a": None, "b": -95}
    assert chosen(pod("a", "warm", ours), pod("b", "cold")) == {}


def test_pods_that_go_anyway_or_whose_node_is_unknown_or_idle_are_left_alone() -> None:
    assert chosen(pod("a", "hot", deleting=True), pod("b", "dark"), pod("c", "idle")) == {}


def test_equal_nodes_by_name() -> None:
    (change,) = deletion_costs([pod("b", "hot"), pod("a", "hot")], LOADS, 1, "ballast.dev")
    assert change == Cost(pod("a", "hot"), -95)
