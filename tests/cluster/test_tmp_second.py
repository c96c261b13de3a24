"""Where replacements land on a scheduler that asks nobody, with the nodes tainted that they left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.harness.chart import Installed, install, uninstall
from tests.cluster.harness.control_plane import ControlPlane
from tests.cluster.harness.landing import left
from tests.cluster.harness.objects import sweep
from tests.cluster.harness.rebalancing import Size

TAINTING = {
    "settings": {
        "prometheus": {"url": "http://127.0.0.1:9090"},
        "publishing": {"mode": "off"},
        "power": {"mode": "off"},
        "eviction": {"mode": "on", "landing": "taint"},
    }
}


WAYS = ("stock", "taint", "policy", "extender")


def half_way(stock: float, extender: float) -> float:
    return (stock + extender) / 2


@pytest.mark.timeout(500)
def test_tmp2(cluster: ControlPlane, tmp_path: Path) -> None:
    size = Size(nodes=10, apps=60, replicas=4, moves=5, window=6, interval=1, cpu=False)
    for way in ("taint", "stock", "extender"):
        (folder := tmp_path / way).mkdir()
        with landing(cluster, policy=way == "policy") as installed:
            kubeconfig = cluster.account_kubeconfig(installed.namespace, installed.account)
            given = {**installed.settings, "POD_NAMESPACE": installed.namespace}
            got = left(cluster, folder, size, way, kubeconfig=kubeconfig, given=given)
            print("GOT", way, got, flush=True)
            for log in cluster.folder.glob("ballast-taint*.log"):
                (Path("/tmp/w-landing") / f"{way}.log").write_text(log.read_text())
            sweep(cluster.api)


@contextmanager
def landing(cluster: ControlPlane, *, policy: bool) -> Iterator[Installed]:
    """The chart with evictions on, and landing by taint, with its policy or without."""
    values = {**TAINTING, "landingPolicy": {"enabled": policy}}
    try:
        yield install(cluster, values)
    finally:
        uninstall(cluster, values)
