"""Where replacements land on a scheduler that asks nobody, with the nodes tainted that they left."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ballast_lab.harness.chart import Installed, install, uninstall
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.landing import left, tainted
from ballast_lab.harness.objects import sweep
from ballast_lab.harness.rebalancing import Size

TAINTING = {
    "settings": {
        "prometheus": {"url": "http://127.0.0.1:9090"},
        "publishing": {"mode": "off"},
        "power": {"mode": "off"},
        "eviction": {"mode": "on", "landing": "taint"},
    }
}


WAYS = ("stock", "taint", "policy", "extender")


@pytest.mark.parametrize("way", WAYS)
def test_a_plan_evens_out_load_on_a_scheduler_that_asks_nobody(cluster: ControlPlane, tmp_path: Path, way: str) -> None:
    """Replacements land on the least loaded nodes, or nearly. What the stock scheduler alone does is only printed."""
    size = Size(nodes=10, apps=60, replicas=4, moves=5, window=6, interval=1, cpu=False)
    with landing(cluster, policy=way == "policy") as installed:
        kubeconfig = cluster.account_kubeconfig(installed.namespace, installed.account)
        given = {**installed.settings, "POD_NAMESPACE": installed.namespace}
        since = cluster.audit.here()
        by = "taint" if way == "policy" else way
        found = left(cluster, tmp_path, size, by, kubeconfig=kubeconfig, given=given)
        assert not tainted(cluster)
        sweep(cluster.api)
        assert [call.uri for call in cluster.audit.calls(user=installed.user, since=since) if call.forbidden] == []
    print("left of the deviation of memory:", found)
    assert found.lowest < found.anywhere
    if way != "stock":
        assert found.real <= (found.lowest + found.anywhere) / 2


@contextmanager
def landing(cluster: ControlPlane, *, policy: bool) -> Iterator[Installed]:
    """The chart with evictions on, and landing by taint, with its policy or without."""
    values = {**TAINTING, "landingPolicy": {"enabled": policy}}
    try:
        yield install(cluster, values)
    finally:
        uninstall(cluster, values)
