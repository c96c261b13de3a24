"""The chart's second kube-scheduler, with the rights and the profile that the chart gives it."""

from __future__ import annotations

import pytest

from tests.cluster.harness.api import Api, Json
from tests.cluster.harness.chart import install, render, uninstall
from tests.cluster.harness.control_plane import ControlPlane
from tests.cluster.harness.objects import add_nodes, node, pod
from tests.cluster.harness.scheduler import scheduler
from tests.cluster.harness.waiting import eventually
from tests.unit.install.chart import one

SPACE = "opted-in"
PODS = f"/api/v1/namespaces/{SPACE}/pods"
VALUES = {
    "settings": {"prometheus": {"url": "http://127.0.0.1:9090"}},
    "scheduler": {
        "enabled": True,
        "pairing": "labels",
        "optIn": {"namespaceSelector": {"matchLabels": {"ballast.dev/schedule": "true"}}},
    },
}


@pytest.mark.timeout(300)
def test_pods_of_a_namespace_go_to_it_and_are_bound_by_load(cluster: ControlPlane) -> None:
    api = cluster.api
    installed = install(cluster, VALUES)
    try:
        account = cluster.account_kubeconfig(installed.namespace, "ballast-scheduler")
        configuration = one(render(VALUES), "ConfigMap", "ballast-scheduler")["data"]["config.yaml"]
        scores = {"hot": "1", "cold": "9"}
        add_nodes(api, [node(name, labels={"ballast.dev/score": score}) for name, score in scores.items()])
        labels = {"ballast.dev/schedule": "true"}
        api.post("/api/v1/namespaces", {"metadata": {"name": SPACE, "labels": labels}})
        eventually("pods of the namespace are given to it", lambda: _named(api, "first"))
        with scheduler(cluster, configuration, kubeconfig=account) as process:
            for number in range(3):
                api.post(PODS, _pod(f"more-{number}"))
            eventually("all are bound", lambda: len(_placed(api)) == 4 and all(_placed(api).values()), within=60)
            lease = f"/apis/coordination.k8s.io/v1/namespaces/{installed.namespace}/leases/ballast-scheduler"
            assert api.get(lease)["spec"]["holderIdentity"]
            assert "forbidden" not in process.log.read_text()
        assert set(_placed(api).values()) == {"cold"}
        outside = api.post("/api/v1/namespaces/default/pods", pod("outside", cpu="100m"))
        assert outside["spec"]["schedulerName"] == "default-scheduler"
    finally:
        api.delete(PODS, {"gracePeriodSeconds": 0})
        uninstall(cluster, VALUES)


def _named(api: Api, name: str) -> bool:
    """Whether a new pod gets the second scheduler; it is kept if so."""
    made = api.post(PODS, _pod(name))
    if made["spec"]["schedulerName"] == "ballast":
        return True
    api.delete(f"{PODS}/{name}", {"gracePeriodSeconds": 0})
    return False


def _pod(name: str) -> Json:
    return {**pod(name, cpu="100m"), "metadata": {"name": name}}


def _placed(api: Api) -> dict[str, str | None]:
    return {each["metadata"]["name"]: each["spec"].get("nodeName") for each in api.items(PODS)}
