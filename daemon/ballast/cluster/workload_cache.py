"""Workloads, disruption budgets, autoscalers and namespaces, kept current by watches."""

import threading
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Generic, TypeVar

import msgspec

from ballast.base.clock import Clock
from ballast.base.errors import NOT_JSON, ClusterError
from ballast.base.metrics import Metrics
from ballast.cluster import workloads as forms
from ballast.cluster.client import KubeApi
from ballast.cluster.objects import attachment_decoding, wire
from ballast.cluster.objects import attachment_decoding as attached
from ballast.cluster.objects.decoding import Reader, Shared
from ballast.cluster.objects.object_budget import ObjectBudget
from ballast.cluster.watch import Collection, Reflector, WatchGroup
from ballast.model.attachments import Attachments, DeviceClaim, DeviceSlice, NodeClaim, ScaleUp
from ballast.model.workload import Autoscaler, DisruptionBudget, Namespace, Quota, Recommendation, Workload

T = TypeVar("T")
W = TypeVar("W", bound="forms.WireKind | attached.WireKind | attachment_decoding.WireDeviceClaim")

WORKLOADS = {
    "deployments": "Deployment",
    "replicasets": "ReplicaSet",
    "statefulsets": "StatefulSet",
    "daemonsets": "DaemonSet",
}
STATEFUL_SETS = "statefulsets"
AUTOSCALERS = "horizontalpodautoscalers"
SCALED_OBJECTS = "scaledobjects"
NAMESPACES = "namespaces"
CLAIMS, VOLUMES, CLASSES = "persistentvolumeclaims", "persistentvolumes", "storageclasses"
CSI_NODES, SLICES, NODE_CLAIMS = "csinodes", "resourceslices", "nodeclaims"
DEVICE_CLAIMS, QUOTAS, VPAS = "resourceclaims", "resourcequotas", "verticalpodautoscalers"

SCALE_UPS = "events"
"""Events by which cluster-autoscaler says that it adds a node for a pod."""

_PATHS = {
    **{plural: f"/apis/apps/v1/{plural}" for plural in WORKLOADS},
    "poddisruptionbudgets": "/apis/policy/v1/poddisruptionbudgets",
    AUTOSCALERS: "/apis/autoscaling/v2/horizontalpodautoscalers",
    NAMESPACES: "/api/v1/namespaces",
    SCALED_OBJECTS: "/apis/keda.sh/v1alpha1/scaledobjects",
    CLAIMS: "/api/v1/persistentvolumeclaims",
    VOLUMES: "/api/v1/persistentvolumes",
    CLASSES: "/apis/storage.k8s.io/v1/storageclasses",
    CSI_NODES: "/apis/storage.k8s.io/v1/csinodes",
    SLICES: "/apis/resource.k8s.io/v1/resourceslices",
    DEVICE_CLAIMS: "/apis/resource.k8s.io/v1/resourceclaims",
    NODE_CLAIMS: "/apis/karpenter.sh/v1/nodeclaims",
    VPAS: "/apis/autoscaling.k8s.io/v1/verticalpodautoscalers",
    SCALE_UPS: "/api/v1/events",
    QUOTAS: "/api/v1/resourcequotas",
}
_OPTIONAL = (SCALED_OBJECTS, SLICES, DEVICE_CLAIMS, NODE_CLAIMS, VPAS)
_QUERIES: Mapping[str, Mapping[str, str | int]] = {
    SCALE_UPS: {"fieldSelector": f"reason={attached.TRIGGERED},involvedObject.kind=Pod"}
}
_KEDA = "autoscaling.keda.sh/"


class WorkloadCache(WatchGroup):
    """Only the kinds that are asked for are watched. Readers may be any thread; what they get is immutable.

    `kinds` are `deployments`, `replicasets`, `statefulsets`, `daemonsets`, `poddisruptionbudgets`,
    `horizontalpodautoscalers`, `namespaces`, `scaledobjects` (none where KEDA is not installed), or `<plural>.<group>`
    of anything else with a /scale. Raises ValueError for another name.
    """

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        metrics: Metrics,
        kinds: Iterable[str],
        *,
        keep_annotation: Callable[[str], bool],
    ) -> None:
        self._held: dict[str, _HeldObjects[Any]] = {}
        watches: dict[str, Reflector[Any]] = {}
        for kind in sorted({plural_of(name) for name in kinds}):
            if kind not in _PATHS and "." not in kind:
                raise ValueError(f"{kind}: expected one of {', '.join(sorted(_PATHS))}, or <plural>.<group>")
            path = _PATHS.get(kind) or _looked_up(api, kind)
            held = self._held[kind] = _HeldObjects()
            collection = Collection(path, _QUERIES.get(kind, {}), optional=kind in _OPTIONAL)
            watches[kind] = Reflector(api, clock, metrics, held, reader(kind, keep_annotation), collection)
        super().__init__(clock, watches)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The watched kinds by their plurals."""
        return tuple(self._watches)

    def workloads(self) -> tuple[Workload, ...]:
        """Those of all watched kinds, in no particular order."""
        return tuple(workload for kind in self._watches if _is_workload(kind) for workload in self._held[kind].all())

    def workload(self, kind: str, namespace: str, name: str) -> Workload | None:
        """`kind` as owners name it (`Deployment`) or as the watch is named (`deployments`, `rollouts.argoproj.io`)."""
        held = self._held.get(kind) or self._held.get(_PLURALS.get(kind) or plural_of(kind))
        if held is not None:
            workload: Workload | None = held.get(namespace, name)
            return workload
        return next(
            (
                workload
                for plural in self._watches
                if plural not in _PATHS
                and (workload := self._held[plural].get(namespace, name))
                and workload.kind == kind
            ),
            None,
        )

    def budgets(self) -> tuple[DisruptionBudget, ...]:
        """The PodDisruptionBudgets."""
        return self._all("poddisruptionbudgets")

    def autoscalers(self) -> tuple[Autoscaler, ...]:
        """The HorizontalPodAutoscalers, those that KEDA made too."""
        return self._all(AUTOSCALERS)

    def scaled_objects(self) -> tuple[Autoscaler, ...]:
        """KEDA's ScaledObjects, as autoscalers."""
        return self._all(SCALED_OBJECTS)

    def namespaces(self) -> tuple[Namespace, ...]:
        """All namespaces."""
        return self._all(NAMESPACES)

    def namespace(self, name: str) -> Namespace | None:
        """The namespace of that name, or None."""
        held = self._held.get(NAMESPACES)
        return held.get("", name) if held else None

    def attachments(self) -> Attachments:
        """Volumes and devices; a kind that has not been listed, or cannot be now, is not known."""
        kinds = (CLAIMS, VOLUMES, CLASSES, CSI_NODES, SLICES)
        return Attachments(*(self._all(kind) if self._known(kind) else None for kind in kinds))

    def device_slices(self) -> tuple[DeviceSlice, ...]:
        """As they were last seen; none where the server has no such kind."""
        return self._all(SLICES)

    def device_claims(self) -> tuple[DeviceClaim, ...]:
        """As they were last seen; the same tuple while nothing changes."""
        return self._all(DEVICE_CLAIMS)

    def node_claims(self) -> tuple[NodeClaim, ...]:
        """Karpenter's, none where it is not installed."""
        return self._all(NODE_CLAIMS)

    def recommendations(self) -> tuple[Recommendation, ...]:
        """Those of VerticalPodAutoscalers, none where they are not installed."""
        return self._all(VPAS)

    def scale_ups(self) -> tuple[ScaleUp, ...]:
        """For which pods cluster-autoscaler adds nodes."""
        return self._all(SCALE_UPS)

    def quotas(self) -> tuple[Quota, ...]:
        """The ResourceQuotas, by what their controller has counted."""
        return self._all(QUOTAS)

    def _known(self, kind: str) -> bool:
        watch = self._watches.get(kind)
        return watch is not None and watch.synced and watch.problem is None

    def _all(self, kind: str) -> tuple[Any, ...]:
        held = self._held.get(kind)
        return held.all() if held else ()


@cache
def plural_of(kind: str) -> str:
    """`deployments` for `deployments.apps`; other kinds as they are."""
    plural, _, group = kind.partition(".")
    return plural if group == "apps" and plural in WORKLOADS else kind


_PLURALS = {kind: plural for plural, kind in WORKLOADS.items()}


def _is_workload(kind: str) -> bool:
    return kind in WORKLOADS or kind not in _PATHS


def _looked_up(api: KubeApi, kind: str) -> Callable[[], str]:
    """Asks for the version that the server prefers of a group."""
    plural, _, group = kind.partition(".")

    def ask() -> str:
        try:
            version = _group.decode(api.get(f"/apis/{group}")).preferred_version.group_version
        except NOT_JSON as error:
            raise ClusterError(f"GET /apis/{group}: not a group of the Kubernetes API ({error})") from error
        return f"/apis/{version}/{plural}"

    return ask


class _Version(wire.WireStruct):
    group_version: str


class _Group(wire.WireStruct):
    preferred_version: _Version


_group = msgspec.json.Decoder(_Group)


def path_of(kind: str) -> str:
    """The collection of a kind that is not `<plural>.<group>`, over all namespaces."""
    return _PATHS[kind]


def reader(kind: str, keep: Callable[[str], bool]) -> Reader[Any]:
    """Decodes the objects of a kind, with the annotations whose keys `keep` accepts."""
    shared = Shared()
    if kind in WORKLOADS:
        singular = WORKLOADS[kind]
        return _decoding(kind, forms.WireWorkload, keep, lambda each: forms.to_workload(singular, each, shared, keep))
    if kind == "poddisruptionbudgets":
        return _decoding(kind, forms.WireBudget, keep, lambda each: forms.to_budget(each, shared))
    if kind == AUTOSCALERS:
        return _decoding(kind, forms.WireAutoscaler, keep, lambda each: forms.to_autoscaler(each, shared, keep))
    if kind == SCALED_OBJECTS:
        kept = lambda key: key.startswith(_KEDA) or keep(key)  # noqa: E731
        return _decoding(kind, forms.WireScaledObject, kept, lambda each: forms.to_scaled_object(each, shared, kept))
    if kind == QUOTAS:
        return _decoding(kind, forms.WireQuota, keep, lambda each: forms.to_quota(each, shared))
    if kind in _ATTACHED:
        form, build = _ATTACHED[kind]
        return _decoding(kind, form, keep, build)
    if kind == NAMESPACES:
        return _decoding(kind, forms.WireNamespace, keep, lambda each: forms.to_namespace(each, keep))
    return _decoding(kind, forms.WireOther, keep, lambda each: forms.to_other(each, shared, keep))


_ATTACHED: Mapping[str, tuple[type[Any], Callable[[Any], Any]]] = {
    CLAIMS: (attached.WireClaim, attached.to_claim),
    VOLUMES: (attached.WireVolume, attached.to_volume),
    CLASSES: (attached.WireStorageClass, attached.to_storage_class),
    CSI_NODES: (attached.WireCsiNode, attached.to_csi_node),
    SLICES: (attached.WireSlice, attached.to_slice),
    DEVICE_CLAIMS: (attachment_decoding.WireDeviceClaim, attachment_decoding.to_device_claim),
    NODE_CLAIMS: (attached.WireNodeClaim, attached.to_node_claim),
    VPAS: (attached.WireVpa, attached.to_recommendation),
    SCALE_UPS: (attached.WireEvent, attached.to_scale_up),
}


def _decoding(kind: str, form: type[W], keep: Callable[[str], bool], build: Callable[[W], T]) -> Reader[T]:
    decoder, budget = msgspec.json.Decoder(form), ObjectBudget()

    def decode(raw: msgspec.Raw | bytes) -> T:
        decoded = decoder.decode(raw)
        if not budget.holds(raw, decoded, keep):
            if not isinstance(decoded, forms.WireKind):
                raise ValueError("it is larger than Ballast keeps of an object of this kind")
            forms.reduce(decoded)
        return build(decoded)

    return Reader(kind, decode, budget=budget)


class _HeldObjects(Generic[T]):
    """Objects by namespace and name; those of autoscalers by the autoscaler's own name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_name: dict[tuple[str, str], T] = {}
        self._all: tuple[T, ...] | None = ()

    def replace(self, items: list[T]) -> None:
        with self._lock:
            self._by_name, self._all = {_key(item): item for item in items}, None

    def put(self, item: T) -> None:
        with self._lock:
            self._by_name[_key(item)] = item
            self._all = None

    def remove(self, item: T) -> None:
        with self._lock:
            self._by_name.pop(_key(item), None)
            self._all = None

    def get(self, namespace: str, name: str) -> T | None:
        with self._lock:
            return self._by_name.get((namespace, name))

    def all(self) -> tuple[T, ...]:
        with self._lock:
            if self._all is None:
                self._all = tuple(self._by_name.values())
            return self._all


def _key(item: Any) -> tuple[str, str]:
    return getattr(item, "namespace", ""), item.own_name if isinstance(item, Autoscaler) else item.name
