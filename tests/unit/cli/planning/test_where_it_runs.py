"""Pods go only where evidence says that they can run; where no such node is left they stay, and it is said why."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.cli.planning.conftest import Plan
from tests.worlds.owned import HOT, deployment, direct, machine, ref, replica, replica_sets
from tests.worlds.printed import NOW, Json, listed

WEB = deployment({"x-new": ("n1", "n2")}, updated=2, present=2, replicas=2)
EMPTY = {"n1": (90, 30), "n2": (75, 70), "n3": (5, 5)}
RESTARTED = "2023-11-14T20:00:00Z"


def at(ago: float) -> str:

    return datetime.fromtimestamp(NOW - ago, UTC).isoformat().replace("+00:00", "Z")


def pods_of(namespace: str, *names: str, ago: float = 2400, **status: Any) -> list[Json]:
    """Pods of an owner of their own on n3 that have been Pending for so long."""
    items = []
    for name in names:
        pod = replica(name, "n3", ref("StatefulSet", name))
        pod["metadata"] |= {"namespace": namespace, "creationTimestamp": at(ago)}
        pod["status"] = {"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"}], **status}
        pod["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "10m"}
        items.append(pod)
    return items


def taint(key: str, effect: str = "PreferNoSchedule") -> Json:
    return {"spec": {"taints": [{"key": key, "value": "x", "effect": effect}]}}


def noted(key: str, value: str = "true") -> Json:
    return {"metadata": {"annotations": {key: value}}}


def labelled(key: str, value: str) -> Json:
    return {"metadata": {"labels": {key: value}}}


def with_condition(kind: str, status: str = "True") -> Json:
    return {"conditions": [{"type": kind, "status": status}]}


LOCAL = {"containers": [{"name": "c", "image": "app:1", "imagePullPolicy": "Never",
                         "resources": {"requests": {"cpu": "4"}}}]}  # fmt: skip
UNPULLED = [
    *WEB[:2],
    *(replica(f"x-new-{on}", on, ref("ReplicaSet", "x-new"), {"pod-template-hash": "new"}, spec=LOCAL)
      for on in ("n1", "n2")),
]  # fmt: skip
STUCK = [*pods_of("a", "one"), *pods_of("b", "two")]
SYSTEM, SIGN = "another system or architecture", "a standing sign"
FORMS: dict[str, tuple[Json, list[Json], str]] = {
    "Windows": ({"system": "windows/amd64"}, WEB, SYSTEM),
    "arm": ({"system": "linux/arm64"}, WEB, SYSTEM),
    "no nodeInfo": ({"system": "", "version": ""}, WEB, SYSTEM),
    "nothing starts there": ({}, [*WEB, *STUCK], "nothing starts there"),
    "a reboot": (noted("example.org/reboot-in-progress"), WEB, SIGN),
    "a reboot that is due": (noted("example.org/most-recent-reboot-needed", at(60)), WEB, SIGN),
    "a machine that is deleted": (noted("cluster.example.org/delete-machine", "yes"), WEB, SIGN),
    "a label that it ends": (labelled("cloud.example.org/node-termination", "true"), WEB, SIGN),
    "no machine": (labelled("type", "virtual-kubelet"), WEB, SIGN),
    "a soft taint": (taint("example.org/spot-rebalance"), WEB, SIGN),
    "a kernel that hangs": (with_condition("KernelDeadlock"), WEB, SIGN),
    "no network": (with_condition("NetworkUnavailable"), WEB, SIGN),
    "a part that is not ready": (with_condition("StorageReady", "False"), WEB, SIGN),
    "an image that is not there": ({}, UNPULLED, "an image that is not there"),
    "a node that leaves": (taint("ToBeDeletedByClusterAutoscaler", "NoSchedule"), WEB, "leaving"),
    "a hard taint": (taint("example.org/out-of-service", "NoExecute"), WEB, "node selector, affinity or taints"),
}


@pytest.fixture
def moved(plan: Plan, explained: Any) -> Callable[..., tuple[list[str], Json]]:
    """Where the pod of n1 goes, and why not to others; n2 has no room below the ceiling."""

    def run(node: Json, items: list[Json], *others: Json, **first: Any) -> tuple[list[str], Json]:
        cluster = listed(machine("n1", **first), machine("n2"), machine("n3", **node), *others, *items)
        loads = {**EMPTY, **{each["metadata"]["name"]: (30, 30) for each in others}}
        metrics = {**HOT, "data": {"NodeMetricsMap": {name: used(*load) for name, load in loads.items()}}}
        answer = plan("relieve", cluster, metrics)
        pod = next(each for each in items if each["kind"] == "Pod")
        return [step["to"] for step in answer["steps"]], explained(cluster, metrics, pod)

    return run


def used(cpu: float, memory: float) -> Json:
    return {"metrics": [{"type": t, "operator": "AVG", "value": v} for t, v in (("CPU", cpu), ("Memory", memory))]}


@pytest.mark.parametrize("form", FORMS)
def test_where_no_other_node_is_left_a_pod_stays_and_says_why(form: str, moved: Any) -> None:
    node, items, why = FORMS[form]
    went, told = moved(node, items)
    assert went == []
    assert not told["allowed"]
    assert told["targets"]["why_not"].get(why) == 1, told["targets"]


@pytest.mark.parametrize("form", FORMS)
def test_it_goes_to_another_node_while_there_is_one(form: str, moved: Any) -> None:
    node, items, _ = FORMS[form]
    images = {"status": {"images": [{"names": ["docker.io/library/app@sha256:0", "docker.io/library/app:1"]}]}}
    assert moved(node, items, machine("n4", **images))[0] == ["n4"]


TWINS: dict[str, tuple[Json, list[Json], Json]] = {
    "a node like its own": ({}, WEB, {}),
    "its own node tells nothing either": ({"system": ""}, WEB, {"system": ""}),
    "a Ready pod of it runs on such a node": (
        {"system": "linux/arm64"},
        [*WEB, replica("x-new-n5", "n5", ref("ReplicaSet", "x-new"), {"pod-template-hash": "new"})],
        {},
    ),
    "its own node has the sign": (taint("example.org/spot"), WEB, taint("example.org/spot")),
    "it tolerates the taint": (
        taint("example.org/spot"),
        [each if each["kind"] != "Pod" else {**each, "spec": {**each["spec"], "tolerations": [{"operator": "Exists"}]}}
         for each in WEB],
        {},
    ),
    "a taint of Ballast": (taint("ballast.dev/overloaded"), WEB, {}),
    "a mark that is over": (noted("example.org/reboot-in-progress", "false"), WEB, {}),
    "a restart since": (noted("example.org/most-recent-reboot-needed", "2023-11-14T10:00:00Z"), WEB, {}),
    "a good condition": (with_condition("StorageReady"), WEB, {}),
    "a condition that does not hold": (with_condition("MemoryPressure", "False"), WEB, {}),
    "its image is there": ({"status": {"images": [{"names": ["docker.io/library/app:1"]}]}}, UNPULLED, {}),
    "one workload that does not start": ({}, [*WEB, *pods_of("a", "one", "two")], {}),
    "they came just now": ({}, [*WEB, *pods_of("a", "one", ago=100), *pods_of("b", "two", ago=100)], {}),
    "they leave": (
        {},
        [*WEB, *({**each, "metadata": {**each["metadata"], "deletionTimestamp": at(9)}} for each in STUCK)],
        {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", TWINS)
def test_it_goes_where_nothing_speaks_against_it(form: str, moved: Any) -> None:
    node, items, first = TWINS[form]
    if "taints" in first.get("spec", {}) or "system" in first:
        assert moved(node, items, **first)[0] == ["n3"]
    else:
        others = [machine("n5", system="linux/arm64", spec={"unschedulable": True})] if "arm64" in str(node) else []
        assert moved(node, items, *others)[0] == ["n3"]


def test_what_pods_that_ask_for_one_node_cannot_do_there_closes_it_for_nobody(moved: Any) -> None:
    for pinned in (
        {"nodeSelector": {"kubernetes.io/hostname": "n3"}},
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n3"]}]}]}}}},
    ):  # fmt: skip
        stuck = [{**each, "spec": {**each["spec"], **pinned}} for each in STUCK]
        assert moved({}, [*WEB, *stuck])[0] == ["n3"]


def test_a_pod_that_came_later_and_is_ready_says_that_pods_start_there(moved: Any) -> None:
    fine = direct("Ring", {"n3": ""}, group="example.org/v1")[1]
    fine["metadata"] |= {"creationTimestamp": at(1200), "name": "fine"}
    assert moved({}, [*WEB, *STUCK, fine])[0] == ["n3"]


def test_the_node_is_named_where_nothing_starts(plan: Plan) -> None:
    cluster = listed(*(machine(name) for name in ("n1", "n2", "n3")), *WEB, *STUCK)
    note = plan("relieve", cluster, HOT)["note"]
    assert "nothing starts on n3: 2 pods of 2 workloads in 2 namespaces have been trying for up to 40 min" in note


def test_bad_input_of_nodes_closes_nothing_but_that_node(moved: Any) -> None:
    many = {"conditions": [{"type": f"Odd{number}", "status": "True"} for number in range(60)]}
    odd = {"status": {"images": [{"names": None}, {}], "nodeInfo": {}}}
    assert moved(many, WEB, machine("n4"))[0] == ["n4"]
    assert moved({"system": "", **odd}, WEB, machine("n4"))[0] == ["n4"]
    assert replica_sets(None, {}) == []
