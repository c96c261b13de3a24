"""The cluster as the checks see it: owners and budgets of pods, state of nodes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from ballast.eviction.quotas import in_the_way
from ballast.eviction.revisions import Revisions
from ballast.eviction.starting import Barren, barren_nodes
from ballast.model.attachments import UNKNOWN, Attachments, NodeClaim, PersistentVolume, ScaleUp
from ballast.model.node import Node
from ballast.model.pod import Owner, Pod
from ballast.model.workload import Autoscaler, DisruptionBudget, Namespace, Quota, Recommendation, Workload

WorkloadKey: TypeAlias = tuple[str, str, str]
"""Namespace, kind, name of what scales a pod: the Deployment rather than its ReplicaSet."""

LISTED = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
"""Labels of the nodes that run the cluster itself."""
_CANDIDATE = "DeletionCandidateOfClusterAutoscaler"
_REMOVING = ("ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/disruption")


NODE_ARRIVES = 900.0
"""Seconds that an ordered node may take: cluster-autoscaler's --max-node-provision-time."""


@dataclass
class ReplicaCounts:
    """Unfinished pods of a workload; `going` are terminating, `ready` are Ready and stay."""

    there: int = 0
    ready: int = 0
    going: int = 0


@dataclass(frozen=True)
class ClusterObjects:
    """The objects of a cluster at one moment, as watches or files show them."""

    nodes: Sequence[Node] = ()
    pods: Sequence[Pod] = ()
    workloads: Sequence[Workload] = ()
    budgets: Sequence[DisruptionBudget] = ()
    autoscalers: Sequence[Autoscaler] = ()
    namespaces: Sequence[Namespace] = ()
    protected: Mapping[WorkloadKey, str] = field(default_factory=dict)
    """Workloads that must not be moved, each with the reason."""
    attachments: Attachments = UNKNOWN
    node_claims: Sequence[NodeClaim] = ()
    promised: frozenset[str] = frozenset()
    """namespace/name of waiting pods for which an autoscaler adds a node."""
    budgeted: frozenset[WorkloadKey] = frozenset()
    """Workloads whose replicas a power policy sets."""
    quotas: Sequence[Quota] = ()
    recommendations: Sequence[Recommendation] = ()
    scales: Mapping[WorkloadKey, int] = field(default_factory=dict)
    """Replicas that owners of other kinds than `LISTED` ask for, as far as their /scale was read."""
    revisions: Mapping[WorkloadKey, str] = field(default_factory=dict)
    """Revisions that owners of other kinds say they create now, as far as files have them."""


class Facts:
    """One moment. `unknown` are the nodes of unknown load; they are counted among the nodes. `silent` of them were
    measured before, and say that the picture of the cluster has holes; by default all do.

    The pods may be those of some namespaces only, when only these are judged; `count` is then that of all pods on
    nodes.
    """

    def __init__(
        self,
        objects: ClusterObjects,
        *,
        now: float,
        unknown: Iterable[str] = (),
        silent: int | None = None,
        count: int | None = None,
    ) -> None:
        nodes, pods = objects.nodes, objects.pods
        self.protected = objects.protected
        self.attachments, self.promised = objects.attachments, objects.promised
        self.node_claims = objects.node_claims
        self._removable = {claim.node for claim in objects.node_claims if claim.removable}
        self.now = now
        self.nodes: Mapping[str, Node] = {node.name: node for node in nodes}
        self.unknown = frozenset(unknown)
        self.silent = len(self.unknown) if silent is None else silent
        self.not_ready = sum(not node.ready for node in nodes)
        self.pods = sum(not pod.finished and pod.node in self.nodes for pod in pods) if count is None else count
        self.namespaces: Mapping[str, Namespace] = {namespace.name: namespace for namespace in objects.namespaces}
        self._workloads = {workload.key: workload for workload in objects.workloads}
        self._scales, self._pods = objects.scales, pods
        self.revisions = Revisions(self._workloads, objects.revisions)
        self.revisions.count(pods)
        self._failing = {workload.namespace: workload for workload in objects.workloads if workload.uncreated}
        self._full: dict[str, list[Quota]] = {}
        for quota in objects.quotas:
            if quota.full:
                self._full.setdefault(quota.namespace, []).append(quota)
        autoscaled = {autoscaler.key for autoscaler in objects.autoscalers if autoscaler.own_kind}
        self._set_elsewhere = objects.budgeted | autoscaled
        self._scaled = {autoscaler.key: autoscaler.scaled_at for autoscaler in objects.autoscalers}
        self._budgets: dict[str, list[DisruptionBudget]] = {}
        for budget in sorted(objects.budgets, key=lambda each: (each.namespace, each.name)):
            self._budgets.setdefault(budget.namespace, []).append(budget)
        self._keys: dict[tuple[str, int], tuple[Owner, WorkloadKey]] = {}
        self._covering: dict[tuple[str, int], tuple[Mapping[str, str], tuple[DisruptionBudget, ...]]] = {}
        self._numbers: dict[WorkloadKey, ReplicaCounts] = {}
        for pod in pods:
            if pod.owner is not None and not pod.finished:
                self._count(pod, pod.owner)

    def key(self, pod: Pod) -> WorkloadKey | None:
        """None for a pod without an owner."""
        return None if pod.owner is None else self._key(pod.namespace, pod.owner)

    def chain(self, pod: Pod) -> tuple[Workload, ...]:
        """The owners that are known, the nearest first."""
        owners: list[Workload] = []
        owner = pod.owner
        while owner is not None and len(owners) < 4:
            workload = self._workloads.get((pod.namespace, owner.kind, owner.name))
            if workload is None:
                break
            owners.append(workload)
            owner = workload.owner
        return tuple(owners)

    def replicas(self, pod: Pod) -> int | None:
        """How many its workload asks for; where nobody says so (`counted`), its pods. None where it is missing."""
        if pod.owner is None:
            return 1
        key = self._key(pod.namespace, pod.owner)
        workload = self._workloads.get(key)
        if workload is not None:
            return workload.replicas
        return None if key[1] in LISTED else self._scales.get(key, self.numbers(key).there)

    def counted(self, pod: Pod) -> bool:
        """Whether its replicas are not asked for by anything that is known: those that are missing do not show."""
        key = self.key(pod)
        return key is not None and key[1] not in LISTED and key not in self._workloads and key not in self._scales

    def ready(self, key: WorkloadKey) -> int:
        """Replicas that are Ready, for minReadySeconds where its workload asks for that."""
        workload, ready = self._workloads.get(key), self.numbers(key).ready
        return ready if workload is None or workload.available is None else min(ready, workload.available)

    def numbers(self, key: WorkloadKey) -> ReplicaCounts:
        return self._numbers.get(key, _NONE)

    def scaled_at(self, pod: Pod) -> float | None:
        """When an autoscaler last changed the replicas."""
        times = [at for owner in self.chain(pod) if (at := self._scaled.get(owner.key)) is not None]
        return max(times, default=None)

    def uncreatable(self, pod: Pod) -> str | None:
        """Why a new pod like this one is not created, as far as the objects of its namespace tell."""
        quota, failing = in_the_way(self._full.get(pod.namespace, ()), pod), self._failing.get(pod.namespace)
        if quota is not None:
            return f"ResourceQuota {quota.name} has no {' and '.join(quota.full)} left"
        if failing is not None:
            return f"{failing.kind} {failing.name} of its namespace could not create all its pods"
        return None

    def surging(self, pod: Pod) -> Workload | None:
        """The Deployment that may have one more replica while this pod moves; None where something else scales it."""
        chain = self.chain(pod)
        top = chain[-1] if chain else None
        if top is None or top.kind != "Deployment" or top.owner is not None or not top.replicas:
            return None
        return None if top.key in self._set_elsewhere else top

    def restarting(self, pod: Pod) -> Workload | None:
        """The Deployment whose rollout replaces its only pod once another is Ready.

        None where the new pod could not start beside the old one, for a volume that only one node may have.
        """
        chain = self.chain(pod)
        top = chain[-1] if chain else None
        if top is None or top.owner is not None or not top.gapless or top.replicas != 1 or pod.finished:
            return None
        return top if self._shared_claims.issuperset(pod.template.claims) else None

    @cached_property
    def _shared_claims(self) -> frozenset[tuple[str, str]]:
        """Claims, as (namespace, name), that pods on several nodes may use at once."""
        claims = self.attachments.claims or ()
        return frozenset((claim.namespace, claim.name) for claim in claims if claim.shared)

    def budgets(self, pod: Pod) -> tuple[DisruptionBudget, ...]:
        """Those whose selector matches it."""
        listed = self._budgets.get(pod.namespace)
        if not listed:
            return ()
        key = (pod.namespace, id(pod.labels))
        known = self._covering.get(key)
        if known is None:
            covering = tuple(b for b in listed if b.selector is not None and b.selector.matches(pod.labels))
            known = self._covering[key] = (pod.labels, covering)
        return known[1]

    def kept_on_nodes(self, pod: Pod) -> Iterator[PersistentVolume]:
        """The volumes behind its claims whose data stay on one node, as no affinity says."""
        if not pod.template.claims:
            return
        claims, volumes = self._volumes_of_claims
        for claim in pod.template.claims:
            volume = volumes.get(claims.get(claim, ""))
            if volume is not None and volume.on_one_node:
                yield volume

    @cached_property
    def _volumes_of_claims(self) -> tuple[Mapping[tuple[str, str], str], Mapping[str, PersistentVolume]]:
        """Names of volumes by (namespace, name) of their claims, and the volumes by name."""
        claims, volumes = self.attachments.claims or (), self.attachments.volumes or ()
        bound = {(claim.namespace, claim.name): claim.volume for claim in claims}
        return bound, {volume.name: volume for volume in volumes if volume.on_one_node}

    def storage_classes(self, pod: Pod) -> Iterator[str | None]:
        """Of its volume claims, None for one that is not known; "" is a claim without a class."""
        claims, default = self._classes_of_claims
        yield from map(claims.get, pod.template.claims)
        yield from (default if name is None else name for _, name in pod.template.ephemeral)
        if pod.template.opaque:
            yield None

    @cached_property
    def _classes_of_claims(self) -> tuple[Mapping[tuple[str, str], str], str | None]:
        """By (namespace, name); and the default class."""
        claims, classes = self.attachments.claims or (), self.attachments.classes or ()
        by_name = {(claim.namespace, claim.name): claim.storage_class for claim in claims}
        return by_name, next((entry.name for entry in classes if entry.default), None)

    @cached_property
    def barren(self) -> Mapping[str, Barren]:
        """The nodes on which nothing starts."""
        return barren_nodes(self._pods, self.now)

    def removable(self, node: Node) -> bool:
        """Whether an autoscaler would rather remove the node than see it used."""
        return node.name in self._removable or any(taint.key == _CANDIDATE for taint in node.taints)

    def namespace_labels(self) -> Mapping[str, Mapping[str, str]]:
        return {name: namespace.labels for name, namespace in self.namespaces.items()}

    def _key(self, namespace: str, owner: Owner) -> WorkloadKey:
        known = self._keys.get((namespace, id(owner)))
        if known is None:
            key: WorkloadKey = (namespace, owner.kind, owner.name)
            above, seen = self._workloads.get(key), {key}
            while above is not None and above.owner is not None and above.owner.kind in LISTED:
                key = (namespace, above.owner.kind, above.owner.name)
                # Owners in a circle own each other; `returnable` refuses their pods.
                above = None if key in seen else self._workloads.get(key)
                seen.add(key)
            if key not in self._workloads and (namespace, owner.kind, owner.name) in self._workloads:
                key = (namespace, owner.kind, owner.name)
            known = self._keys[namespace, id(owner)] = (owner, key)
        return known[1]

    def _count(self, pod: Pod, owner: Owner) -> None:
        numbers = self._numbers.setdefault(self._key(pod.namespace, owner), ReplicaCounts())
        numbers.there += 1
        numbers.going += pod.deleting
        numbers.ready += pod.ready and not pod.deleting


_NONE = ReplicaCounts()


def promised(scale_ups: Iterable[ScaleUp], now: float) -> frozenset[str]:
    """namespace/name of the pods for which a node was ordered a short time ago."""
    return frozenset(order.pod for order in scale_ups if order.pod and now - order.at < NODE_ARRIVES)


def leaving(node: Node) -> bool:
    """Whether an autoscaler or a person is taking the node away."""
    return node.unschedulable or node.deleting or any(taint.key in _REMOVING for taint in node.taints)


def young(node: Node, now: float, min_age: float) -> bool:
    return node.created > 0 and now - node.created < min_age
