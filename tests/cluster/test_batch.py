"""Batches behind the gate on a real control plane: how many pods find room, and a leader that dies in the middle."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ballast.publishing.profiles import extender_profile
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
from tests.cluster.test_extender import ballast
from tests.worlds.chart import modes

LOAD = 0.3
NODES = [f"n{number}" for number in range(4)]


@pytest.fixture
def installed(cluster: ControlPlane) -> Iterator[Installed]:
    """The chart with batch on and everything else off: the daemon has these rights alone."""
    values = modes("off", "off", "off")
    values["settings"]["batch"] = {"mode": "on"}
    yield install(cluster, values)
    uninstall(cluster, values)


@pytest.mark.timeout(400)
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


@pytest.mark.timeout(300)
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
                eventually("some were released", lambda: len(_held(cluster)) < 40, within=40, every=0.2)
                first.kill()
                cluster.api.post(PODS, gated(pod("late")))
                eventually("the second one leads", second.leads, within=40)
                eventually("no pod is gated", lambda: not _held(cluster), within=70, every=0.2)
                lasted = time.monotonic() - born
    print(f"the last gate was gone {lasted:.0f} s after the pods were created")
    assert lasted <= 60


def _own(pod_name: str) -> Mapping[str, str]:
    return {"POD_NAME": pod_name, "POD_NAMESPACE": "default"}


def _held(cluster: ControlPlane) -> list[Json]:
    return [each for each in cluster.api.items(PODS) if {"name": GATE} in (each["spec"].get("schedulingGates") or ())]
