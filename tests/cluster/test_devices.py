"""Pods with GPUs on a real scheduler: how many of the devices are in use once 130 % of them were asked for.

Sizes of nodes and pods are close to those of Alibaba's cluster-trace-gpu-v2023 (nodes of 2, 4 and 8 devices; most pods
take one, some take eight, and one in six takes none), but whole devices alone: the scheduler itself counts no parts.
"""

import random
from pathlib import Path

import numpy as np
import pytest

from ballast.model.devices import MILLI
from ballast.publishing.scheduler_profiles import extender_profile
from ballast_lab.experiments.openb.lists import PodKind
from ballast_lab.experiments.openb.running import Run
from ballast_lab.experiments.openb.trace import FIRST_SEED, TraceWorkload
from ballast_lab.harness.api import Json
from ballast_lab.harness.chart import Installed
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.objects import add_nodes, node, pod, sweep
from ballast_lab.harness.scheduler import STOCK, scheduler
from ballast_lab.harness.worlds import place
from tests.cluster.test_extender import ballast

GPU = "nvidia.com/gpu"
LOAD = 0.3
NODES = ((8, 96, 384), (8, 96, 384), (4, 64, 256), (2, 32, 128))
"""Devices, cores and GiB of each fourth node."""
KINDS = (
    (PodKind(4_000, 16 * 1024, 0, 0), 17),
    (PodKind(6_000, 24 * 1024, 1, MILLI), 30),
    (PodKind(12_000, 48 * 1024, 1, MILLI), 18),
    (PodKind(16_000, 64 * 1024, 2, MILLI), 15),
    (PodKind(32_000, 128 * 1024, 4, MILLI), 10),
    (PodKind(64_000, 256 * 1024, 8, MILLI), 10),
)
"""With their shares in percent."""


def workload(nodes: int) -> TraceWorkload:
    shapes = [NODES[number % len(NODES)] for number in range(nodes)]
    pods = random.Random(7).choices(range(len(KINDS)), [share for _, share in KINDS], k=nodes)
    return TraceWorkload(
        "gpus",
        np.array([1000.0 * cores for _, cores, _ in shapes]),
        np.array([1024.0 * memory for _, _, memory in shapes]),
        np.array([devices for devices, _, _ in shapes]),
        ("any",) * nodes,
        tuple(kind for kind, _ in KINDS),
        np.array(pods),
    )


def nodes_of(work: TraceWorkload) -> list[Json]:
    found = []
    for number, devices in enumerate(work.devices.tolist()):
        cpu, memory = f"{work.cpu[number]:.0f}m", f"{work.memory[number]:.0f}Mi"
        each = node(f"n{number:03d}", cpu=cpu, memory=memory)
        for amounts in (each["status"]["capacity"], each["status"]["allocatable"]):
            amounts[GPU] = str(devices)
        found.append(each)
    return found


def pods_of(work: TraceWorkload, kinds: list[int]) -> list[Json]:
    found = []
    for number, kind in enumerate(work.kinds[row] for row in kinds):
        each = pod(f"p{number:04d}", cpu=f"{kind.cpu}m", memory=f"{kind.memory}Mi")
        if kind.count:
            resources = each["spec"]["containers"][0]["resources"]
            resources["requests"][GPU] = str(kind.count)
            resources["limits"] = {GPU: str(kind.count)}
        found.append(each)
    return found


@pytest.mark.nightly
def test_more_devices_are_in_use(cluster: ControlPlane, installed: Installed, tmp_path: Path) -> None:
    work = workload(200)
    kinds = work.arrivals(FIRST_SEED)[0].tolist()
    pods = pods_of(work, kinds)

    def share(placed: list[bool]) -> float:
        taken = sum(int(work.volumes[kind]) for kind, there in zip(kinds, placed, strict=True) if there)
        return 100 * taken / work.capacity

    names = add_nodes(cluster.api, nodes_of(work))
    with scheduler(cluster, STOCK):
        stock = share(place(cluster, pods))
    simulated = share_in_process(work)
    print(f"devices in use: stock {stock:.1f} %, simulated {simulated:.1f} %")
    # The default strategy looks at the load first, so it may leave a few devices more.
    for strategy, behind in (("dominant-residual", 1), ("load-aware", 2)):
        sweep(cluster.api)
        add_nodes(cluster.api, nodes_of(work))
        loads = dict.fromkeys(names, LOAD)
        with (
            ballast(cluster, installed, tmp_path, loads, BALLAST_EXTENDER__STRATEGY=strategy) as daemon,
            scheduler(cluster, extender_profile(daemon.url, "default-scheduler"), patient=True),
        ):
            ours = share(place(cluster, pods))
        print(f"devices in use: {strategy} {ours:.1f} %")
        assert ours >= stock
        assert ours >= simulated - behind


def share_in_process(work: TraceWorkload) -> float:
    """The percent of devices in use at the end of the same arrivals, by the same criterion without a cluster."""
    return float(Run(work, "residual", FIRST_SEED).row()["allocated_percent"])
