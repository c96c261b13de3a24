"""A cluster in memory with workloads that have a /scale, and a cache that sees it only when told to."""

from collections.abc import Mapping
from typing import Any

import msgspec

from ballast.actuation.protected import Protected
from ballast.actuation.scaling.actuators import Actuators
from ballast.actuation.scaling.target_status import TargetStatus
from ballast.base.errors import ClusterError
from ballast.cluster import workloads as forms
from ballast.cluster.objects.decoding import Shared
from ballast.cluster.workload_cache import WORKLOADS, plural_of
from ballast.cluster.write import WriteOutcome
from ballast.cluster.writer import EmergencyWriter
from ballast.model.pod import Pod
from ballast.model.workload import Autoscaler, Namespace, Workload
from ballast.power.policy import PowerPolicy
from tests.worlds.kube_api import FakeApi
from tests.worlds.writing import WriterRig

APPS = "/apis/apps/v1/namespaces/shop"
HPAS = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers"
KEDA = "/apis/keda.sh/v1alpha1/namespaces/shop/scaledobjects"
ROLLOUTS = "/apis/argoproj.io/v1alpha1/namespaces/shop/rollouts"


class Api(FakeApi):
    """Knows /scale, and who wrote a field of the spec last."""

    def _answer(self, method: str, path: str, body: Any) -> Any:
        if not path.endswith("/scale"):
            return super()._answer(method, path, body)
        path = path.removesuffix("/scale")
        if method != "GET":
            body = {"metadata": body.get("metadata", {}), "spec": {"replicas": body["spec"]["replicas"]}}
        found = super()._answer(method, path, body)
        labels = found["spec"].get("selector", {}).get("matchLabels", {})
        return {
            "metadata": found["metadata"],
            "spec": {"replicas": found["spec"]["replicas"]},
            "status": {"selector": ",".join(f"{key}={value}" for key, value in labels.items())},
        }


class SeenCache:
    """What a WorkloadCache would show after the last `look`."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.kinds = ("deployments", "statefulsets", "daemonsets", "replicasets", "rollouts.argoproj.io")
        self.kinds += ("horizontalpodautoscalers", "scaledobjects", "namespaces")
        self.unlisted: set[str] = set()
        self.ages: dict[str, float] = {}
        self.problems: dict[str, str] = {}
        self.objects: dict[str, Any] = {}
        self.observe()

    def observe(self) -> None:
        self.objects = msgspec.json.decode(msgspec.json.encode(self._api.objects))
        self._decoded: dict[str, Any] = {}

    def listed(self, kind: str) -> bool:
        return kind not in self.unlisted

    def age(self, kind: str) -> float:
        return self.ages.get(kind, 1.0)

    def problem(self, kind: str) -> str | None:
        return self.problems.get(kind)

    def _all(self, plural: str, form: Any, build: Any) -> tuple[Any, ...]:
        inside = f"/{plural}/"
        if plural not in self._decoded:
            decode = msgspec.json.Decoder(form).decode
            found = (build(decode(msgspec.json.encode(item))) for path, item in self.objects.items() if inside in path)
            self._decoded[plural] = tuple(found)
        decoded: tuple[Any, ...] = self._decoded[plural]
        return decoded

    def workload(self, kind: str, namespace: str, name: str) -> Workload | None:
        plural = plural_of(kind)
        if plural in WORKLOADS:
            called = WORKLOADS[plural]
            found = self._all(
                plural, forms.WireWorkload, lambda each: forms.to_workload(called, each, Shared(), lambda _: True)
            )
        else:
            short = plural.partition(".")[0]
            found = self._all(short, forms.WireOther, lambda each: forms.to_other(each, Shared(), lambda _: True))
        return next((each for each in found if (each.namespace, each.name) == (namespace, name)), None)

    def workloads(self) -> tuple[Workload, ...]:
        self.workload("statefulsets", "", "")
        return self._decoded["statefulsets"]

    def autoscalers(self) -> tuple[Autoscaler, ...]:
        return self._all(
            "horizontalpodautoscalers",
            forms.WireAutoscaler,
            lambda each: forms.to_autoscaler(each, Shared(), lambda _: True),
        )

    def scaled_objects(self) -> tuple[Autoscaler, ...]:
        return self._all(
            "scaledobjects", forms.WireScaledObject, lambda each: forms.to_scaled_object(each, Shared(), lambda _: True)
        )

    def namespace(self, name: str) -> Namespace | None:
        path = f"/api/v1/namespaces/{name}"
        found = self.objects.get(path)
        if found is not None and path not in self._decoded:
            self._decoded[path] = Namespace(name, {}, found["metadata"].get("annotations") or {})
        return self._decoded.get(path)


def meta(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "namespace": "shop", "uid": f"uid-{name}", **more}


def workload(name: str, replicas: int, **more: Any) -> dict[str, Any]:
    labels = {"app": name}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}
    return {"metadata": meta(name, **more), "spec": spec, "status": {}}


def autoscaler(name: str, most: int, least: int = 1, *, target: str = "", **more: Any) -> dict[str, Any]:
    scaled = {"apiVersion": "apps/v1", "kind": "Deployment", "name": target or name}
    return {
        "metadata": meta(name, **more),
        "spec": {"scaleTargetRef": scaled, "minReplicas": least, "maxReplicas": most},
    }


def scaled_object(name: str, most: int | None, least: int | None = None, **more: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"scaleTargetRef": {"name": name}, "triggers": []}
    spec |= {"maxReplicaCount": most} if most is not None else {}
    spec |= {"minReplicaCount": least} if least is not None else {}
    return {"metadata": meta(name, **more), "spec": spec}


def policy(*names: str, kind: str = "", **more: Any) -> PowerPolicy:
    members = [{"ref": f"{kind}shop/{name}", "min": 1, "max": 50} for name in names]
    return PowerPolicy.model_validate({"independents": members, **more})


class Rig(WriterRig):
    """`objects` are deployments and others by path."""

    def __init__(self, objects: Mapping[str, Any], *, mode: str = "on", guarded: bool = False) -> None:
        api = Api({"/api/v1/namespaces/shop": {"metadata": {"name": "shop"}}, **objects})
        super().__init__(api, modes={"power": mode})
        self.cache = SeenCache(self.api)
        self.pods: tuple[Pod, ...] = ()
        self.pods_problem: str | None = None
        protected = Protected(
            self.api,
            self.clock,
            lambda: self.pods,
            namespace="shop",
            own="ballast-0",
            urls=["http://prometheus.shop.svc:9090/", "https://10.0.0.1/", "http://feed:8080/watts"],
        )
        self.actuators = Actuators(
            self.api,
            self.cache,  # type: ignore[arg-type]
            self._known_pods,
            self.writer,
            EmergencyWriter(self.writer),
            self.clock,
            protected=protected if guarded else None,
        )

    def _known_pods(self) -> tuple[Pod, ...]:
        if self.pods_problem:
            raise ClusterError(self.pods_problem)
        return self.pods

    def observe(self, wanted: PowerPolicy, *, fresh: bool = True) -> Mapping[str, TargetStatus]:
        if fresh:
            self.cache.observe()
        return self.actuators.read(wanted)

    def standing(self, wanted: PowerPolicy, *, fresh: bool = True) -> TargetStatus:
        (found,) = self.observe(wanted, fresh=fresh).values()
        return found

    def apply(
        self, wanted: PowerPolicy, counts: Mapping[str, int], *, fresh: bool = True, **more: Any
    ) -> list[WriteOutcome]:
        standings = self.observe(wanted, fresh=fresh)
        return self.actuators.apply(
            standings, {f"shop/{name}": count for name, count in counts.items()}, reason="power falls", **more
        )

    def spec(self, path: str) -> Any:
        return self.api.objects[path]["spec"]

    def notes(self, path: str) -> Any:
        return self.api.objects[path]["metadata"].get("annotations") or {}

    def edit(self, path: str, manager: str = "", **spec: Any) -> None:
        """Someone else changes the spec."""
        body: dict[str, Any] = {"metadata": {}, "spec": spec}
        if manager:
            fields = {"f:spec": {f"f:{key}": {} for key in spec}}
            body["metadata"]["managedFields"] = [{"manager": manager, "time": "2026-01-01", "fieldsV1": fields}]
        FakeApi._answer(self.api, "PATCH", path, body)


def refuse(reading: str) -> Any:
    """For `Api.before`: reads of paths that end so fail."""

    def before(method: str, path: str, _: Any) -> None:
        if method == "GET" and path.endswith(reading):
            raise ClusterError("no", status=500)

    return before
