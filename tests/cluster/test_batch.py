"""Batches behind the gate on a real control plane: how many pods find room, and a leader that dies in the middle."""

import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

import pytest

from ballast.cli.observing.remote import DAEMONS_TIMEOUT, daemons_explanation, find
from ballast.cli.place import Place
from ballast.publishing.scheduler_profiles import extender_profile
from ballast_lab.experiments.openb.trace import FIRST_SEED
from ballast_lab.harness.api import Json
from ballast_lab.harness.batches import GATE, SMALL_FIRST, batch, gated
from ballast_lab.harness.chart import Installed, install, uninstall
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.daemon import Daemon
from ballast_lab.harness.machines import Machines
from ballast_lab.harness.objects import PODS, add_nodes, node, pod, sweep
from ballast_lab.harness.prometheus import prometheus
from ballast_lab.harness.scheduler import STOCK, scheduler
from ballast_lab.harness.waiting import eventually
from ballast_lab.harness.worlds import WORLDS, accepted_by_size, arrivals, nodes_of, place, pods_of
from tests.cluster.test_devices import nodes_of as devices_nodes
from tests.cluster.test_devices import pods_of as devices_pods
from tests.cluster.test_devices import workload
from tests.cluster.test_extender import ballast
from tests.worlds.chart import modes

LOAD = 0.3
EXPLAINING = {**SMALL_FIRST, "BALLAST_EVICTION__MODE": "dry-run"}
NODES = [f"n{number}" for number in range(4)]


@pytest.fixture
def installed(cluster: ControlPlane) -> Iterator[Installed]:
    """The chart with batch on and everything else off: the daemon has these rights alone."""
    values = modes("off", "off", "off")
    values["settings"]["batch"] = {"mode": "on"}
    yield install(cluster, values)
    uninstall(cluster, values)


@pytest.mark.nightly
def test_small_first_behind_the_gate_places_many_more_pods(
    cluster: ControlPlane, installed: Installed, tmp_path: Path
) -> None:
    """Half of a world and half of its pods; `make bench` has the whole ones."""
    whole, kinds = WORLDS["near12_2"], arrivals(0)[:500]
    world = {**whole, "A0": whole["A0"][::2]}
    pods = pods_of(world, kinds)
    names = add_nodes(cluster.api, nodes_of(world))
    with scheduler(cluster, STOCK):
        stock = place(cluster, pods)
    sweep(cluster.api)
    add_nodes(cluster.api, nodes_of(world))
    with (
        ballast(cluster, installed, tmp_path, dict.fromkeys(names, LOAD), **SMALL_FIRST) as daemon,
        scheduler(cluster, extender_profile(daemon.url, "default-scheduler", filtering=True), patient=True),
    ):
        ours = batch(cluster, pods)
    sizes = [[round(each, 2) for each in accepted_by_size(kinds, placed)] for placed in (stock, ours)]
    print(f"stock {sum(stock)}, batch {sum(ours)}: {sum(ours) / sum(stock):.2f} times; by size {sizes}")
    assert sum(ours) >= 1.4 * sum(stock)


@pytest.mark.nightly
def test_300_gated_pods_with_devices_are_bound_or_explained(cluster: ControlPlane, tmp_path: Path) -> None:
    """Eviction is in dry run: that part of the daemon explains pods."""
    values = modes("off", "off", "dry-run")
    values["settings"]["batch"] = {"mode": "on"}
    work = workload(90)
    kinds = [*work.arrivals(FIRST_SEED)[0].tolist()] * 4
    pods = devices_pods(work, kinds[:300])
    names = add_nodes(cluster.api, devices_nodes(work))
    chart = install(cluster, values)
    try:
        with (
            ballast(cluster, chart, tmp_path, dict.fromkeys(names, LOAD), **EXPLAINING) as daemon,
            scheduler(cluster, extender_profile(daemon.url, "default-scheduler", filtering=True), patient=True),
        ):
            placed = batch(cluster, pods)
            pending = [each["metadata"]["name"] for each, there in zip(pods, placed, strict=True) if not there]
            remote = find(Place(daemon.url), DAEMONS_TIMEOUT)
            answers = [daemons_explanation(remote, "default", name)["pending"] for name in pending]
    finally:
        uninstall(cluster, values)
    waits = sorted(_seconds_to_bind(each) for each in cluster.api.items(PODS) if each["spec"].get("nodeName"))
    print(
        f"{sum(placed)} of 300 bound, the last {waits[-1]:.0f} s after its creation; {len(pending)} pending explained"
    )
    assert sum(placed) >= 150
    assert waits[-1] <= 60
    assert pending
    for answer in answers:
        assert answer["gated"] is False
        assert sum(answer["why_not"].values()) == len(names)
        assert any(reason.startswith("Insufficient") for reason in answer["why_not"])


@pytest.mark.nightly
def test_a_killed_leader_leaves_no_pod_gated_for_a_minute(cluster: ControlPlane, tmp_path: Path) -> None:
    """Nothing schedules the pods: the first leader releases a few, and then nothing moves."""
    add_nodes(cluster.api, [node(name) for name in NODES])
    with Machines(NODES, memory=LOAD) as machines, prometheus(cluster.tools, tmp_path, machines.targets()) as server:
        settings = {"BALLAST_PROMETHEUS__URL": server.url, "BALLAST_BATCH__AHEAD": "3", **_own("first")}
        with Daemon(cluster, "first", cluster.admin_kubeconfig, {**SMALL_FIRST, **settings}) as first:
            eventually("the first one leads", first.leads)
            second_settings = {**SMALL_FIRST, **settings, **_own("second")}
            with Daemon(cluster, "second", cluster.admin_kubeconfig, second_settings) as second:
                for number in range(40):
                    cluster.api.post(PODS, gated(pod(f"web-{number:02d}")))
                born = time.monotonic()
                eventually("some were released", lambda: len(_held(cluster)) < 40, every=0.2)
                first.kill()
                cluster.api.post(PODS, gated(pod("late")))
                eventually("the second one leads", second.leads)
                eventually("no pod is gated", lambda: not _held(cluster), every=0.2)
                lasted = time.monotonic() - born
    print(f"the last gate was gone {lasted:.0f} s after the pods were created")
    assert lasted <= 60


def _seconds_to_bind(bound: Json) -> float:
    """From its creation, which is before its release."""
    scheduled = next(each for each in bound["status"]["conditions"] if each["type"] == "PodScheduled")
    times = (bound["metadata"]["creationTimestamp"], scheduled["lastTransitionTime"])
    begin, end = (datetime.fromisoformat(text.replace("Z", "+00:00")) for text in times)
    return (end - begin).total_seconds()


def _own(pod_name: str) -> Mapping[str, str]:
    return {"POD_NAME": pod_name, "POD_NAMESPACE": "default"}


def _held(cluster: ControlPlane) -> list[Json]:
    return [each for each in cluster.api.items(PODS) if {"name": GATE} in (each["spec"].get("schedulingGates") or ())]
