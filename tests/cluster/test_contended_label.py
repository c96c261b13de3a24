"""Real API server: a label that is put back after each removal stands on a tainted node."""

import time
from pathlib import Path
from typing import Any

import pytest

from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.daemon import FAST, Daemon
from ballast_lab.harness.machines import Machines
from ballast_lab.harness.objects import add_nodes, node
from ballast_lab.harness.prometheus import prometheus
from ballast_lab.harness.waiting import eventually

NODE = "/api/v1/nodes/liar"
BEST = {"ballast.dev/score": "24", "ballast.dev/load": "low"}
LOOKS = 600
"""One each 50 ms."""


def _forged(seen: dict[str, Any]) -> bool:
    return bool(seen["metadata"]["labels"].items() >= BEST.items())


def _tainted(seen: dict[str, Any]) -> bool:
    return any(taint["key"] == "ballast.dev/overloaded" for taint in seen["spec"].get("taints", []))


@pytest.mark.parametrize("manager", ["kubelet", "ballast"])
def test_a_label_that_its_kubelet_puts_back_stands_on_a_tainted_node(
    manager: str, cluster: ControlPlane, tmp_path: Path
) -> None:
    names = ["liar", "other"]
    add_nodes(cluster.api, [node(name) for name in names])
    with Machines(names, memory=0.9) as machines, prometheus(cluster.tools, tmp_path, machines.targets()) as server:
        settings = {**FAST, "BALLAST_PROMETHEUS__URL": server.url, "BALLAST_PUBLISHING__MODE": "on"}
        with Daemon(cluster, "one", cluster.kubeconfig("admin"), settings) as daemon:
            eventually("it is labelled", lambda: cluster.api.get(NODE)["metadata"]["labels"].get("ballast.dev/score"))
            looks = list[tuple[bool, bool]]()
            for _ in range(LOOKS):
                seen = cluster.api.get(NODE)
                looks.append((_forged(seen), _tainted(seen)))
                if not _forged(seen):
                    cluster.api.patch(f"{NODE}?fieldManager={manager}", {"metadata": {"labels": BEST}})
                time.sleep(0.05)
            said = eventually("it is named", lambda: daemon.condition("Contended"))
        other = cluster.api.get("/api/v1/nodes/other")
    assert "on liar. What it wrote is put back" in said
    first = looks.index((True, True))
    assert all(tainted for _, tainted in looks[first:]), "from the first answer on"
    assert not _tainted(other)
    untainted = sum(forged and not tainted for forged, tainted in looks)
    print(f"forged {sum(forged for forged, _ in looks)}, untainted {untainted} of {LOOKS} looks")
