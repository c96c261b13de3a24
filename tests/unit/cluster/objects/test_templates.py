from typing import Any

import msgspec
import pytest

from ballast.cluster import workloads
from ballast.cluster.objects import wire
from ballast.cluster.objects.decoding import Shared, to_pod
from ballast.model.pod import Pod
from ballast.model.selector import Requirement, Selector, parse
from ballast.model.template import PLAIN, HostPort, NodeTerm, PodTerm, Toleration, TopologySpread
from ballast.model.workload import DisruptionBudget, Workload

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def read(shared: Shared | None = None, *, labels: Any = None, status: Any = None, **spec: Any) -> Pod:
    document = {"metadata": {"name": "p", "namespace": "shop", "labels": labels}, "spec": spec, "status": status or {}}
    return to_pod(
        msgspec.json.decode(msgspec.json.encode(document), type=wire.Pod), shared or Shared(), lambda key: True
    )


def test_where_a_pod_may_run() -> None:
    template = read(
        labels={"app": "web", "hash": "1"},
        nodeSelector={"disk": "fast"},
        tolerations=[{"key": "gpu", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 3}],
        affinity={
            "nodeAffinity": {
                REQUIRED: {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}],
                            "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}],
                        }
                    ]
                }
            },
            "podAffinity": {REQUIRED: [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}}]},
            "podAntiAffinity": {
                REQUIRED: [
                    {
                        "topologyKey": "host",
                        "labelSelector": {},
                        "namespaceSelector": {"matchLabels": {"team": "x"}},
                        "matchLabelKeys": ["hash"],
                    }
                ]
            },
        },
        topologySpreadConstraints=[
            {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "nodeTaintsPolicy": "Honor"},
            {"maxSkew": 1, "topologyKey": "host", "whenUnsatisfiable": "ScheduleAnyway"},
        ],
        containers=[{"ports": [{"containerPort": 80, "hostPort": 8080, "protocol": "TCP"}, {"containerPort": 81}]}],
    ).template
    assert template.node_selector == (("disk", "fast"),)
    assert template.tolerations == (Toleration("gpu", "Exists", "", "NoSchedule"),)
    zone, name = Requirement("zone", "In", ("a", "b")), Requirement("metadata.name", "NotIn", ("n1",))
    assert template.node_affinity == (NodeTerm((zone,), (name,)),)
    assert template.affinity == (PodTerm("zone", parse("app=db"), ("shop",)),)
    assert template.anti_affinity == (PodTerm("host", parse("hash=1"), (), parse("team=x")),)
    assert template.spread == (TopologySpread("zone", 2, None, honour_taints=True),)
    assert template.host_ports == (HostPort(8080),)


def test_what_a_pod_keeps_on_its_node() -> None:
    template = read(
        volumes=[
            {"name": "cache", "emptyDir": {}},
            {"name": "logs", "hostPath": {"path": "/var"}},
            {"name": "token", "projected": {}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "data-0"}},
        ],
        resourceClaims=[{"name": "gpu"}],
    ).template
    assert template.local_volumes == ("cache", "logs")
    assert template.scratch_volumes == ("cache",)
    assert template.memory_volumes == ()
    assert template.volume_claims
    assert template.resource_claims
    lost = read(
        volumes=[
            {"name": "shm", "emptyDir": {"medium": "Memory"}},
            {"name": "huge", "emptyDir": {"medium": "HugePages"}},
            {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
        ]
    ).template
    assert lost.local_volumes == ("shm", "huge", "scratch")
    assert lost.scratch_volumes == ("shm", "huge")
    assert lost.memory_volumes == ("shm",)


def test_a_pod_that_runs_to_an_end_or_with_others() -> None:
    assert read().template is PLAIN
    assert read(restartPolicy="Always").template is PLAIN
    for policy in ("Never", "OnFailure"):
        assert not read(restartPolicy=policy).template.restarts
    assert read(workloadRef={"name": "train", "podGroup": "workers"}).template.grouped
    assert read(schedulingGroup={"podGroupName": "train"}).template.grouped


def test_pods_of_one_template_share_it() -> None:
    shared = Shared()
    one, two = (read(shared, nodeSelector={"disk": "fast"}) for _ in range(2))
    assert one.template is two.template
    assert read(shared).template is PLAIN


def test_a_pod_that_waits() -> None:
    refused = {"type": "PodScheduled", "status": "False", "lastTransitionTime": "2023-11-14T22:13:20Z"}
    unschedulable = {"conditions": [{**refused, "reason": "Unschedulable"}]}
    assert read(status=unschedulable).waiting_since == 1_700_000_000
    assert read(status=unschedulable).waiting
    assert not read(status={"conditions": [{**refused, "reason": "SchedulingGated"}]}).waiting
    assert not read(status=unschedulable, schedulingGates=[{"name": "x"}]).waiting
    assert not read(status=unschedulable, nodeName="n1").waiting
    assert not read().waiting


def test_priority_classes_of_the_system_are_known() -> None:
    assert read(priorityClassName="system-node-critical").priority == 2_000_001_000
    assert read(priorityClassName="mine").priority == 0
    assert read(priorityClassName="system-node-critical", priority=5).priority == 5


def workload(kind: str, status: Any, replicas: int = 3) -> Workload:
    document = {"metadata": {"name": "w", "generation": 2}, "spec": {"replicas": replicas}, "status": status}
    return workloads.to_workload(kind, msgspec.convert(document, workloads.WireWorkload), Shared(), lambda key: True)


def test_rollouts_are_seen() -> None:
    settled = {"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3}
    assert not workload("Deployment", settled).rolling
    assert workload("Deployment", {**settled, "observedGeneration": 1}).rolling
    assert workload("Deployment", {**settled, "updatedReplicas": 2}).rolling
    assert workload("Deployment", {**settled, "replicas": 4}).rolling
    assert not workload("Deployment", {}).rolling
    revisions = {"observedGeneration": 2, "currentRevision": "a", "updateRevision": "b"}
    assert workload("StatefulSet", revisions).rolling
    assert not workload("StatefulSet", {**revisions, "updateRevision": "a"}).rolling
    assert not workload("ReplicaSet", {"observedGeneration": 1}).rolling


@pytest.mark.parametrize(
    ("kind", "spec", "status"),
    [
        ("Deployment", {"paused": True}, {}),
        (
            "Deployment",
            {},
            {"conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]},
        ),
        ("StatefulSet", {"updateStrategy": {"type": "OnDelete"}}, {}),
        ("StatefulSet", {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}}, {}),
    ],
)
def test_rollouts_that_do_not_go_on_are_seen(kind: str, spec: Any, status: Any) -> None:
    def stalled(more: Any, seen: Any) -> bool:
        document = {"metadata": {"name": "w", "generation": 2}, "spec": {"replicas": 3, **more}, "status": seen}
        found = msgspec.convert(document, workloads.WireWorkload)
        return workloads.to_workload(kind, found, Shared(), lambda key: True).stalled

    assert stalled(spec, status)
    assert not stalled({}, {})


def test_budgets() -> None:
    def read_budget(spec: Any, **status: Any) -> DisruptionBudget:
        document = {"metadata": {"name": "b", "namespace": "shop", "generation": 3}, "spec": spec, "status": status}
        return workloads.to_budget(msgspec.convert(document, workloads.WireBudget), Shared())

    found = read_budget({"selector": {"matchLabels": {"app": "web"}}}, disruptionsAllowed=2, observedGeneration=3)
    assert found == DisruptionBudget("shop", "b", parse("app=web"), 2)
    assert not read_budget({"selector": {}}, disruptionsAllowed=2, observedGeneration=2).settled
    assert read_budget({"selector": {}}).selector == Selector()
    assert read_budget({}).selector is None
    assert read_budget({}).allowed == 0


def test_the_claims_that_pods_name_are_kept_apart() -> None:
    shared = Shared()
    one, two = (read(shared, resourceClaims=[{"name": "gpu", "resourceClaimName": name}]) for name in ("a", "b"))
    assert (one.template.named_claims, two.template.named_claims) == (("a",), ("b",))
    assert (one.template.shared_devices, one.template.device_claims) == (True, 0)
    own = read(shared, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}]).template
    assert (own.named_claims, own.shared_devices, own.device_claims) == ((), False, 1)
