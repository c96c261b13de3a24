"""A stock kube-scheduler asks Ballast over TLS, by the profile that `ballast profile extender --tls` prints."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import requests
import trustme

from ballast.publishing.scheduler_profiles import FOLDER
from ballast_lab.harness.burst import CORES, burst, knowing
from ballast_lab.harness.chart import Installed
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.daemon import Daemon
from ballast_lab.harness.objects import add_nodes, node
from ballast_lab.harness.scheduler import scheduler

STOCK = "default-scheduler"
LOADS = {"busy": 0.6, "idle": 0.1}
TOKEN = "what-only-the-scheduler-knows"


def answered(daemon: Daemon) -> dict[str, float]:
    """{result: requests to prioritize}."""
    return {
        labels["result"]: value
        for name, labels, value in daemon.samples()
        if name == "ballast_extender_requests_total" and labels["verb"] == "prioritize"
    }


def printed(url: str, folder: Path, settings: Mapping[str, str]) -> str:
    """The profile, with the files of kube-scheduler's pod where this test has them."""
    command = [sys.executable, "-m", "ballast", "profile", "extender", "--tls", "--url", url, "--scheduler-name", STOCK]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("BALLAST_")}
    done = subprocess.run(command, capture_output=True, text=True, env={**plain, **settings}, check=True)
    assert FOLDER in done.stdout
    return done.stdout.replace(FOLDER, str(folder))


@pytest.mark.parametrize("shown", ["certificate", "token"])
def test_who_shows_a_certificate_or_the_token_is_answered_and_nobody_else(
    shown: str, cluster: ControlPlane, installed: Installed, tmp_path: Path
) -> None:
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    client = authority.issue_cert("kube-scheduler")
    authority.cert_pem.write_to_path(tmp_path / "clients.crt")
    client.private_key_pem.write_to_path(tmp_path / "tls.key")
    client.cert_chain_pems[0].write_to_path(tmp_path / "tls.crt")
    (tmp_path / "ca.crt").write_bytes(cluster.certificates.ca.read_bytes())
    (tmp_path / "token").write_text(TOKEN)
    asked = {
        "certificate": {"BALLAST_EXTENDER__CLIENT_CA_FILE": str(tmp_path / "clients.crt")},
        "token": {"BALLAST_EXTENDER__TOKEN_FILE": str(tmp_path / "token")},
    }[shown]
    asked |= {
        "BALLAST_HTTP__TLS_CERT_FILE": str(cluster.certificates.server),
        "BALLAST_HTTP__TLS_KEY_FILE": str(cluster.certificates.server_key),
    }
    settings = {**installed.settings, **asked, "POD_NAMESPACE": installed.namespace}
    add_nodes(cluster.api, [node(name, cpu=str(CORES), memory="64Gi") for name in LOADS])
    kubeconfig = cluster.account_kubeconfig(installed.namespace, installed.account)
    with knowing(cluster, tmp_path, LOADS, settings, kubeconfig) as daemon:
        assert daemon.url.startswith("https://")
        body = {"Pod": {"metadata": {"name": "x"}, "spec": {}}, "NodeNames": list(LOADS)}
        stranger = requests.post(
            f"{daemon.url}/scheduler/prioritize", json=body, verify=str(cluster.certificates.ca), timeout=30
        )
        assert stranger.status_code == 401
        assert answered(daemon).get("answered", 0) == 0
        with scheduler(cluster, printed(daemon.url, tmp_path, asked), patient=True) as process:
            placed = burst(cluster, 4)
            found = answered(daemon)
            assert found.get("answered", 0) >= 4, (found, process.tail())
    assert set(placed.values()) == {"idle"}, placed
