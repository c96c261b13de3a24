"""Ballast's readers and writers while the API server misbehaves; only the simulator can be told to."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ballast.base.clock import SystemClock
from ballast.base.errors import Forbidden, TooManyRequests, Unauthorized, Unreachable
from ballast.base.metrics import Metrics
from ballast.cluster.cache import Cache
from ballast.cluster.client import KubeApi, connect
from ballast.cluster.lease import Elector, LeaseTimes
from ballast.cluster.node_writes import node_metadata
from ballast.cluster.switches import Switches
from ballast.cluster.write import Result
from ballast_lab.harness.waiting import HUNG, eventually
from ballast_lab.simulator.cluster import EmbeddedCluster
from ballast_lab.simulator.world import World
from tests.worlds.daemons import HandClock
from tests.worlds.writing import writer_on

CLOCK = SystemClock()


@pytest.fixture
def simulated() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(World(nodes=3, scene="calm"), bookmark_seconds=0.2) as cluster:
        yield cluster


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def api(simulated: EmbeddedCluster, metrics: Metrics, tmp_path: Path) -> KubeApi:
    return connect(SimpleNamespace(kubeconfig=simulated.kubeconfig(tmp_path / "kubeconfig"), context=None), metrics)


@pytest.fixture
def cache(api: KubeApi, metrics: Metrics) -> Iterator[Cache]:
    cache = Cache(api, CLOCK, metrics, pods=False)
    yield cache
    cache.stop()


def label(api: KubeApi, cache: Cache, value: str) -> None:
    """Changes a node and waits until the cache has it."""
    name = cache.nodes()[0].name
    body = {"metadata": {"labels": {"a": value}}}
    api.request("PATCH", f"/api/v1/nodes/{name}", body=body, content_type="application/merge-patch+json")
    eventually("the label arrives", lambda: cache.node(name).labels.get("a") == value)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ({"fault": "kube_401"}, Unauthorized),
        ({"fault": "kube_forbidden", "verb": "list", "resource": "nodes"}, Forbidden),
        ({"fault": "kube_429", "retry_after": 3}, TooManyRequests),
        ({"fault": "kube_reset"}, Unreachable),
    ],
)
def test_each_kind_of_trouble_has_its_exception(
    simulated: EmbeddedCluster, api: KubeApi, fault: dict[str, Any], error: type[Exception]
) -> None:
    simulated.faults.apply(**fault)
    with pytest.raises(error) as caught:
        api.get("/api/v1/nodes")
    if error is TooManyRequests:
        assert caught.value.retry_after == 3


def test_a_watch_that_is_gone_lists_again(
    simulated: EmbeddedCluster, api: KubeApi, cache: Cache, metrics: Metrics
) -> None:
    cache.start()
    assert cache.wait_synced(HUNG)
    simulated.faults.kube_watch_gone()
    restarts = {"kind": "nodes", "reason": "gone"}
    eventually("the watch ended", lambda: metrics.registry.get_sample_value("ballast_watch_restarts_total", restarts))
    simulated.faults.clear()
    label(api, cache, "after")


@pytest.mark.parametrize("fault", ["kube_reset", "kube_500", "kube_401", "kube_429"])
def test_the_cache_gets_over_it_and_keeps_what_it_had(
    simulated: EmbeddedCluster, api: KubeApi, cache: Cache, fault: str
) -> None:
    cache.start()
    assert cache.wait_synced(HUNG)
    before = cache.nodes()
    simulated.faults.kube_watch_gone()
    simulated.faults.apply(fault)
    eventually("the problem is told", lambda: cache.problem("nodes"))
    assert cache.nodes() == before
    simulated.faults.clear()
    label(api, cache, "after")
    assert cache.problem("nodes") is None


def test_a_missing_right_at_the_start_is_told_and_granting_it_is_enough(
    simulated: EmbeddedCluster, cache: Cache
) -> None:
    simulated.faults.kube_forbidden("list", "nodes")
    cache.start()
    eventually("the rule is named", lambda: "verb `list` on `nodes`" in str(cache.problem("nodes")))
    assert not cache.synced
    simulated.faults.clear()
    assert cache.wait_synced(HUNG)


def test_a_silent_server_makes_the_data_old(simulated: EmbeddedCluster, cache: Cache) -> None:
    cache.start()
    assert cache.wait_synced(HUNG)
    simulated.faults.kube_watch_silence()
    eventually("its age grows", lambda: cache.age("nodes") > 0.5)
    assert cache.synced


def test_switches_that_may_not_be_read_pause(simulated: EmbeddedCluster, api: KubeApi, metrics: Metrics) -> None:
    simulated.faults.kube_forbidden("list", "configmaps")
    switches = Switches(api, CLOCK, metrics, "ballast")
    switches.start()
    try:
        eventually("the rule is named", lambda: "`list` on `configmaps`" in str(switches.paused("publishing")))
        simulated.faults.clear()
        eventually("it resumes", lambda: switches.paused("publishing") is None)
    finally:
        switches.stop()


def test_a_leader_without_an_answer_steps_down_and_comes_back(
    simulated: EmbeddedCluster, api: KubeApi, metrics: Metrics
) -> None:
    lost, clock, times = threading.Event(), HandClock(), LeaseTimes(retry=0.1)
    elector = Elector(api, clock, metrics, namespace="ballast", name="ballast", identity="a", times=times)
    elector.subscribe(int, lost.set)
    elector.start()
    try:
        eventually("it leads", elector.is_leader)
        simulated.faults.kube_500()
        eventually("its renewals fail", lambda: elector.problem)
        clock.advance(times.deadline)
        assert lost.wait(HUNG)
        assert not elector.is_leader()
        simulated.faults.clear()
        eventually("it leads again", elector.is_leader)
    finally:
        elector.stop()


def test_a_busy_server_makes_writers_wait_and_the_write_still_happens(
    simulated: EmbeddedCluster, api: KubeApi, metrics: Metrics
) -> None:
    writer = writer_on(api, CLOCK, metrics, modes={"publishing": "on"}, qps=100, burst=100)
    name = json.loads(api.get("/api/v1/nodes"))["items"][0]["metadata"]["name"]
    simulated.faults.kube_429(seconds=0.5, retry_after=1)
    began = CLOCK.monotonic()
    outcome = writer.submit(node_metadata(name, {"a": "b"}, {}, part="publishing", reason="t"))
    assert outcome.result is Result.DONE
    assert CLOCK.monotonic() - began >= 1.0
