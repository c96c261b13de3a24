"""Where replacements land on a scheduler that asks nobody, with the nodes tainted that they left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.harness.chart import Installed, install, uninstall
from tests.cluster.harness.control_plane import ControlPlane
from tests.cluster.harness.landing import WAYS, left, tainted
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


@pytest.mark.timeout(600)
def test_a_taint_is_worth_half_of_the_extender(cluster: ControlPlane, tmp_path: Path, tainting: Installed) -> None:
    size = Size(nodes=10, apps=60, replicas=4, moves=6, window=6, interval=1, cpu=False)
    kubeconfig = cluster.account_kubeconfig(tainting.namespace, tainting.account)
    given = {**tainting.settings, "POD_NAMESPACE": tainting.namespace}
    since = cluster.audit.here()
    found = {}
    for way in WAYS:
        folder = tmp_path / way
        folder.mkdir()
        found[way] = left(cluster, folder, size, way, kubeconfig=kubeconfig, given=given)
        sweep(cluster.api)
    print({way: round(share, 3) for way, share in found.items()})
    assert not tainted(cluster)
    assert [call.uri for call in cluster.audit.calls(user=tainting.user, since=since) if call.forbidden] == []
    assert found["taint"] <= (found["stock"] + found["extender"]) / 2
