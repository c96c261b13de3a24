"""What stands behind pods, followed against a scripted server on a real socket."""

import json
import queue
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ballast.base.clock import SystemClock
from ballast.base.metrics import Metrics
from ballast.cluster.objects.decoding import annotation_filter
from ballast.cluster.workload_cache import WorkloadCache
from ballast.model.selector import parse
from ballast_lab.harness.waiting import HUNG, eventually
from tests.worlds.http_server import Answer, Request, Server, api_for, serving, status

HANG_UP = b""


def meta(name: str, version: int = 5, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": str(version), **more}}


class World:
    """Lists what is under each path; a path that is not there is answered with 404."""

    def __init__(self, **lists: list[dict[str, Any]]) -> None:
        self.lists = lists
        self.groups: dict[str, str] = {}
        self.events: dict[str, queue.Queue[bytes]] = {}

    def __call__(self, request: Request) -> Answer:
        plural = request.path.rpartition("/")[2]
        if plural in self.groups:
            return Answer({"preferredVersion": {"groupVersion": self.groups[plural]}})
        if plural not in self.lists:
            return status(404, "NotFound")
        if "watch" in request.query:
            return Answer(iter(self.events.setdefault(plural, queue.Queue()).get, HANG_UP))
        return Answer({"metadata": {"resourceVersion": "10"}, "items": self.lists[plural]})


@contextmanager
def following(world: World, *kinds: str) -> Iterator[tuple[WorkloadCache, Server]]:
    with serving(world) as server:
        metrics = Metrics()
        cache = WorkloadCache(
            api_for(server, metrics), SystemClock(), metrics, kinds, keep_annotation=annotation_filter("ballast.dev")
        )
        cache.start()
        try:
            yield cache, server
        finally:
            cache.stop()
            for plural in kinds:
                world.events.setdefault(plural.partition(".")[0], queue.Queue()).put(HANG_UP)


DEPLOYMENT = {
    **meta("api", generation=3, annotations={"ballast.dev/exclude": "true", "other": "x"}),
    "spec": {"replicas": 4, "selector": {"matchLabels": {"app": "api"}}},
    "status": {"observedGeneration": 3, "replicas": 4, "readyReplicas": 2, "updatedReplicas": 4},
}


def test_workloads_carry_what_actuators_need() -> None:
    with following(World(deployments=[DEPLOYMENT]), "deployments.apps") as (cache, _):
        assert cache.wait_synced(HUNG)
        found = cache.workload("Deployment", "shop", "api")
        assert (
            found is cache.workload("deployments", "shop", "api") is cache.workload("deployments.apps", "shop", "api")
        )
        assert found is not None
        assert (found.replicas, found.ready, found.present, found.version, found.generation) == (4, 2, 4, "5", 3)
        assert found.selector == parse("app=api")
        assert found.annotations == {"ballast.dev/exclude": "true"}
        assert cache.workloads() == (found,)
        assert cache.workload("StatefulSet", "shop", "api") is None
        assert not (cache.budgets())
        assert not (cache.autoscalers())
        assert not (cache.namespaces())
        assert cache.namespace("shop") is None


def test_autoscalers_are_known_by_their_own_names() -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "api"}
    hpas = [
        {
            **meta(name),
            "spec": {"scaleTargetRef": target, "maxReplicas": 9},
            "status": {"lastScaleTime": "2023-11-14T22:13:20Z", "desiredReplicas": 3},
        }
        for name in ("one", "two")
    ]
    hpas[1]["metadata"]["ownerReferences"] = [{"kind": "ScaledObject", "name": "api", "uid": "u", "controller": True}]
    keda = [
        {**meta("api", annotations={"autoscaling.keda.sh/paused": "true"}), "spec": {"scaleTargetRef": {"name": "api"}}}
    ]
    world = World(horizontalpodautoscalers=hpas, scaledobjects=keda)
    with following(world, "horizontalpodautoscalers", "scaledobjects") as (cache, _):
        assert cache.wait_synced(HUNG)
        one, two = sorted(cache.autoscalers(), key=lambda each: each.own_name)
        assert (one.kind, one.name, one.group, one.minimum, one.maximum) == ("Deployment", "api", "apps", 1, 9)
        assert (one.desired, one.scaled_at, one.version) == (3, 1_700_000_000, "5")
        assert two.owner is not None
        assert two.owner.kind == "ScaledObject"
        (scaled,) = cache.scaled_objects()
        assert (scaled.kind, scaled.group, scaled.minimum, scaled.maximum) == ("Deployment", "apps", 0, 100)
        assert scaled.annotations == {"autoscaling.keda.sh/paused": "true"}


def test_without_keda_there_are_no_scaled_objects() -> None:
    with following(World(), "scaledobjects") as (cache, _):
        assert cache.wait_synced(HUNG)
        assert cache.scaled_objects() == ()
        assert cache.problem("scaledobjects") is None
        assert cache.age("scaledobjects") < 5


def test_a_kind_that_is_not_served_is_a_problem() -> None:
    with following(World(), "rollouts.argoproj.io") as (cache, _):
        assert not cache.wait_synced(0.3)
        assert "404" in (cache.problem("rollouts.argoproj.io") or "")


def test_anything_with_a_scale_is_followed_in_the_preferred_version() -> None:
    world = World(rollouts=[{"kind": "Rollout", "apiVersion": "argoproj.io/v1alpha1", **meta("api")}])
    world.groups["argoproj.io"] = "argoproj.io/v1alpha1"
    with following(world, "rollouts.argoproj.io", "namespaces") as (cache, server):
        assert cache.wait_synced(5, "rollouts.argoproj.io")
        found = cache.workload("rollouts.argoproj.io", "shop", "api")
        assert found is not None
        assert found is cache.workload("Rollout", "shop", "api")
        assert (found.kind, found.replicas, found.api_version) == ("Rollout", None, "argoproj.io/v1alpha1")
        assert "/apis/argoproj.io/v1alpha1/rollouts" in {request.path for request in server.requests}


def test_changes_are_followed() -> None:
    world = World(deployments=[DEPLOYMENT], namespaces=[{"metadata": {"name": "shop", "resourceVersion": "1"}}])
    with following(world, "deployments", "namespaces") as (cache, _):
        assert cache.wait_synced(HUNG)
        assert cache.namespace("shop") is not None
        gone = {"type": "DELETED", "object": {**DEPLOYMENT, **meta("api", 12)}}
        more = {"type": "ADDED", "object": {**DEPLOYMENT, **meta("web", 13)}}
        waiting = world.events.setdefault("deployments", queue.Queue())
        for event in (gone, more):
            waiting.put(json.dumps(event).encode() + b"\n")
        eventually("the new one is there", lambda: cache.workload("Deployment", "shop", "web"))
        assert [each.name for each in cache.workloads()] == ["web"]


def test_unknown_kinds_are_refused() -> None:
    with pytest.raises(ValueError, match="things: expected one of"), following(World(), "things"):
        pass
