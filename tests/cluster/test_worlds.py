"""The 17-node worlds on a real scheduler: how many of 1,000 pods find room."""

from pathlib import Path

import pytest

from ballast.publishing.scheduler_profiles import extender_profile
from ballast_lab.harness.chart import Installed
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.objects import add_nodes, sweep
from ballast_lab.harness.scheduler import STOCK, scheduler
from ballast_lab.harness.worlds import WORLDS, arrivals, nodes_of, place, pods_of
from tests.cluster.test_extender import ballast

LOAD = 0.3


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["R1", "near12_0"])
@pytest.mark.parametrize(("strategy", "least"), [("blend", 1.2), ("load-aware", 1.1)])
def test_more_pods_find_room(
    strategy: str, least: float, name: str, cluster: ControlPlane, installed: Installed, tmp_path: Path
) -> None:
    world = WORLDS[name]
    pods = pods_of(world, arrivals(0))
    names = add_nodes(cluster.api, nodes_of(world))
    with scheduler(cluster, STOCK):
        stock = sum(place(cluster, pods))
    sweep(cluster.api)
    add_nodes(cluster.api, nodes_of(world))
    with (
        ballast(
            cluster, installed, tmp_path, dict.fromkeys(names, LOAD), BALLAST_EXTENDER__STRATEGY=strategy
        ) as daemon,
        scheduler(cluster, extender_profile(daemon.url, "default-scheduler"), patient=True),
    ):
        ours = sum(place(cluster, pods))
    print(f"{name}: stock {stock}, extender {ours}: {100 * (ours / stock - 1):+.0f} %")
    assert ours >= least * stock
