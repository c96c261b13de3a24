"""The chart's second kube-scheduler, with the rights and the profile that the chart gives it."""

import os
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from ballast_lab.harness.api import APPLY, Api, Json
from ballast_lab.harness.burst import knowing
from ballast_lab.harness.chart import install, render, uninstall
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.objects import add_nodes, node, placements, pod
from ballast_lab.harness.release import make_credentials
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
        add_nodes(
            api,
            [
                node(name, labels={"ballast.node-restriction.kubernetes.io/score": score})
                for name, score in scores.items()
            ],
        )
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
        account = cluster.account_kubeconfig(installed.namespace, installed.account)
        environment = {**os.environ, "KUBECONFIG": str(account)}
        made = make_credentials(cluster, installed.namespace, tmp_path, environment)
        files = {file.name: file.read_bytes() for file in made.iterdir()}
        assert set(files) == {"token", "ca.crt", "tls.crt", "tls.key"}
        again = make_credentials(cluster, installed.namespace, tmp_path / "other", environment)
        assert {file.name: file.read_bytes() for file in again.iterdir()} == files, "made once for all replicas"
        space = f"/api/v1/namespaces/{installed.namespace}"
        apply = f"{space}/secrets/ballast-extender-token?fieldManager=helm&force=true"
        rendered = one(render(values), "Secret", "ballast-extender-token")
        assert "token" in api.patch(apply, rendered, kind=APPLY)["data"], "an upgrade keeps it"
        text = one(render(values), "ConfigMap", "ballast-scheduler")["data"]["config.yaml"]
        shown = text.replace("EXTENDER-TOKEN", files["token"].decode())
        add_nodes(api, [node(name) for name in loads])
        settings = {
            **installed.settings,
            "POD_NAMESPACE": installed.namespace,
            "BALLAST_HTTP__TLS_CERT_FILE": str(made / "tls.crt"),
            "BALLAST_HTTP__TLS_KEY_FILE": str(made / "tls.key"),
            "BALLAST_EXTENDER__TOKEN_FILE": str(made / "token"),
        }
        with knowing(cluster, tmp_path, loads, settings, account) as daemon:
            configuration = yaml.safe_load(shown)
            [extender] = configuration["extenders"]
            service = urlsplit(extender["urlPrefix"])
            assert service.scheme == "https"
            assert extender["tlsConfig"] == {"caFile": "/etc/ballast/tls/ca.crt"}
            extender["urlPrefix"] = f"{daemon.url}{service.path}"
            extender["tlsConfig"] = {"caFile": str(made / "ca.crt"), "serverName": service.hostname}
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
