"""A stock kube-scheduler asks Ballast through the printed extender profile."""

import random
import signal
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from ballast.publishing.scheduler_profiles import extender_profile, labels_profile
from ballast.scoring.load_variation import label_score
from ballast.windows.band import label_of
from ballast_lab.harness.burst import CORES, REFRESH, burst, judge, knowing, refreshed, slowly
from ballast_lab.harness.chart import Installed
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.daemon import Daemon
from ballast_lab.harness.objects import PODS, add_nodes, node, placements, pod, sweep
from ballast_lab.harness.process import Process
from ballast_lab.harness.scheduler import STOCK, scheduler
from ballast_lab.harness.waiting import eventually


@contextmanager
def ballast(
    cluster: ControlPlane,
    installed: Installed,
    folder: Path,
    loads: Mapping[str, float],
    refresh: int = REFRESH,
    **settings: str,
) -> Iterator[Daemon]:
    """A daemon that knows these loads of cpu and memory, under the account and the rights of the chart."""
    given = {**installed.settings, **slowly(refresh), "POD_NAMESPACE": installed.namespace, **settings}
    kubeconfig = cluster.account_kubeconfig(installed.namespace, installed.account)
    with knowing(cluster, folder, loads, given, kubeconfig, refresh) as daemon:
        yield daemon


def outcomes(daemon: Daemon) -> dict[str, int]:
    return {
        labels["outcome"]: int(value)
        for name, labels, value in daemon.samples()
        if name == "ballast_extender_decisions_total" and value
    }


@pytest.mark.nightly
def test_a_burst_lands_where_there_is_room_and_does_not_herd(
    cluster: ControlPlane, installed: Installed, tmp_path: Path
) -> None:
    """The labels of one cycle are the same for the whole burst; by load alone, the extender beats them clearly."""
    dice = random.Random(7)
    loads = {f"n{i:02d}": dice.random() * 0.7 for i in range(50)}
    pods, refresh = 300, 60
    found, decided = {}, {}
    fleet = [
        node(name, cpu=str(CORES), memory="64Gi", labels={"ballast.dev/score": str(label_of(float(label_score(load))))})
        for name, load in loads.items()
    ]
    for name, configuration in {"stock": STOCK, "labels": labels_profile("ballast.dev", "default-scheduler")}.items():
        add_nodes(cluster.api, fleet)
        with scheduler(cluster, configuration):
            found[name] = judge(loads, burst(cluster, pods))
        sweep(cluster.api)
    before = cluster.audit.here()
    for strategy in ("blend", "load-aware"):
        add_nodes(cluster.api, fleet)
        with (
            ballast(cluster, installed, tmp_path, loads, refresh, BALLAST_EXTENDER__STRATEGY=strategy) as daemon,
            scheduler(cluster, extender_profile(daemon.url, "default-scheduler"), patient=True),
        ):
            eventually("a refresh has just ended", lambda: refreshed(refresh), every=0.1)
            found[strategy] = judge(loads, burst(cluster, pods))
            decided[strategy] = eventually("all are confirmed", partial(_settled, daemon, pods))
        sweep(cluster.api)
    for name, (busiest, spread) in found.items():
        print(f"{name}: busiest {busiest}, sd of real load {spread:.4f}; decisions {decided.get(name)}")
    print(f"fair {pods / len(loads):g}, sd before {statistics.pstdev(loads.values()):.4f}")
    user = f"system:serviceaccount:{installed.namespace}:{installed.account}"
    assert not [call for call in cluster.audit.calls(user=user, since=before) if call.forbidden]
    assert found["blend"][0] <= 2 * pods / len(loads)
    for strategy, done in decided.items():
        assert found[strategy][1] < 0.65 * found["stock"][1]
        assert done["confirmed"] >= 0.95 * pods, f"decisions that came true: {done}"
    assert found["load-aware"][1] < found["labels"][1]


def _settled(daemon: Daemon, pods: int) -> dict[str, int]:
    found = outcomes(daemon)
    assert found.get("confirmed", 0) + found.get("undone", 0) >= pods, found
    return found


@pytest.mark.nightly
@pytest.mark.parametrize(("filtering", "least"), [(False, 3), (True, 1.5)])
def test_a_stopped_ballast_slows_scheduling_and_fails_none(
    filtering: bool, least: float, cluster: ControlPlane, installed: Installed, tmp_path: Path
) -> None:
    """Each pod waits for the timeout of every verb in the profile, and the nodes share them all the same."""
    loads = {f"n{i}": 0.1 * i for i in range(5)}
    add_nodes(cluster.api, [node(name, cpu=str(CORES), memory="64Gi") for name in loads])
    with (
        ballast(cluster, installed, tmp_path, loads) as daemon,
        scheduler(cluster, extender_profile(daemon.url, "default-scheduler", filtering=filtering)),
    ):
        daemon.signal(signal.SIGSTOP)
        try:
            began = time.monotonic()
            placed = burst(cluster, 40)
            rate = len(placed) / (time.monotonic() - began)
        finally:
            daemon.signal(signal.SIGCONT)
    print(f"{rate:.2f} pods/s while Ballast is stopped")
    assert rate >= least
    assert max(Counter(placed.values()).values()) <= 40 // len(loads) + 2


def test_an_overloaded_node_is_left_out_and_nobody_is_preempted_there(
    cluster: ControlPlane, installed: Installed, tmp_path: Path
) -> None:
    loads = {"hot": 0.95, "cold": 0.3}
    add_nodes(cluster.api, [node(name, cpu="8", memory="32Gi") for name in loads])
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    for name, value in {"low": 10, "high": 1000}.items():
        cluster.api.post(classes, {"metadata": {"name": name}, "value": value})
    try:
        cluster.api.post(PODS, pod("there", cpu="2", nodeName="hot", priorityClassName="low", priority=10))
        with (
            ballast(cluster, installed, tmp_path, loads, BALLAST_EXTENDER__FILTER_THRESHOLD="0.9") as daemon,
            scheduler(
                cluster, extender_profile(daemon.url, "default-scheduler", filtering=True), patient=True
            ) as process,
        ):
            for number in range(3):
                cluster.api.post(PODS, pod(f"high-{number}", cpu="2", priorityClassName="high"))
            placed = placements(cluster.api)
            _is_asked_to_filter(daemon, process)
    finally:
        for name in ("low", "high"):
            cluster.api.delete(f"{classes}/{name}")
    assert placed == {"there": "hot", "high-0": "cold", "high-1": "cold", "high-2": "cold"}


def _is_asked_to_filter(daemon: Daemon, process: Process) -> None:
    rejected = sum(value for name, _, value in daemon.samples() if name == "ballast_extender_rejections_total")
    assert rejected >= 3, process.tail()
