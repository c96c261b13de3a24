"""Every check with a pod that passes and one that it refuses."""

from dataclasses import replace
from datetime import UTC
from typing import Any

import msgspec
import pytest

from ballast.cluster.objects.attachment_decoding import WireVolume, to_volume
from ballast.eviction.annotations import unknown_lifts
from ballast.eviction.check_input import Feasibility, refuse
from ballast.eviction.facts import ClusterObjects, Facts
from ballast.eviction.gate import LIFTED_BY_NAME, NAMES, ROWS
from ballast.eviction.gate_rules import UNLIMITED, EvictionLimit, GateRules, LocalStorage
from ballast.eviction.history import History
from ballast.eviction.time_windows import TimeWindow
from ballast.model.attachments import Attachments, StorageClass, VolumeClaim
from ballast.model.cron import Cron
from ballast.model.marks import EVICTION_UNDER_WAY, EVICTS_ITSELF, GANG_ANNOTATIONS, GANG_LABELS
from ballast.model.node import Taint
from ballast.model.pod import Owner
from ballast.model.selector import Requirement, Selector
from ballast.model.shape import ContainerShape, shape_of
from ballast.model.template import Template
from ballast.model.workload import Autoscaler, DisruptionBudget, Namespace, Quota, QuotaScope, Workload
from tests.worlds.shop import DEPLOYMENT, NOW, SET, WEB, Shop, a_budget, a_node, a_pod

ORDER = (
    "mirror, static, terminating, finished, daemonset, critical, priority, bare, job, gang, local-storage, pvc, "
    "resource-claims, without-pdb, pdb, node-fit, single-replica, min-ready, returnable, grace-period, min-age, "
    "pod-selector, namespace, opt-out, limit-node, limit-namespace, limit-total, limit-workload, workload-window, "
    "window, rate, cooldown, debounce, gain, relieved, stale, reservation, replacement, retry, identity, leadership, "
    "paused, cluster-health, loop"
)

SHOP = Shop()


def pod(**changes: Any) -> Shop:
    return SHOP.with_pod(**changes)


def rules(**changes: Any) -> Shop:
    return replace(SHOP, rules=GateRules(**changes))


def history(**changes: Any) -> Shop:
    return replace(SHOP, history=History(**changes))


GAVE, BACK = {(WEB, "n1"): NOW - 7000.0}, a_pod(created=NOW - 6000)
ONLY = (msgspec.structs.replace(DEPLOYMENT, replicas=1), SET)
EMPTY_DIR = Template(local_volumes=("cache",), scratch_volumes=("cache",), volume_claims=True, resource_claims=True)
IN_MEMORY = Template(local_volumes=("cache",), scratch_volumes=("cache",), memory_volumes=("cache",))
HOST_PATH = Template(local_volumes=("cache", "logs"), scratch_volumes=("cache",))
MAY_BE_LOST = {"cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes": "tmp, cache"}
DATABASE = Selector((Requirement("app", "In", ("db",)),))
MOVABLE, UNLABELLED = Selector((Requirement("moves", "Exists"),)), (Namespace("shop"),)
CLONE_SET = Owner("CloneSet", "web", "u", True)
CLONES = (a_pod("other", owner=CLONE_SET), a_pod("third", owner=CLONE_SET))
OTHER = SHOP.others[0]
UNREADY = tuple(msgspec.structs.replace(other, ready=False) for other in SHOP.others)
KEEPING = DisruptionBudget("shop", "web", Selector(()), allowed=0)
FREEING = msgspec.structs.replace(KEEPING, frees_unready=True)

DENIED = TimeWindow(denies=True, cron=Cron.parse("* * * * *"), duration=60.0, zone=UTC)


def paced(number: int, apart: float) -> tuple[float, ...]:
    """Times of evictions in the last hour, so many seconds apart."""
    return tuple(NOW - 3590 + apart * count for count in range(number))


SHARED = GateRules(planner="rebalance", rate_shares={"relieve": 0.5})
HOURLY = replace(SHARED, rates=((EvictionLimit(20), 3600.0),))

IN_ORDER = replace(SHOP, workloads=(DEPLOYMENT, msgspec.structs.replace(SET, ordered=True)))


def claiming(claim: str) -> Shop:
    """The pod mounts this claim, and those of class fast keep theirs where they are."""
    claims = [VolumeClaim("shop", name, storage_class=name) for name in ("fast", "slow")]
    return replace(
        rules(without_storage_classes=frozenset({"fast"})),
        pod=a_pod(template=Template(claims=(("shop", claim),))),
        attachments=Attachments(claims=claims, classes=[StorageClass("fast", default=True)]),
    )


def scoped(name: str, operator: str = "Exists", *values: str) -> Shop:
    """A quota that is full for pods in this scope."""
    return replace(SHOP, quotas=(msgspec.structs.replace(FULL, scopes=(QuotaScope(name, operator, values),)),))


OF_OLDER = Owner("ReplicaSet", "web-0", "u-older", True)
OLDER = msgspec.structs.replace(SET, name="web-0", uid="u-older")
FULL = Quota("shop", "small", ("pods",))
ASKING = {"shape": shape_of([ContainerShape({"cpu": 1.0})])}
LIMITED = {"shape": shape_of([ContainerShape()], [ContainerShape({}, {"memory": 1.0})])}
URGENT: dict[str, Any] = {"template": Template(priority_class="urgent")}
ENDING: dict[str, Any] = {"template": Template(deadline=True)}
IN_SCOPE: list[Any] = [
    ({}, "BestEffort"),
    (ASKING, "NotBestEffort"),
    (LIMITED, "NotBestEffort"),
    (ENDING, "Terminating"),
    ({}, "NotTerminating"),
    (URGENT, "PriorityClass"),
    (URGENT, "PriorityClass", "In", "urgent", "x"),
    (URGENT, "PriorityClass", "NotIn", "x"),
    ({}, "PriorityClass", "DoesNotExist"),
    ({}, "NobodyKnows"),
    (ASKING, "BestEffort", "NoOperator"),
]
OUT_OF_SCOPE: list[Any] = [
    (ASKING, "BestEffort"),
    (LIMITED, "BestEffort"),
    ({}, "NotBestEffort"),
    ({}, "Terminating"),
    (ENDING, "NotTerminating"),
    ({}, "PriorityClass"),
    (URGENT, "PriorityClass", "In", "x"),
    (URGENT, "PriorityClass", "NotIn", "urgent"),
    (URGENT, "PriorityClass", "DoesNotExist"),
]

DISRUPT, SAFE = "karpenter.sh/do-not-disrupt", "cluster-autoscaler.kubernetes.io/safe-to-evict"
HELD = ("true", "24h", "1h0m1s", "a while", "", "-5m", "True")
FREE = ("false", "30m", "1h", "0s", "0.5h")
LONE = msgspec.structs.replace(DEPLOYMENT, replicas=1)
SCRATCH = Template(local_volumes=("tmp",), ephemeral=(("tmp", None),))


def mounting(spec: dict[str, Any]) -> Shop:
    """The pod mounts a claim that is bound to a volume of this spec."""
    volume = to_volume(msgspec.convert({"metadata": {"name": "v"}, "spec": spec}, WireVolume))
    return replace(
        SHOP,
        pod=a_pod(template=Template(claims=(("shop", "data"),))),
        attachments=Attachments(claims=[VolumeClaim("shop", "data", volume="v")], volumes=[volume]),
    )


def csi(driver: str, **attributes: str) -> dict[str, Any]:
    return {"csi": {"driver": driver, "volumeHandle": "v", "volumeAttributes": attributes}}


TERM = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}]}
BOUND = {"nodeAffinity": {"required": {"nodeSelectorTerms": [TERM]}}}
LOCAL: list[dict[str, Any]] = [
    {"hostPath": {"path": "/data"}},
    {"local": {"path": "/data"}},
    csi("hostpath.csi.example.org"),
    csi("local.csi.example.org"),
    csi("example.org/local-path"),
    csi("driver.example.org", dataLocality="strict-local"),
    csi("driver.example.org", **{"example.org/nodename": "n1"}),
    {},
]
NETWORK: list[dict[str, Any]] = [
    {"nfs": {"server": "s", "path": "/p"}},
    {"iscsi": {}},
    {"awsElasticBlockStore": {"volumeID": "v"}},
    csi("ebs.csi.example.org"),
    csi("nfs.csi.example.org", server="localhost"),
    csi("csi-local-nfs.example.org"),
    csi("driver.example.org", dataLocality="best-effort"),
    csi("driver.example.org", node=""),
    {"hostPath": {"path": "/data"}, **BOUND},
]
"""The last one says itself where it is: `node-fit` keeps its pods there."""


def ten(not_ready: int) -> Shop:
    """A shop of ten nodes, of which the last ones are not Ready."""
    return replace(SHOP, nodes=tuple(a_node(f"n{number}", ready=number < 11 - not_ready) for number in range(1, 11)))


ONE_ON_N1 = (a_pod("x"),)
RELIEVED = history(overloaded=frozenset({"n1"}), of_own_rate={"overloaded": (NOW - 60,) * 19})
TEN = tuple(f"n{number}" for number in range(1, 11))

REFUSED: list[tuple[str, Shop]] = [
    ("mirror", pod(annotations={"kubernetes.io/config.mirror": "x"})),
    ("static", pod(annotations={"kubernetes.io/config.source": "file"})),
    ("static", pod(owner=Owner("Node", "n1", "u"))),
    ("terminating", pod(deleting=True)),
    ("finished", pod(phase="Succeeded")),
    ("finished", pod(phase="Failed")),
    ("daemonset", pod(owner=Owner("DaemonSet", "agent", "u", True))),
    ("critical", pod(priority=2_000_000_000)),
    ("critical", pod(namespace="kube-system")),
    ("critical", replace(SHOP, protected={WEB: "it is left alone: it is Ballast itself"})),
    ("priority", replace(rules(priority_below=100), pod=a_pod(priority=100))),
    ("bare", pod(owner=None)),
    ("bare", pod(owner=Owner("ReplicaSet", "web-1", "u-rs"))),
    *(("job", pod(owner=Owner(kind, "train", "u", True))) for kind in ("Job", "PyTorchJob", "Workflow", "TaskRun")),
    ("job", pod(template=Template(restarts=False))),
    *(("gang", pod(labels={"app": "web", key: "g"})) for key in sorted(GANG_LABELS)),
    *(("gang", pod(annotations={key: "g"})) for key in sorted(GANG_ANNOTATIONS)),
    *(("gang", pod(owner=Owner(kind, "g", "u", True))) for kind in ("RayCluster", "SparkApplication", "Pod")),
    ("gang", pod(template=Template(grouped=True))),
    ("local-storage", replace(rules(local_storage=LocalStorage.REFUSE), pod=a_pod(template=EMPTY_DIR))),
    *(
        ("local-storage", pod(template=EMPTY_DIR, owner=Owner(kind, "db", "u", True)))
        for kind in ("StatefulSet", "Ring")
    ),
    ("local-storage", pod(template=HOST_PATH)),
    ("local-storage", replace(rules(local_storage=LocalStorage.MEMORY), pod=a_pod(template=EMPTY_DIR))),
    ("local-storage", replace(rules(local_storage=LocalStorage.ALLOW), pod=a_pod(template=HOST_PATH))),
    ("pvc", replace(rules(refuse_volume_claims=True), pod=a_pod(template=EMPTY_DIR))),
    *(("pvc", claiming(name)) for name in ("fast", "gone")),
    ("pvc", replace(claiming("slow"), pod=a_pod(template=Template(ephemeral=(("tmp", "fast"),))))),
    ("pvc", replace(claiming("slow"), pod=a_pod(template=Template(ephemeral=(("tmp", None),))))),
    ("resource-claims", replace(rules(refuse_resource_claims=True), pod=a_pod(template=EMPTY_DIR))),
    ("without-pdb", rules(needs_budget=True)),
    ("pdb", replace(SHOP, budgets=(a_budget(allowed=0),))),
    ("pdb", replace(SHOP, budgets=(a_budget(settled=False),))),
    ("pdb", replace(SHOP, budgets=(a_budget("one", 5), a_budget("two", 5)))),
    ("pdb", replace(SHOP, budgets=(a_budget(allowed=1),), evicted=(OTHER,))),
    ("node-fit", replace(SHOP, outlook=Feasibility(fits=False))),
    ("single-replica", replace(SHOP, workloads=(msgspec.structs.replace(DEPLOYMENT, replicas=1), SET))),
    ("single-replica", replace(SHOP, workloads=())),
    ("min-ready", replace(SHOP, others=SHOP.others[:1])),
    ("min-ready", replace(SHOP, others=(OTHER, a_pod("web-1-c", ready=False)))),
    ("min-ready", replace(SHOP, others=(OTHER, a_pod("web-1-c", deleting=True)))),
    ("min-ready", replace(SHOP, evicted=(OTHER,))),
    ("returnable", replace(SHOP, workloads=(msgspec.structs.replace(DEPLOYMENT, uncreated=True), SET))),
    ("returnable", replace(SHOP, workloads=(DEPLOYMENT, SET, Workload("Deployment", "shop", "db", uncreated=True)))),
    ("returnable", replace(SHOP, quotas=(Quota("shop", "small", ("pods",)),))),
    ("returnable", replace(SHOP, quotas=(FULL, Quota("shop", "more")))),
    ("returnable", replace(SHOP, workloads=(DEPLOYMENT, SET, OLDER), others=(OTHER, a_pod("web-0-c", owner=OF_OLDER)))),
    *(("returnable", replace(scoped(*scope), pod=a_pod(**of))) for of, *scope in IN_SCOPE),
    ("grace-period", pod(grace=3601)),
    ("grace-period", replace(rules(grace_period=7200.0), pod=a_pod(grace=30))),
    *(("opt-out", pod(annotations={DISRUPT: value}, created=NOW - 3600)) for value in HELD),
    ("opt-out", pod(annotations={DISRUPT: "30m"}, created=NOW - 7200, scheduled_at=NOW - 600)),
    ("local-storage", pod(template=HOST_PATH, annotations={SAFE: "true"})),
    *(("local-storage", mounting(volume)) for volume in LOCAL),
    ("local-storage", replace(mounting(LOCAL[0]), rules=GateRules(local_storage=LocalStorage.ALLOW))),
    ("single-replica", replace(pod(owner=CLONE_SET), others=CLONES[:1])),
    ("min-ready", replace(pod(owner=CLONE_SET), others=CLONES, scales={("shop", "CloneSet", "web"): 4})),
    ("min-ready", replace(SHOP.with_pod(ready=False), budgets=(KEEPING,), others=UNREADY)),
    ("min-ready", replace(SHOP, workloads=(msgspec.structs.replace(DEPLOYMENT, available=2), SET))),
    ("pdb", replace(SHOP, budgets=(FREEING,))),
    ("pdb", replace(SHOP.with_pod(ready=False), budgets=(KEEPING,))),
    ("returnable", replace(IN_ORDER, others=(OTHER, a_pod("web-1-c", ready=False)))),
    ("returnable", replace(IN_ORDER.with_pod(ready=False), others=(OTHER, a_pod("web-1-c", ready=False)))),
    ("min-age", pod(created=NOW - 599)),
    ("pod-selector", rules(pod_selector=DATABASE)),
    ("namespace", rules(without_namespaces=frozenset({"shop"}))),
    ("namespace", rules(only_namespaces=frozenset({"other"}))),
    *(("namespace", replace(rules(namespace_selector=MOVABLE), namespaces=known)) for known in ((), UNLABELLED)),
    ("opt-out", pod(annotations={"ballast.dev/exclude": "true"})),
    ("opt-out", pod(annotations={"ballast.dev/exclude": "yes"})),
    ("opt-out", pod(annotations={"ballast.dev/exclude-until": "2023-11-14T22:13:21Z"})),
    ("opt-out", pod(annotations={"ballast.dev/exclude-until": "tomorrow"})),
    ("opt-out", pod(annotations={"ballast.dev/evict": "false"})),
    ("opt-out", pod(annotations={"ballast.dev/evict": "maybe"})),
    ("opt-out", pod(annotations={"descheduler.alpha.kubernetes.io/prefer-no-eviction": ""})),
    ("opt-out", pod(annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"})),
    ("opt-out", pod(annotations={"karpenter.sh/do-not-disrupt": "true"})),
    ("opt-out", pod(annotations={"scheduling.koordinator.sh/eviction-cost": "2147483647"})),
    ("limit-node", replace(rules(limit_node=EvictionLimit(1)), evicted=(a_pod("x"),))),
    ("limit-namespace", replace(rules(limit_namespace=EvictionLimit(1)), evicted=(OTHER,))),
    ("limit-total", replace(rules(limit_total=EvictionLimit(2)), evicted=(OTHER, OTHER))),
    ("limit-workload", replace(rules(limit_workload=EvictionLimit(1)), evicted=(OTHER,))),
    ("workload-window", history(workload_evictions={WEB: (NOW - 1799,)})),
    ("window", rules(windows=(DENIED,))),
    ("rate", history(evictions=(NOW - 60,) * 20)),
    ("rate", history(set_back=NOW - 3000)),
    ("workload-window", history(set_back=NOW - 1000)),
    ("rate", history(evictions=(NOW - 60,) * 5)),
    ("rate", history(overloaded=frozenset({"n1"}), of_own_rate={"overloaded": (NOW - 60,) * 20})),
    ("rate", replace(history(of_own_rate={"tidy": paced(20, 180)}), rules=GateRules(planner="tidy", moves=False))),
    ("rate", replace(history(evictions=(NOW - 60,) * 10), rules=SHARED)),
    ("rate", replace(history(evictions=(NOW - 60,) * 19, by_planner={"relieve": (NOW - 60,) * 9}), rules=SHARED)),
    ("rate", replace(RELIEVED, evicted=ONE_ON_N1)),
    ("rate", replace(history(evictions=paced(10, 360)), rules=HOURLY)),
    ("cooldown", history(node_evictions={"n1": NOW - 599})),
    ("cooldown", replace(history(node_evictions={"n1": NOW - 9}), rules=replace(SHARED, needs_confirmation=False))),
    ("cooldown", replace(history(node_planners={("n1", "relieve"): NOW - 599}), rules=GateRules(planner="relieve"))),
    ("cooldown", history(ineffective={("n1", "cpu"): "it did not help"}, causes={"n1": frozenset({"cpu"})})),
    ("debounce", history(confirmed={"n1": 2})),
    ("debounce", history(confirmed={})),
    ("gain", replace(SHOP, outlook=Feasibility(unpaid="it gains less than it costs"))),
    ("relieved", replace(SHOP, outlook=Feasibility(spared="it costs too much"))),
    ("stale", replace(SHOP, unknown=("n1",))),
    ("stale", replace(SHOP, outlook=Feasibility(only_unknown=True))),
    ("stale", replace(SHOP, outlook=Feasibility(used=False))),
    ("reservation", rules(steered=frozenset({"other-scheduler"}))),
    ("reservation", rules(steered=frozenset(), needs_landing=False)),
    ("reservation", replace(history(overloaded=frozenset({"n1"})), rules=GateRules(steered=frozenset()))),
    ("replacement", replace(SHOP, workloads=(msgspec.structs.replace(DEPLOYMENT, rolling=True), SET))),
    ("replacement", replace(SHOP, autoscalers=(Autoscaler("shop", "Deployment", "web", NOW - 299),))),
    ("replacement", history(awaited=frozenset({WEB}))),
    ("replacement", history(planned=frozenset({WEB}))),
    ("replacement", pod(annotations={EVICTION_UNDER_WAY: "true"})),
    ("retry", history(backing_off={WEB: NOW + 5})),
    ("identity", replace(history(acting=True), pod=a_pod(uid=""))),
    ("identity", replace(history(known=frozenset({"u-known"})), pod=a_pod(uid="u-known"))),
    ("leadership", history(acting=True, leader=False)),
    ("paused", history(acting=True, paused="paused by key paused")),
    ("cluster-health", replace(SHOP, nodes=(a_node("n1"), a_node("n2", ready=False)))),
    ("cluster-health", replace(SHOP, unknown=("n2",))),
    ("cluster-health", replace(SHOP, nodes=(a_node("n1", unschedulable=True), a_node("n2")))),
    ("cluster-health", replace(SHOP, nodes=(a_node("n1", deleting=True), a_node("n2")))),
    ("cluster-health", replace(SHOP, nodes=(a_node("n1", created=NOW - 299), a_node("n2")))),
    ("cluster-health", replace(SHOP, nodes=(a_node(taints=(Taint("ToBeDeletedByClusterAutoscaler", "NoSchedule"),)),))),
    ("cluster-health", replace(SHOP, nodes=(a_node(taints=(Taint("karpenter.sh/disrupted", "NoSchedule"),)),))),
    ("cluster-health", pod(node="n9")),
    ("cluster-health", replace(ten(not_ready=1), pod=a_pod(node="n10"))),
    ("cluster-health", ten(not_ready=2)),
    ("cluster-health", replace(ten(not_ready=0), unknown=TEN[7:])),
    ("cluster-health", replace(ten(not_ready=0), unknown=TEN, silent=0)),
    ("cluster-health", history(api_errors=0.06)),
    ("cluster-health", history(replacements=4)),
    ("loop", history(looping={(WEB, "n1"): NOW - 7000.0})),
    ("loop", history(looping={(WEB, "n1"): NOW - 3500.0}, overloaded=frozenset({"n1"}))),
    ("loop", replace(history(gave={(WEB, "n1"): NOW - 7000.0}), pod=BACK, workloads=ONLY)),
    ("loop", replace(history(gave=GAVE, overloaded=frozenset({"n1"})), pod=a_pod(created=NOW - 3500), workloads=ONLY)),
]

ALLOWED: list[tuple[str, Shop]] = [
    ("loop", replace(history(gave=GAVE, overloaded=frozenset({"n1"})), pod=BACK, workloads=ONLY)),
    ("loop", replace(history(gave={(WEB, "n1"): NOW - 5000.0}), pod=BACK, workloads=ONLY)),
    ("loop", replace(history(gave={(WEB, "n2"): NOW - 7000.0}), pod=BACK, workloads=ONLY)),
    ("loop", replace(history(gave=GAVE), pod=BACK)),
    *((name, SHOP) for name in NAMES),
    ("priority", replace(rules(priority_below=100), pod=a_pod(priority=99))),
    ("local-storage", pod(template=EMPTY_DIR)),
    ("local-storage", pod(template=EMPTY_DIR, owner=Owner("StatefulSet", "db", "u", True), annotations=MAY_BE_LOST)),
    ("pvc", pod(template=EMPTY_DIR)),
    ("pvc", claiming("slow")),
    ("pvc", replace(claiming("slow"), pod=a_pod(template=Template(ephemeral=(("tmp", "slow"),))))),
    ("namespace", replace(rules(namespace_selector=MOVABLE), namespaces=(Namespace("shop", {"moves": "yes"}),))),
    ("resource-claims", replace(rules(refuse_resource_claims=False), pod=a_pod(template=EMPTY_DIR))),
    ("job", replace(rules(allow_jobs=True), pod=a_pod(owner=Owner("Job", "train", "u", True)))),
    ("job", pod(owner=CLONE_SET)),
    ("gang", replace(rules(allow_gangs=True), pod=a_pod(labels={"ray.io/cluster": "g"}))),
    ("local-storage", replace(rules(local_storage=LocalStorage.ALLOW), pod=a_pod(template=EMPTY_DIR))),
    ("local-storage", replace(rules(local_storage=LocalStorage.MEMORY), pod=a_pod(template=IN_MEMORY))),
    ("without-pdb", replace(rules(needs_budget=True), budgets=(a_budget(),))),
    ("pdb", replace(SHOP, budgets=(a_budget(allowed=2),), evicted=(OTHER,))),
    ("node-fit", replace(SHOP, outlook=Feasibility(fits=True))),
    ("single-replica", replace(rules(min_replicas=1), workloads=())),
    ("single-replica", replace(pod(owner=CLONE_SET), others=CLONES)),
    ("single-replica", replace(pod(owner=CLONE_SET), others=CLONES[:1], scales={("shop", "CloneSet", "web"): 2})),
    ("min-ready", replace(pod(owner=CLONE_SET), others=CLONES, scales={("shop", "CloneSet", "web"): 3})),
    ("min-ready", replace(SHOP.with_pod(ready=False), budgets=(FREEING,), others=UNREADY)),
    ("min-ready", replace(SHOP, workloads=(msgspec.structs.replace(DEPLOYMENT, available=3), SET))),
    ("pdb", replace(SHOP.with_pod(ready=False), budgets=(FREEING,))),
    ("returnable", replace(SHOP, workloads=(DEPLOYMENT, SET, Workload("Deployment", "else", "db", uncreated=True)))),
    ("returnable", replace(SHOP, quotas=(Quota("shop", "large"), Quota("else", "small", ("pods",))))),
    ("returnable", IN_ORDER),
    ("returnable", IN_ORDER.with_pod(ready=False)),
    ("min-ready", replace(SHOP, evicted=(OTHER,), rules=GateRules(max_unavailable=UNLIMITED))),
    ("min-ready", replace(SHOP.with_pod(ready=False), rules=GateRules(max_unavailable=EvictionLimit(1)))),
    *(("returnable", replace(scoped(*scope), pod=a_pod(**of))) for of, *scope in OUT_OF_SCOPE),
    ("grace-period", pod(grace=3600)),
    ("grace-period", replace(rules(grace_period=60.0), pod=a_pod(grace=604_800))),
    *(("opt-out", pod(annotations={DISRUPT: value}, created=NOW - 3600)) for value in FREE),
    ("local-storage", pod(template=EMPTY_DIR, owner=CLONE_SET, annotations={SAFE: "true"})),
    ("local-storage", pod(template=SCRATCH, annotations={SAFE: "true"})),
    *(("local-storage", mounting(volume)) for volume in NETWORK),
    ("single-replica", replace(SHOP.with_pod(annotations={EVICTS_ITSELF: ""}), workloads=(LONE, SET))),
    ("min-age", pod(created=NOW - 600)),
    ("opt-out", pod(annotations={"ballast.dev/exclude-until": "2023-11-14T22:13:20Z"})),
    ("opt-out", pod(annotations={"ballast.dev/evict": "true"})),
    ("opt-out", pod(annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"})),
    ("limit-node", replace(rules(limit_node=EvictionLimit(1)), evicted=(OTHER,))),
    ("workload-window", history(workload_evictions={WEB: (NOW - 1800,)})),
    ("window", rules(windows=(replace(DENIED, planners=frozenset({"tidy"})),))),
    ("window", rules(windows=(replace(DENIED, denies=False),))),
    ("rate", history(evictions=(NOW - 86_400,) * 20)),
    ("cooldown", history(node_evictions={"n1": NOW - 600})),
    ("cooldown", replace(history(node_evictions={"n1": NOW - 9}), rules=replace(SHARED, planner="relieve"))),
    ("cooldown", history(ineffective={("n1", "cpu"): "no"}, causes={"n1": frozenset({"cpu", "memory"})})),
    ("cooldown", history(ineffective={("n1", "cpu"): "no"}, causes={"n1": frozenset({"memory"})})),
    ("cooldown", history(ineffective={("n1", "cpu"): "no"})),
    ("rate", replace(history(evictions=paced(9, 360)), rules=HOURLY)),
    ("rate", replace(history(evictions=paced(19, 180)), rules=replace(HOURLY, planner="relieve"))),
    ("rate", replace(history(evictions=paced(19, 180), by_planner={"relieve": paced(10, 180)}), rules=HOURLY)),
    ("rate", history(set_back=NOW - 90_000)),
    ("workload-window", history(set_back=NOW - 3000)),
    ("rate", history(evictions=(NOW - 60,) * 4)),
    ("rate", replace(history(evictions=(NOW - 60,) * 20), rules=GateRules(planner="tidy", moves=False))),
    ("rate", history(evictions=(NOW - 60,) * 20, overloaded=frozenset({"n1"}))),
    ("rate", history(of_own_rate={"overloaded": (NOW - 60,) * 20})),
    ("cooldown", history(node_evictions={"n1": NOW - 9}, overloaded=frozenset({"n1"}))),
    ("debounce", history(confirmed={}, overloaded=frozenset({"n1"}))),
    ("debounce", history(confirmed={"n1": 3})),
    ("debounce", replace(history(confirmed={}), rules=GateRules(needs_confirmation=False))),
    ("reservation", rules(steered=frozenset({"default-scheduler"}))),
    (
        "reservation",
        replace(history(overloaded=frozenset({"n1"})), rules=GateRules(steered=frozenset(), needs_landing=False)),
    ),
    ("replacement", replace(SHOP, autoscalers=(Autoscaler("shop", "Deployment", "web", NOW - 300),))),
    ("retry", history(backing_off={WEB: NOW})),
    ("identity", pod(uid="")),
    ("identity", history(acting=True)),
    ("identity", replace(history(known=frozenset({"u-known"})), pod=a_pod(uid="u-new"))),
    ("leadership", history(acting=True)),
    ("paused", history(paused="paused by key paused")),
    ("cluster-health", replace(SHOP, nodes=(a_node("n1", created=NOW - 300), a_node("n2")))),
    ("cluster-health", ten(not_ready=1)),
    ("cluster-health", replace(ten(not_ready=0), unknown=TEN[8:])),
    ("cluster-health", replace(ten(not_ready=0), unknown=TEN[1:], silent=0)),
    ("cluster-health", history(api_errors=0.05)),
    ("cluster-health", history(replacements=3)),
    ("rate", RELIEVED),
    ("critical", pod(priority=1_999_999_999)),
    ("limit-namespace", replace(rules(limit_namespace=EvictionLimit(2)), evicted=(OTHER,))),
    ("limit-total", replace(rules(limit_total=EvictionLimit(2)), evicted=(OTHER,))),
    ("limit-workload", replace(rules(limit_workload=EvictionLimit(2)), evicted=(OTHER,))),
]


def test_the_names_and_their_order_are_fixed() -> None:
    assert ", ".join(NAMES) == ORDER


@pytest.mark.parametrize(("check", "shop"), [pytest.param(c, s, id=f"{c}-{i}") for i, (c, s) in enumerate(REFUSED)])
def test_refused(check: str, shop: Shop) -> None:
    verdict = shop.verdict(check)
    assert not verdict.allowed
    assert verdict.reason


@pytest.mark.parametrize(("check", "shop"), [pytest.param(c, s, id=f"{c}-{i}") for i, (c, s) in enumerate(ALLOWED)])
def test_allowed(check: str, shop: Shop) -> None:
    verdict = shop.verdict(check)
    assert verdict.allowed
    assert verdict.reason


def test_no_check_is_forgotten() -> None:
    assert {check for check, _ in REFUSED} == set(NAMES)


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_an_opt_in_lifts_only_what_it_may(row: Any) -> None:
    liftable = {"bare", "local-storage", "pvc", "priority", "without-pdb", "single-replica", "min-age"}
    assert row.liftable == (row.name in liftable)
    for check, shop in REFUSED:
        if check == row.name and check != "opt-out":
            annotations = {**shop.pod.annotations, "ballast.dev/evict": "true"}
            assert shop.with_pod(annotations=annotations).verdict(check).allowed == row.liftable


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_an_annotation_lifts_what_it_names_and_nothing_else(row: Any) -> None:
    liftable = {"bare", "local-storage", "pvc", "priority", "without-pdb", "single-replica", "min-age", "job"}
    liftable.add("grace-period")
    for check, shop in REFUSED:
        if check == row.name and check != "opt-out":
            named = {**shop.pod.annotations, "ballast.dev/evict-lifts": f"no-such-check, {check}"}
            other = {**shop.pod.annotations, "ballast.dev/evict-lifts": "no-such-check,pdb,gang" + check}
            verdict = shop.with_pod(annotations=named).verdict(check)
            assert verdict.allowed == (check in liftable)
            assert not verdict.allowed or "evict-lifts lifts this" in verdict.reason
            assert not shop.with_pod(annotations=other).verdict(check).allowed


def test_the_nearest_object_says_what_is_lifted() -> None:
    def shop(own: str | None, workload: str | None, namespace: str | None) -> Shop:
        def said(value: str | None) -> dict[str, str]:
            return {} if value is None else {"ballast.dev/evict-lifts": value}

        return replace(
            SHOP.with_pod(annotations=said(own), template=HOST_PATH),
            workloads=(msgspec.structs.replace(DEPLOYMENT, annotations=said(workload)), SET),
            namespaces=(Namespace("shop", annotations=said(namespace)),),
        )

    assert shop(None, None, "local-storage").verdict("local-storage").allowed
    assert not shop(None, "pvc", "local-storage").verdict("local-storage").allowed
    assert shop("local-storage", "pvc", "pvc").verdict("local-storage").allowed
    assert not shop("", None, "local-storage").verdict("local-storage").allowed


def test_what_an_annotation_cannot_lift_is_told() -> None:
    told = unknown_lifts({"ballast.dev/evict-lifts": "pvc, pdb,typo"}, "ballast.dev", LIFTED_BY_NAME)
    assert told is not None
    assert '"pdb", "typo"' in told
    assert unknown_lifts({"ballast.dev/evict-lifts": "pvc,job"}, "ballast.dev", LIFTED_BY_NAME) is None
    assert unknown_lifts({}, "ballast.dev", LIFTED_BY_NAME) is None


def test_the_nearest_object_wins() -> None:
    def shop(own: str | None, workload: str | None, namespace: str | None, key: str) -> Shop:
        def said(value: str | None) -> dict[str, str]:
            return {} if value is None else {f"ballast.dev/{key}": value}

        return replace(
            SHOP.with_pod(annotations=said(own)),
            workloads=(msgspec.structs.replace(DEPLOYMENT, annotations=said(workload)), SET),
            namespaces=(Namespace("shop", annotations=said(namespace)),),
        )

    for key, no, yes in (("exclude", "true", "false"), ("evict", "false", "true")):
        assert not shop(None, None, no, key).verdict("opt-out").allowed
        assert not shop(None, no, yes, key).verdict("opt-out").allowed
        assert not shop(no, yes, yes, key).verdict("opt-out").allowed
        assert shop(yes, no, no, key).verdict("opt-out").allowed
        assert shop(None, yes, no, key).verdict("opt-out").allowed


def test_an_opt_in_does_not_beat_an_exclusion() -> None:
    shop = pod(annotations={"ballast.dev/evict": "true", "ballast.dev/exclude": "true"})
    assert not shop.verdict("opt-out").allowed


def test_the_numbers_behind_a_verdict_are_told() -> None:
    verdict = replace(SHOP, budgets=(a_budget(allowed=1),), evicted=(OTHER,)).verdict("pdb")
    assert verdict.numbers == {"allowed": 1, "planned": 1}
    assert "web" in verdict.reason


def test_a_workload_is_its_deployment() -> None:
    facts = SHOP.gate().facts
    assert facts.key(SHOP.pod) == WEB
    assert facts.replicas(SHOP.pod) == 3
    lonely = replace(SHOP, workloads=(Workload("ReplicaSet", "shop", "web-1", replicas=2, owner=SET.owner),))
    assert lonely.gate().facts.replicas(SHOP.pod) == 2


def test_annotations_of_operators_count_on_namespaces_alone() -> None:
    for key, check in (("exclude", "opt-out"), ("evict", "opt-out")):
        said = {f"ballast.dev/{key}": "true" if key == "exclude" else "false"}
        shop = pod(annotations=said)
        rules = replace(shop.rules, operator_only=frozenset({f"ballast.dev/{key}"}))
        assert not shop.verdict(check).allowed
        assert replace(shop, rules=rules).verdict(check).allowed
        ours = replace(shop, rules=rules, namespaces=(Namespace("shop", annotations=said),))
        assert not ours.verdict(check).allowed


def test_one_more_replica_is_started_only_where_nobody_else_sets_their_number() -> None:
    single = msgspec.structs.replace(DEPLOYMENT, replicas=1)
    objects = ClusterObjects(pods=(SHOP.pod,), workloads=(single, SET))
    assert Facts(objects, now=NOW).surging(SHOP.pod) == single
    budgeted = replace(objects, budgeted=frozenset({("shop", "Deployment", "web")}))
    assert Facts(budgeted, now=NOW).surging(SHOP.pod) is None
    scaled = replace(objects, autoscalers=(Autoscaler("shop", "Deployment", "web"),))
    assert Facts(scaled, now=NOW).surging(SHOP.pod) is None
    once = replace(objects, autoscalers=(Autoscaler("shop", "Deployment", "web", NOW - 9999, own_kind=""),))
    assert Facts(once, now=NOW).surging(SHOP.pod) == single


def test_numbers_in_a_sentence_are_those_that_a_person_reads() -> None:
    told = refuse("the API server fails too often", share=0.0673759, at_most=0.05).in_words
    assert told == "the API server fails too often (share 0.067, at most 0.05)"
    assert refuse("too many nodes are not Ready", not_ready=3, nodes=10).in_words.endswith("(not ready 3, nodes 10)")
