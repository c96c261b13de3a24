"""The 17-node worlds on a real scheduler: how many of 1,000 pods find room."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ballast.publishing.extender_profile import extender_profile
from tests.cluster.harness.api import Json
from tests.cluster.harness.chart import Installed
from tests.cluster.harness.control_plane import ControlPlane
from tests.cluster.harness.objects import PODS, add_nodes, node, pod, sweep
from tests.cluster.harness.scheduler import STOCK, scheduler
from tests.cluster.harness.waiting import eventually
from tests.cluster.test_extender import ballast

DATA = Path(__file__).parents[1] / "data"
LOAD = 0.3


def _nodes(world: Json) -> list[Json]:
    found = []
    for number, (cpu, memory, disk) in enumerate(world["A0"]):
        each = node(f"n{number:02d}", cpu=f"{cpu}m", memory=f"{memory}Mi", pods=1000)
        for amounts in (each["status"]["capacity"], each["status"]["allocatable"]):
            amounts["ephemeral-storage"] = f"{disk}Gi"
        found.append(each)
    return found


def _pods(world: Json, kinds: list[int]) -> list[Json]:
    found = []
    for number, kind in enumerate(kinds):
        cpu, memory, disk = world["R"][kind]
        each = pod(f"p{number:04d}", cpu=f"{cpu}m", memory=f"{memory}Mi")
        if disk:
            each["spec"]["containers"][0]["resources"]["requests"]["ephemeral-storage"] = f"{disk}Gi"
        found.append(each)
    return found


def _placed(cluster: ControlPlane, pods: list[Json]) -> int:
    """How many are bound once the scheduler has tried all of them."""
    for each in pods:
        cluster.api.post(PODS, each)

    def tried() -> list[bool]:
        items = cluster.api.items(PODS)
        assert all(each["spec"].get("nodeName") or each["status"].get("conditions") for each in items)
        return [bool(each["spec"].get("nodeName")) for each in items]

    return sum(eventually("every pod was tried", tried, within=120, every=0.5))


@pytest.mark.timeout(280)
@pytest.mark.parametrize("name", ["R1", "near12_0"])
def test_more_pods_find_room(name: str, cluster: ControlPlane, installed: Installed, tmp_path: Path) -> None:
    world = json.loads((DATA / "worlds.json").read_text())[name]
    pods = _pods(world, json.loads((DATA / "pods_seed0.json").read_text()))
    names = add_nodes(cluster.api, _nodes(world))
    with scheduler(cluster, STOCK):
        stock = _placed(cluster, pods)
    sweep(cluster.api)
    add_nodes(cluster.api, _nodes(world))
    with (
        ballast(cluster, installed, tmp_path, dict.fromkeys(names, LOAD)) as daemon,
        scheduler(cluster, extender_profile(daemon.url, "default-scheduler")),
    ):
        ours = _placed(cluster, pods)
    print(f"{name}: stock {stock}, extender {ours}: {100 * (ours / stock - 1):+.0f} %")
    assert ours >= 1.2 * stock
