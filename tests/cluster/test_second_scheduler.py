"""The chart's second kube-scheduler, with the rights and the profile that the chart gives it."""

import base64
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from ballast_lab.harness.api import Api, Json
from ballast_lab.harness.burst import knowing
from ballast_lab.harness.chart import install, render, uninstall
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.objects import add_nodes, node, placements, pod
from ballast_lab.harness.scheduler import scheduler
from ballast_lab.harness.waiting import eventually
from tests.worlds.chart import one

SPACE = "opted-in"
PODS = f"/api/v1/namespaces/{SPACE}/pods"
DEFAULT = "/api/v1/namespaces/default/pods"
ASKED = "ballast_extender_requests_total"
VALUES = {
    "settings": {"prometheus": {"url": "http://127.0.0.1:9090"}},
    "scheduler": {
        "enabled": True,
        "pairing": "labels",
        "optIn": {"namespaceSelector": {"matchLabels": {"ballast.dev/schedule": "true"}}},
    },
}


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
            eventually("all are bound", lambda: len(_placed(api)) == 4 and all(_placed(api).values()))
            lease = f"/apis/coordination.k8s.io/v1/namespaces/{installed.namespace}/leases/ballast-scheduler"
            assert api.get(lease)["spec"]["holderIdentity"]
            assert "forbidden" not in process.log.read_text()
        assert set(_placed(api).values()) == {"cold"}
        outside = api.post("/api/v1/namespaces/default/pods", pod("outside", cpu="100m"))
        assert outside["spec"]["schedulerName"] == "default-scheduler"
    finally:
        api.delete(PODS, {"gracePeriodSeconds": 0})
        uninstall(cluster, VALUES)


def test_it_asks_the_extender_over_tls_and_binds_by_load(cluster: ControlPlane, tmp_path: Path) -> None:
    api, loads = cluster.api, {"hot": 0.9, "cold": 0.1, "warm": 0.6}
    scheduler_values = {"enabled": True, "pairing": "extender"}
    values = {**VALUES, "scheduler": scheduler_values, "extender": {"token": {"create": True}}}
    installed = install(cluster, values)
    try:
        space = f"/api/v1/namespaces/{installed.namespace}"
        for secret in ("ballast-tls", "ballast-extender-token", "ballast-scheduler-config"):
            for name, text in api.get(f"{space}/secrets/{secret}")["data"].items():
                (tmp_path / name).write_bytes(base64.b64decode(text))
        add_nodes(api, [node(name) for name in loads])
        settings = {
            **installed.settings,
            "POD_NAMESPACE": installed.namespace,
            "BALLAST_HTTP__TLS_CERT_FILE": str(tmp_path / "tls.crt"),
            "BALLAST_HTTP__TLS_KEY_FILE": str(tmp_path / "tls.key"),
            "BALLAST_EXTENDER__TOKEN_FILE": str(tmp_path / "token"),
        }
        account = cluster.account_kubeconfig(installed.namespace, installed.account)
        with knowing(cluster, tmp_path, loads, settings, account) as daemon:
            configuration = yaml.safe_load((tmp_path / "config.yaml").read_text())
            [extender] = configuration["extenders"]
            service = urlsplit(extender["urlPrefix"])
            assert service.scheme == "https"
            assert extender["tlsConfig"] == {"caFile": "/etc/ballast/tls/ca.crt"}
            extender["urlPrefix"] = f"{daemon.url}{service.path}"
            extender["tlsConfig"] = {"caFile": str(tmp_path / "ca.crt"), "serverName": service.hostname}
            rights = cluster.account_kubeconfig(installed.namespace, "ballast-scheduler")
            with scheduler(cluster, yaml.safe_dump(configuration), kubeconfig=rights):
                for number in range(3):
                    api.post(DEFAULT, _for_ballast(f"tls-{number}"))
                placed = placements(api, [f"tls-{number}" for number in range(3)])
            asked = {labels["verb"]: value for name, labels, value in daemon.samples() if name == ASKED}
        assert set(placed.values()) == {"cold"}
        assert asked["prioritize"] >= 3
    finally:
        api.delete(DEFAULT, {"gracePeriodSeconds": 0})
        uninstall(cluster, values)


def _for_ballast(name: str) -> Json:
    made = pod(name, cpu="100m")
    return {**made, "spec": {**made["spec"], "schedulerName": "ballast"}}


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
