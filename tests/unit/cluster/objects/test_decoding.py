import gc
import json
import sys
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from ballast.cluster.objects import wire
from ballast.cluster.objects.decoding import Shared, annotation_filter, give_way, node_reader, pod_reader, to_pod
from ballast.model.node import Taint
from ballast.model.pod import Owner, Pod

KEEP = annotation_filter("ballast.dev")


def read_pod(document: dict[str, Any]) -> Pod:
    return pod_reader(KEEP).decode(json.dumps(document).encode())


def container(cpu: int | None = None, memory: int | None = None, *, sidecar: bool = False) -> dict[str, Any]:
    requests = {name: value for name, value in (("cpu", cpu), ("memory", memory)) if value is not None}
    resources = {"requests": {name: f"{value}m" if name == "cpu" else f"{value}Mi" for name, value in requests.items()}}
    return {"name": "c", "resources": resources, **({"restartPolicy": "Always"} if sidecar else {})}


def requests_of(spec: dict[str, Any]) -> dict[str, float]:
    return dict(read_pod({"metadata": {"name": "p"}, "spec": spec}).shape.requests)


def test_a_node() -> None:
    node = node_reader(KEEP).decode(
        json.dumps(
            {
                "metadata": {
                    "name": "n1",
                    "uid": "u",
                    "resourceVersion": "7",
                    "labels": {"zone": "a"},
                    "annotations": {
                        "ballast.dev/window": "{}",
                        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
                        "node.alpha.kubernetes.io/ttl": "0",
                    },
                    "creationTimestamp": "2023-11-14T22:13:20Z",
                    "managedFields": [{"manager": "kubelet"}],
                },
                "spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule", "timeAdded": None}]},
                "status": {
                    "capacity": {"cpu": "8", "memory": "16Gi", "pods": "110"},
                    "allocatable": {"cpu": "7910m", "memory": "15Gi", "nvidia.com/gpu": "2"},
                    "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
                    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": None}],
                },
            }
        ).encode()
    )
    assert (node.name, node.uid, node.resource_version, node.created) == ("n1", "u", "7", 1_700_000_000.0)
    assert node.labels == {"zone": "a"}
    assert sorted(node.annotations) == ["ballast.dev/window", "cluster-autoscaler.kubernetes.io/safe-to-evict"]
    assert node.capacity == {"cpu": 8.0, "memory": 16.0 * 2**30, "pods": 110.0}
    assert node.allocatable == {"cpu": 7.91, "memory": 15.0 * 2**30, "nvidia.com/gpu": 2.0}
    assert node.addresses == (("InternalIP", "10.0.0.1"),)
    assert node.taints == (Taint("k", "NoSchedule"),)
    assert node.unschedulable
    assert node.ready
    assert not node.schedulable
    assert not node.deleting


@pytest.mark.parametrize(("status", "ready"), [("True", True), ("False", False), ("Unknown", False), (None, True)])
def test_ready_is_what_the_condition_says(status: str | None, ready: bool) -> None:
    conditions = [{"type": "MemoryPressure", "status": "False"}]
    if status is not None:
        conditions.append({"type": "Ready", "status": status})
    document = {"metadata": {"name": "n"}, "status": {"conditions": conditions}}
    assert node_reader(KEEP).decode(json.dumps(document).encode()).ready is ready


def test_a_pod() -> None:
    pod = read_pod(
        {
            "metadata": {
                "namespace": "ns",
                "name": "p",
                "uid": "u",
                "labels": None,
                "annotations": {"ballast.dev/exclude": "true", "kubectl.kubernetes.io/restartedAt": "x"},
                "ownerReferences": [
                    {"kind": "Thing", "name": "t", "uid": "1"},
                    {"kind": "ReplicaSet", "name": "r", "uid": "2", "controller": True},
                ],
                "creationTimestamp": "2023-11-14T22:13:20Z",
                "deletionTimestamp": "2023-11-14T22:14:20Z",
            },
            "spec": {"nodeName": "n1", "schedulerName": "mine", "priority": 5, "containers": [container(100, 64)]},
            "status": {
                "phase": "Running",
                "conditions": [
                    {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2023-11-14T22:13:21Z"}
                ],
            },
        }
    )
    assert (pod.namespace, pod.name, pod.uid, pod.node, pod.phase) == ("ns", "p", "u", "n1", "Running")
    assert pod.annotations == {"ballast.dev/exclude": "true"}
    assert pod.labels == {}
    assert pod.owner == Owner("ReplicaSet", "r", "2", True)
    assert (pod.scheduler_name, pod.priority) == ("mine", 5)
    assert (pod.created, pod.scheduled_at) == (1_700_000_000.0, 1_700_000_001.0)
    assert pod.deleting
    assert pod.shape.requests == {"cpu": 0.1, "memory": 64.0 * 2**20}


def test_a_waiting_pod_has_no_node_and_no_time() -> None:
    pod = read_pod(
        {
            "metadata": {"name": "p"},
            "status": {"conditions": [{"type": "PodScheduled", "status": "False", "lastTransitionTime": None}]},
        }
    )
    assert (pod.node, pod.phase, pod.scheduled_at, pod.owner) == ("", "Pending", None, None)


def test_the_shape_of_containers_init_containers_and_sidecars() -> None:
    spec = {
        "containers": [container(200, 100), container(100)],
        "initContainers": [container(500, 10), container(50, 20, sidecar=True), container(400)],
    }
    assert requests_of(spec) == {"cpu": pytest.approx(0.5), "memory": 120 * 2**20}


def test_a_sidecar_counts_beside_the_init_containers_after_it() -> None:
    spec = {"containers": [container(100)], "initContainers": [container(300, sidecar=True), container(500)]}
    assert requests_of(spec) == {"cpu": pytest.approx(0.8)}
    spec["initContainers"].reverse()
    assert requests_of(spec) == {"cpu": pytest.approx(0.5)}


def test_pod_level_resources_win_and_overhead_comes_on_top() -> None:
    spec = {
        "containers": [container(100, 100)],
        "resources": {"requests": {"cpu": "2", "example.com/x": "3"}, "limits": {"cpu": "4"}},
        "overhead": {"cpu": "250m", "memory": "1Mi"},
    }
    pod = read_pod({"metadata": {"name": "p"}, "spec": spec})
    assert pod.shape.requests == {"cpu": 2.25, "memory": 101 * 2**20}
    assert pod.shape.limits == {"cpu": 4.25}


def test_a_quantity_that_cannot_be_read_is_absent_not_zero() -> None:
    with capture_logs() as lines:
        spec = {"containers": [{"resources": {"requests": {"cpu": "lots", "memory": "1Ki"}}}]}
        assert requests_of(spec) == {"memory": 1024.0}
    assert lines[0]["value"] == "lots"


@pytest.mark.parametrize("text", ["1e18", "1000000000000000000", "1E", "-4", "200000"])
@pytest.mark.parametrize("resource", ["cpu", "pods"])
def test_a_node_larger_than_any_machine_is_of_unknown_size(resource: str, text: str) -> None:
    with capture_logs() as lines:
        status = {"allocatable": {resource: text, "memory": "32Ti"}, "capacity": {resource: text, "memory": "2Pi"}}
        node = node_reader(KEEP).decode(json.dumps({"metadata": {"name": "n"}, "status": status}).encode())
    assert node.allocatable == {"memory": 2.0**45}
    assert node.capacity == {}
    assert {line["event"] for line in lines} == {"a node claims an amount that no machine has"}


amounts = st.none() | st.integers(0, 4000)
containers = st.lists(st.builds(container, amounts, amounts), max_size=4)
inits = st.lists(st.builds(container, amounts, amounts, sidecar=st.booleans()), max_size=4)


@given(containers=containers, inits=inits)
def test_a_pod_needs_at_least_what_any_moment_of_its_life_needs(containers: list[Any], inits: list[Any]) -> None:
    found = requests_of({"containers": containers, "initContainers": inits})

    def cpu(items: list[Any]) -> float:
        return sum(int(item["resources"]["requests"].get("cpu", "0m")[:-1]) for item in items) / 1000

    sidecars = [item for item in inits if "restartPolicy" in item]
    moments = [cpu(containers) + cpu(sidecars)]
    for position, item in enumerate(inits):
        running = [other for other in inits[:position] if "restartPolicy" in other]
        moments.append(cpu(running) + cpu([item]))
    assert found.get("cpu", 0.0) == pytest.approx(max(moments))


def test_equal_values_are_held_once() -> None:
    reader = pod_reader(KEEP)

    def pod(name: str) -> Pod:
        document = {
            "metadata": {
                "namespace": "a-namespace",
                "name": name,
                "labels": {"app": "web", "pod-template-hash": "abc"},
                "ownerReferences": [{"kind": "ReplicaSet", "name": "web-abc", "uid": "u", "controller": True}],
            },
            "spec": {"nodeName": "node-1", "containers": [container(100, 64)]},
        }
        return reader.decode(json.dumps(document).encode())

    one, two = pod("one"), pod("two")
    assert one.namespace is two.namespace
    assert one.node is two.node
    assert one.labels is two.labels
    assert one.claimed is two.claimed
    assert one.shape is two.shape
    assert one.owner is two.owner


def test_pods_are_no_work_for_the_garbage_collector() -> None:
    assert not gc.is_tracked(read_pod({"metadata": {"name": "p"}}))
    assert sys.getsizeof(read_pod({"metadata": {"name": "p"}})) < 200


def test_more_annotation_keys_can_be_kept() -> None:
    keep = annotation_filter("example.org", foreign=["cpu_usage_avg_5m"])
    assert [key for key in ("cpu_usage_avg_5m", "example.org/x", "ballast.dev/x") if keep(key)] == [
        "cpu_usage_avg_5m",
        "example.org/x",
    ]


def test_others_have_their_turn_before_each_piece_of_a_page() -> None:
    turns: list[str] = []
    reader = pod_reader(lambda key: False, lambda: turns.append("turn"))
    pods, _ = reader.page(json.dumps({"items": [{"metadata": {"name": "p"}}] * 260}).encode())
    assert (len(pods), len(turns)) == (260, 11)


def test_a_turn_releases_the_interpreter_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    give_way()
    assert pauses == [0]


def requests(document: dict[str, Any]) -> dict[str, float]:
    pod = to_pod(msgspec.convert(document, wire.Pod), Shared(), lambda key: False)
    return dict(pod.shape.requests)


def pod(asked: Any, allocated: Any = None, actuated: Any = None, *conditions: dict[str, str], **spec: Any) -> Any:
    status: dict[str, Any] = {"name": "c", "allocatedResources": allocated}
    if actuated is not None:
        status["resources"] = {"requests": actuated}
    return {
        "metadata": {"name": "p", "namespace": "a"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": asked}}], "nodeName": "n", **spec},
        "status": {"containerStatuses": [status], "conditions": list(conditions)},
    }


INFEASIBLE = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}


@pytest.mark.parametrize(
    ("document", "cpu"),
    [
        (pod({"cpu": "1"}, {"cpu": "7500m"}, {"cpu": "2"}), 7.5),
        (pod({"cpu": "1"}, {"cpu": "2"}, {"cpu": "7500m"}), 7.5),
        (pod({"cpu": "8"}, {"cpu": "2"}, {"cpu": "1"}), 8.0),
        (pod({"cpu": "1"}, {"cpu": "7500m"}), 7.5),
        (pod({"cpu": "1"}, {"cpu": "1"}, {"cpu": "1"}), 1.0),
        (pod({"cpu": "1"}, {"cpu": "1000m"}, {"cpu": "1"}), 1.0),
        (pod({"cpu": "1"}), 1.0),
        (pod({"cpu": "1"}, {}, {}), 1.0),
        (pod({"cpu": "8"}, {"cpu": "2"}, {"cpu": "1"}, INFEASIBLE), 2.0),
        (pod({"cpu": "8"}, None, None, INFEASIBLE), 8.0),
        (pod({"cpu": "8"}, {"cpu": "2"}, {"cpu": "1"}, DEFERRED), 8.0),
        (pod({"cpu": "1"}, {"cpu": "lots"}, {"cpu": "3"}), 3.0),
        (pod(None, {"cpu": "2"}, {"cpu": "3"}), 3.0),
    ],
    ids=(
        "allocated",
        "actuated",
        "asked",
        "allocated alone",
        "settled",
        "spelled otherwise",
        "nothing said",
        "empty",
        "infeasible",
        "infeasible and silent",
        "deferred",
        "unreadable",
        "nothing asked",
    ),
)
def test_the_most_counts(document: Any, cpu: float) -> None:
    assert requests(document)["cpu"] == cpu


def test_sidecars_count_so_and_init_containers_do_not() -> None:
    document = pod({"cpu": "1"})
    document["spec"]["initContainers"] = [
        {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
        {"name": "i", "resources": {"requests": {"cpu": "1"}}},
    ]
    document["status"]["initContainerStatuses"] = [
        {"name": "s", "allocatedResources": {"cpu": "3"}},
        {"name": "i", "allocatedResources": {"cpu": "30"}},
    ]
    assert requests(document)["cpu"] == 4.0


def test_the_pod_as_a_whole() -> None:
    document = pod({"cpu": "1"}, resources={"requests": {"cpu": "2"}})
    document["status"] |= {"allocatedResources": {"cpu": "5"}, "resources": {"requests": {"cpu": "3"}}}
    assert requests(document)["cpu"] == 5.0


def test_pods_of_one_spec_and_different_resizes_do_not_share_a_shape() -> None:
    shared = Shared()
    read = [
        to_pod(msgspec.convert(pod({"cpu": "1"}, {"cpu": text}), wire.Pod), shared, lambda key: False)
        for text in ("1", "4")
    ]
    assert [each.shape.requests["cpu"] for each in read] == [1.0, 4.0]


def test_nodes_of_one_kind_hold_their_amounts_once() -> None:
    reader = node_reader(KEEP)
    amounts = {"capacity": {"cpu": "8", "memory": "32Gi"}, "allocatable": {"cpu": "7", "memory": "30Gi"}}
    one, other, third = (
        reader.decode(json.dumps({"metadata": {"name": name}, "status": status}).encode())
        for name, status in (("a", amounts), ("b", amounts), ("c", {**amounts, "capacity": {"cpu": "9"}}))
    )
    assert one.capacity is other.capacity
    assert one.allocatable is other.allocatable is third.allocatable
    assert third.capacity == {"cpu": 9.0}
