"""Real etcd, set back to a backup without `--bump-revision`: versions go back, and no watch says so."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.daemon import FAST, Daemon
from ballast_lab.harness.machines import Machines
from ballast_lab.harness.objects import add_nodes, node
from ballast_lab.harness.prometheus import prometheus
from ballast_lab.harness.tools import Tools
from ballast_lab.harness.waiting import eventually

NAMES = [f"n{number:02d}" for number in range(12)]
LATER = "n99"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
KEYS = {"ballast.dev/score", "ballast.dev/load"}
WRITES = 400
"""That push versions far beyond those of the backup."""

LOOKS = 60
"""One each half second, after the restore."""


@pytest.fixture
def own(tools: Tools, tmp_path: Path) -> Iterator[ControlPlane]:
    """A control plane that nobody else uses."""
    folder = tmp_path / "own"
    folder.mkdir()
    plane = ControlPlane(tools, folder)
    yield plane
    plane.stop()


def set_back(plane: ControlPlane, saved: Path, *, save: bool) -> None:
    plane.apiserver.stop()
    plane.etcd.stop()
    data = plane.folder / "etcd"
    source, target = (data, saved) if save else (saved, data)
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    plane.etcd.start()
    plane.apiserver.start()


def labelled(plane: ControlPlane) -> set[str]:
    return {
        each["metadata"]["name"]
        for each in plane.api.items("/api/v1/nodes")
        if each["metadata"].get("labels", {}).keys() >= KEYS
    }


def test_all_labels_stay_nobody_is_accused_and_a_new_node_is_seen(own: ControlPlane, tmp_path: Path) -> None:
    everyone = {*NAMES}
    add_nodes(own.api, [node(name) for name in NAMES])
    with (
        Machines([*NAMES, LATER], memory=0.4) as machines,
        prometheus(own.tools, tmp_path, machines.targets()) as server,
    ):
        settings = {**FAST, "BALLAST_PROMETHEUS__URL": server.url, "BALLAST_PUBLISHING__REFRESH": "5s"}
        with Daemon(own, "one", own.kubeconfig("admin"), settings) as daemon:
            eventually("all nodes are labelled", lambda: labelled(own) == everyone, every=0.5)
            set_back(own, tmp_path / "backup", save=True)
            eventually("the daemon goes on", lambda: daemon.leads() and labelled(own) == everyone, every=0.5)
            own.api.post(CONFIG_MAPS, {"metadata": {"name": "busy"}})
            for number in range(WRITES):
                own.api.patch(f"{CONFIG_MAPS}/busy", {"data": {"number": str(number)}})
            for name in NAMES:
                machines[name].memory = 0.9
            eventually("loads have moved", lambda: _loads(own) == {"high"}, every=0.5)
            set_back(own, tmp_path / "backup", save=False)
            assert labelled(own) == everyone
            add_nodes(own.api, [node(LATER)])
            for _ in range(LOOKS):
                assert labelled(own) >= everyone
                assert not daemon.condition("Contended")
                time.sleep(0.5)
            eventually("the new node is labelled", lambda: LATER in labelled(own), every=0.5)
            eventually("and the loads are those of now", lambda: _loads(own) <= {"high", "normal"}, every=0.5)
            assert daemon.stop() == 0


def _loads(plane: ControlPlane) -> set[str]:
    nodes = plane.api.items("/api/v1/nodes")
    return {each["metadata"]["labels"].get("ballast.dev/load", "") for each in nodes}
