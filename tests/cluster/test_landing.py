"""Where replacements land on a scheduler that asks nobody, with the nodes tainted that they left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.harness.chart import Installed, install, uninstall
from tests.cluster.harness.control_plane import ControlPlane
from tests.cluster.harness.landing import left, tainted
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


@pytest.fixture
def tainting(cluster: ControlPlane) -> Iterator[Installed]:
    """The chart with evictions on, and landing by taint."""
    yield install(cluster, TAINTING)
    uninstall(cluster, TAINTING)


@pytest.mark.timeout(300)
def test_a_plan_evens_out_load_on_a_scheduler_that_asks_nobody(
    cluster: ControlPlane, tmp_path: Path, tainting: Installed
) -> None:
    size = Size(nodes=10, apps=60, replicas=4, moves=6, window=6, interval=1, cpu=False)
    kubeconfig = cluster.account_kubeconfig(tainting.namespace, tainting.account)
    given = {**tainting.settings, "POD_NAMESPACE": tainting.namespace}
    since = cluster.audit.here()
    share = left(cluster, tmp_path, size, "taint", kubeconfig=kubeconfig, given=given)
    sweep(cluster.api)
    print(f"left of the deviation of memory: {share:.3f}")
    assert not tainted(cluster)
    assert [call.uri for call in cluster.audit.calls(user=tainting.user, since=since) if call.forbidden] == []
    assert share < 1
