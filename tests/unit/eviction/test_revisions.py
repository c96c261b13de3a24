"""As what a pod comes back, against the controllers of Kubernetes written out plainly."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from ballast.cluster.objects.decoding import Shared
from ballast.cluster.workloads import WireWorkload, to_workload
from ballast.eviction.facts import ClusterObjects, Facts
from ballast.model.pod import Owner, Pod
from ballast.model.workload import Workload
from tests.properties import examples

LABELS = ("controller-revision-hash", "pod-template-hash", "example.org/template-hash")


def created_by_a_stateful_set(spec: dict[str, Any], status: dict[str, Any], ordinal: int) -> str:
    """newVersionedStatefulSetPod of pkg/controller/statefulset."""
    strategy, start = spec["updateStrategy"], spec.get("ordinals", {}).get("start", 0)
    rolling = strategy.get("rollingUpdate")
    old = strategy["type"] == "RollingUpdate" and (
        ordinal < start + status["currentReplicas"] if rolling is None else ordinal < start + rolling["partition"]
    )
    return str(status["currentRevision" if old else "updateRevision"])


@examples(300)
@given(data=st.data())
def test_a_pod_of_a_stateful_set_stays_exactly_where_its_controller_would_create_another_revision(
    data: st.DataObject,
) -> None:
    start, replicas = data.draw(st.integers(0, 3)), data.draw(st.integers(1, 6))
    partition = st.integers(0, 7).map(lambda number: {"partition": number})
    strategy = data.draw(
        st.one_of(
            st.just({"type": "OnDelete"}),
            st.just({"type": "RollingUpdate"}),
            partition.map(lambda rolling: {"type": "RollingUpdate", "rollingUpdate": rolling}),
        )
    )
    spec: dict[str, Any] = {"replicas": replicas, "updateStrategy": strategy}
    if start:
        spec["ordinals"] = {"start": start}
    revision = st.sampled_from(["x-a", "x-b", "x-c"])
    status = {
        "currentRevision": data.draw(revision),
        "updateRevision": data.draw(revision),
        "currentReplicas": data.draw(st.integers(0, replicas)),
    }
    document = {"metadata": {"name": "x", "namespace": "shop"}, "spec": spec, "status": status}
    owner = to_workload("StatefulSet", msgspec.convert(document, WireWorkload), Shared(), lambda key: False)
    pods = [a_pod(f"x-{n}", Owner("StatefulSet", "x", "u", True), {LABELS[0]: data.draw(revision)})
            for n in range(start, start + replicas)]  # fmt: skip
    revisions = Facts(ClusterObjects(pods=pods, workloads=[owner]), now=0).revisions
    for ordinal, pod in enumerate(pods, start):
        comes = created_by_a_stateful_set(spec, status, ordinal)
        told = revisions.refusal(pod)
        assert (told is None) == (pod.labels[LABELS[0]] == comes)
        assert told is None or (comes in told and pod.labels[LABELS[0]] in told)


@examples(200)
@given(data=st.data())
def test_pods_of_any_other_owner_stay_exactly_while_they_are_not_all_alike(data: st.DataObject) -> None:
    kind, above = data.draw(st.sampled_from(["Deployment", "Rollout", "Ring"])), data.draw(st.booleans())
    workloads, pods, kinds = [], [], set()
    for number in range(data.draw(st.integers(1, 6))):
        label = data.draw(st.sampled_from(LABELS))
        labels = {label: value} if (value := data.draw(st.sampled_from(["", "a", "b"]))) else {}
        name = data.draw(st.sampled_from(["x-1", "x-2"])) if above else "x"
        owner = Owner("ReplicaSet" if above else kind, name, name, True)
        if above:
            workloads.append(Workload("ReplicaSet", "shop", name, owner=Owner(kind, "x", "u", True)))
        ending = data.draw(st.sampled_from([{}, {}, {"deleting": True}, {"phase": "Failed"}]))
        pods.append(a_pod(f"p{number}", owner, labels, **ending))
        if not ending:
            kinds.add((name, tuple(labels.items())))
    revisions = Facts(ClusterObjects(pods=pods, workloads=workloads), now=0).revisions
    assert {revisions.refusal(pod) is None for pod in pods} == {len(kinds) < 2}


def a_pod(name: str, owner: Owner, labels: dict[str, str], **more: Any) -> Pod:
    return Pod("shop", name, uid=name, owner=owner, labels=labels, **{"node": "n1", "phase": "Running", **more})
