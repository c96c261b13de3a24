"""`ballast experiment dominant-residual --kubeconfig` on a real scheduler: it places pods and leaves nothing behind."""

from dataclasses import replace

import pytest

from ballast.base.metrics import Metrics
from ballast.cluster.client import connect
from ballast.settings.plain_parts import ClusterSettings
from ballast_lab.experiments.real_scheduler import LABEL, NAME, ExperimentFailed, results
from ballast_lab.experiments.worlds import worlds
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.objects import add_nodes, node
from ballast_lab.harness.scheduler import STOCK, scheduler

PODS = 120


def test_pods_are_placed_and_nothing_is_left(cluster: ControlPlane) -> None:
    world = worlds()["R3"]
    world = replace(world, nodes=world.nodes[:2])
    add_nodes(cluster.api, [node("other", cpu="1000", memory="4000Gi")])
    api = connect(ClusterSettings(kubeconfig=cluster.kubeconfig("admin")), Metrics())
    with scheduler(cluster, STOCK):
        told = results(api, [world], [0], pods=PODS)
    [row] = told.rows
    assert row.name == "R3: default-scheduler"
    assert row.published == 542
    assert 0 < row.measured < PODS
    assert [each["metadata"]["name"] for each in cluster.api.items("/api/v1/nodes")] == ["other"]
    assert not cluster.api.items(f"/api/v1/namespaces/{NAME}/pods")


def test_what_another_run_left_is_named(cluster: ControlPlane) -> None:
    add_nodes(cluster.api, [node("left", labels={LABEL: "true"})])
    api = connect(ClusterSettings(kubeconfig=cluster.kubeconfig("admin")), Metrics())
    with pytest.raises(ExperimentFailed, match=f"kubectl delete nodes -l {LABEL}"):
        results(api, [worlds()["R3"]], [0])
    assert len(cluster.api.items("/api/v1/nodes")) == 1
