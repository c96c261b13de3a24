"""What stands behind pods: workloads, disruption budgets, autoscalers, namespaces."""

from collections.abc import Mapping

import msgspec

from ballast.model.pod import Owner
from ballast.model.selector import Selector


class Workload(msgspec.Struct, frozen=True, gc=False):
    """A Deployment, ReplicaSet, StatefulSet, DaemonSet, or another object with a /scale."""

    kind: str
    namespace: str
    name: str
    uid: str = ""
    replicas: int | None = 1
    """The number asked for (spec); None where only the /scale subresource gives it."""
    rolling: bool = False
    """Whether pods of an older template are being replaced."""
    stalled: bool = False
    """Whether a rollout would not go on by itself: paused, beyond its deadline, partitioned, or on deletion only."""
    update_revision: str = ""
    """The revision that a StatefulSet creates pods of from `updates_from` on; "" where its status does not say."""
    current_revision: str = ""
    """The revision that it creates pods of below."""
    updates_from: int | None = 0
    """An ordinal: its partition; 0 where pods are updated by deletion only, None where it is not known."""
    deletes_claims: bool = False
    """Whether a fall of its replicas deletes volume claims of the pods that go."""
    gapless: bool = False
    """Whether a rollout takes the only pod of a Deployment once another is available, and not before."""
    uncreated: bool = False
    """Whether its controller could not create all pods, such as for a quota."""
    ordered: bool = False
    """Whether it creates a pod only while all pods before it are ready: a StatefulSet with OrderedReady."""
    starts_within: float = 0.0
    """Seconds that a new pod may take to become Ready by its own account, 0 where it says nothing."""
    annotations: Mapping[str, str] = {}
    owner: Owner | None = None
    version: str = ""
    """The resourceVersion."""
    generation: int = 0
    observed: int | None = None
    """The generation that its controller has seen."""
    ready: int = 0
    """Ready pods, by its status."""
    present: int = 0
    """Pods, by its status."""
    available: int | None = None
    """Pods that have been Ready for its minReadySeconds, by its status; None where it has none."""
    selector: Selector | None = None
    pod_labels: Mapping[str, str] = {}
    """The labels of its pod template."""
    api_version: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """Namespace, kind and name."""
        return self.namespace, self.kind, self.name


class DisruptionBudget(msgspec.Struct, frozen=True, gc=False):
    """A PodDisruptionBudget. `allowed` pods may be disrupted now; nothing counts while it is not `settled`.

    `never` says why it can never allow any, "" where it can.
    """

    namespace: str
    name: str
    selector: Selector | None
    allowed: int = 0
    frees_unready: bool = False
    """Whether pods that are not Ready may be evicted whatever it allows (unhealthyPodEvictionPolicy AlwaysAllow)."""
    settled: bool = True
    never: str = ""


class Recommendation(msgspec.Struct, frozen=True, gc=False):
    """What a VerticalPodAutoscaler would have new pods of its target ask for, all its containers together; nothing
    while it names no target, or where it does not act."""

    namespace: str
    kind: str
    name: str
    requests: Mapping[str, float] = {}


class QuotaScope(msgspec.Struct, frozen=True, gc=False):
    """One condition on the pods that a quota counts; the operator of a plain scope is Exists."""

    name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()


class Quota(msgspec.Struct, frozen=True, gc=False):
    """A ResourceQuota. `full` are what pods need of it and of which nothing is left, such as `requests.cpu`; it counts
    pods that are in all of its `scopes`."""

    namespace: str
    name: str
    full: tuple[str, ...] = ()
    scopes: tuple[QuotaScope, ...] = ()


class Autoscaler(msgspec.Struct, frozen=True, gc=False):
    """A HorizontalPodAutoscaler or a ScaledObject of KEDA."""

    namespace: str
    kind: str
    """The kind of what it scales."""
    name: str
    """The name of what it scales."""
    scaled_at: float | None = None
    """Unix seconds at which it last changed the replicas."""
    own_name: str = ""
    """Its own name."""
    own_kind: str = "HorizontalPodAutoscaler"
    """Its own kind."""
    uid: str = ""
    version: str = ""
    """Its resourceVersion."""
    group: str = ""
    """The API group of what it scales."""
    minimum: int = 1
    maximum: int = 0
    desired: int | None = None
    """The replicas it wants now."""
    annotations: Mapping[str, str] = {}
    owner: Owner | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """Namespace, kind and name of what it scales."""
        return self.namespace, self.kind, self.name


class Namespace(msgspec.Struct, frozen=True, gc=False):
    """A namespace with the annotations Ballast reads."""

    name: str
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
