"""Watching workloads and autoscalers, and changing their replicas and caps, against an API server."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from ballast.actuation.scaling.actuators import Actuators
from ballast.actuation.scaling.target_status import Actuator, TargetStatus
from ballast.actuation.scaling.targets import kinds_of
from ballast.base.clock import SystemClock
from ballast.base.metrics import Metrics
from ballast.cluster.objects.decoding import annotation_filter
from ballast.cluster.workload_cache import WorkloadCache
from ballast.cluster.write import Result, WriteOutcome
from ballast.cluster.writer import EmergencyWriter
from ballast.model.pod import Pod
from ballast.power.policy import PowerPolicy
from ballast_lab.harness.waiting import HUNG, eventually
from tests.contract.objects import Client
from tests.worlds import keda
from tests.worlds.writing import writer_on

CLOCK = SystemClock()
ORIGINAL = "ballast.dev/original-max-replicas"


class Bench:
    """Real watches and writes in the client's namespace."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.cache: WorkloadCache | None = None
        self.writer = writer_on(client.api, CLOCK, modes={"power": "on"})

    def collection(self, plural: str) -> str:
        group = {"horizontalpodautoscalers": "autoscaling/v2", "scaledobjects": "keda.sh/v1alpha1"}.get(
            plural, "apps/v1"
        )
        return f"/apis/{group}/namespaces/{self.client.namespace}/{plural}"

    def workload(self, name: str, replicas: int, plural: str = "deployments", **spec: Any) -> str:
        labels = {"app": name}
        container = {"name": "main", "image": "none"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        body = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template, **spec}
        self.client.create(self.collection(plural), {"metadata": {"name": name}, "spec": body})
        return f"{self.collection(plural)}/{name}"

    def autoscaler(self, name: str, most: int, least: int = 1) -> str:
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
        spec = {"scaleTargetRef": target, "minReplicas": least, "maxReplicas": most}
        self.client.create(self.collection("horizontalpodautoscalers"), {"metadata": {"name": name}, "spec": spec})
        return f"{self.collection('horizontalpodautoscalers')}/{name}"

    def scaled_object(self, name: str, most: int, **meta: Any) -> str:
        trigger = {"type": "cpu", "metadata": {"value": "50"}}
        spec = {"scaleTargetRef": {"name": name}, "maxReplicaCount": most, "triggers": [trigger]}
        document = {
            "apiVersion": "keda.sh/v1alpha1",
            "kind": "ScaledObject",
            "metadata": {"name": name, **meta},
            "spec": spec,
        }
        self.client.create(self.collection("scaledobjects"), document)
        return f"{self.collection('scaledobjects')}/{name}"

    def policy(self, *refs: str, **more: Any) -> PowerPolicy:
        members = []
        for ref in refs:
            kind, _, name = ref.rpartition("/")
            members.append({"ref": f"{kind}/{self.client.namespace}/{name}".lstrip("/"), "min": 0, "max": 50})
        return PowerPolicy.model_validate({"independents": members, **more})

    def actuators(self, policy: PowerPolicy, pods: Callable[[], tuple[Pod, ...]] = tuple) -> Actuators:
        keep = annotation_filter("ballast.dev")
        self.cache = WorkloadCache(self.client.api, CLOCK, Metrics(), kinds_of([policy]), keep_annotation=keep)
        self.cache.start()
        assert self.cache.wait_synced(HUNG)
        return Actuators(self.client.api, self.cache, pods, self.writer, EmergencyWriter(self.writer), CLOCK)

    def counts(self, **counts: int) -> dict[str, int]:
        return {f"{self.client.namespace}/{name}": count for name, count in counts.items()}

    def spec(self, path: str) -> Any:
        return self.client.get(path)["spec"]

    def version(self, path: str) -> str:
        return str(self.client.get(path)["metadata"]["resourceVersion"])

    def notes(self, path: str) -> Any:
        return self.client.get(path)["metadata"].get("annotations", {})


@pytest.fixture
def bench(client: Client) -> Iterator[Bench]:
    keda.install(client)
    bench = Bench(client)
    yield bench
    if bench.cache is not None:
        bench.cache.stop()


def only(standings: Mapping[str, TargetStatus]) -> TargetStatus:
    (found,) = standings.values()
    return found


def settled(actuators: Actuators, policy: PowerPolicy, current: Callable[[], str]) -> Mapping[str, TargetStatus]:
    """Once the watch shows the current version; controllers may write the status meanwhile."""

    def seen() -> Mapping[str, TargetStatus] | None:
        found = actuators.read(policy)
        return found if only(found).version == current() else None

    return eventually("the watch shows it", seen)


@pytest.mark.parametrize(("kind", "plural"), [("", "deployments"), ("statefulsets.apps", "statefulsets")])
def test_replicas_are_set_against_the_version_that_was_seen(bench: Bench, kind: str, plural: str) -> None:
    path = bench.workload("web", 0, plural)
    policy = bench.policy(f"{kind}/web")
    actuators = bench.actuators(policy)
    standings = actuators.read(policy)
    assert (only(standings).actuator, only(standings).count) == (Actuator.SCALE, 0)
    bench.client.patch(path, {"metadata": {"annotations": {"team": "blue"}}})
    (outcome,) = actuators.apply(standings, bench.counts(web=2), reason="test")
    assert outcome.done
    assert bench.spec(path)["replicas"] == 2
    assert only(actuators.read(policy)).count == 2
    stale = only(standings)
    write = actuators._write(stale, 1, "test", together=False)
    assert bench.writer.submit(write).result is Result.CONFLICT


def test_someone_elses_replicas_are_not_overwritten(bench: Bench) -> None:
    path = bench.workload("web", 0)
    policy = bench.policy("web")
    actuators = bench.actuators(policy)
    standings = actuators.read(policy)
    bench.client.patch(f"{path}/scale", {"spec": {"replicas": 3}})
    (outcome,) = actuators.apply(standings, bench.counts(web=1), reason="test")
    assert (outcome.result, "from 0 to 3" in outcome.reason) == (Result.CONFLICT, True)
    assert bench.spec(path)["replicas"] == 3


def cap_goes_there_and_back(bench: Bench, path: str, field: str, actuator: Actuator) -> None:
    policy = bench.policy("web")
    actuators = bench.actuators(policy)
    standings = actuators.read(policy)
    assert (only(standings).actuator, only(standings).count, only(standings).original) == (actuator, 0, 20)
    bench.client.patch(path, {"metadata": {"labels": {"team": "blue"}}})
    before = bench.client.patch(f"{bench.collection('deployments')}/web/scale", {"spec": {"replicas": 9}})
    assert before["spec"]["replicas"] == 9
    standings = eventually(
        "the replicas are seen", lambda: found if only(found := actuators.read(policy)).count == 9 else None
    )
    assert actuators.apply(standings, bench.counts(web=4), reason="test")[0].done
    assert bench.spec(path)[field] == 4
    assert bench.notes(path)[ORIGINAL] == "20"
    standing = only(actuators.read(policy))
    assert (standing.count, standing.capped, standing.maximum) == (4, True, 20)
    settled(actuators, policy, lambda: bench.version(path))
    stale = actuators.read(policy)
    bench.client.patch(path, {"spec": {field: 6}})
    (outcome,) = actuators.apply(stale, bench.counts(web=3), reason="test")
    assert outcome.result is Result.CONFLICT
    bench.client.patch(path, {"spec": {field: 4}})
    given: list[WriteOutcome] = eventually("the cap is seen", lambda: restored(actuators, bench, path, field))
    assert all(outcome.done for outcome in given)
    assert ORIGINAL not in bench.notes(path)


def restored(actuators: Actuators, bench: Bench, path: str, field: str) -> list[WriteOutcome]:
    ours = actuators.restore(reason="released")
    return ours if bench.spec(path)[field] == 20 else []


def test_a_cap_on_an_autoscaler(bench: Bench) -> None:
    bench.workload("web", 0)
    path = bench.autoscaler("web", 20)
    cap_goes_there_and_back(bench, path, "maxReplicas", Actuator.HPA_CAP)


def test_a_cap_on_a_scaled_object(bench: Bench) -> None:
    bench.workload("web", 0)
    path = bench.scaled_object("web", 20)
    cap_goes_there_and_back(bench, path, "maxReplicaCount", Actuator.SCALED_OBJECT_CAP)


def test_what_excludes_a_target_is_seen(bench: Bench) -> None:
    path = bench.workload("web", 0)
    policy = bench.policy("web")
    actuators = bench.actuators(policy)
    assert only(actuators.read(policy)).usable
    bench.client.patch(path, {"metadata": {"annotations": {"ballast.dev/exclude-power": "true"}}})
    eventually("it is excluded", lambda: only(actuators.read(policy)).excluded)


def test_who_wrote_a_field_is_seen(bench: Bench) -> None:
    path = bench.workload("web", 5, paused=True)
    policy = bench.policy("web")
    actuators = bench.actuators(policy)
    for _ in range(3):
        standings = eventually("5 are seen", lambda: found if only(found := actuators.read(policy)).count == 5 else 0)
        assert actuators.apply(standings, bench.counts(web=3), reason="test")[0].done
        bench.client.patch(f"{path}/scale", {"spec": {"replicas": 5}}, fieldManager="argocd-controller")
    problem = eventually("it is contended", lambda: only(actuators.read(policy)).problem)
    assert "Argo CD (field manager argocd-controller)" in problem
