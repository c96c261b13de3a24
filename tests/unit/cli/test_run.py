import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ballast_lab.harness.waiting import HUNG, until
from ballast_lab.simulator import EmbeddedCluster, World
from tests.worlds.daemons import ENDPOINT_SLICE, LEASE, OWN

pytestmark = pytest.mark.slow


"""Seconds within which a daemon must have ended; it takes a fraction of that."""


class Process:
    """`ballast run`, its standard error in a file."""

    def __init__(self, log: Path, environment: dict[str, str]) -> None:
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("BALLAST_", "POD_", "KUBE")) and name != "HOME"
        }
        self.log = log
        self._file = log.open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ballast", "run"],
            env={**inherited, "HOME": str(log.parent), **environment},
            stdout=subprocess.DEVNULL,
            stderr=self._file,
        )

    @property
    def said(self) -> str:
        return self.log.read_text()

    def terminate(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.end()

    def end(self) -> int:
        try:
            return self.process.wait(HUNG)
        finally:
            self.process.kill()
            self.process.wait()
            self._file.close()


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(World(nodes=3, scene="calm")) as one:
        yield one


@pytest.fixture
def deaf() -> Iterator[str]:
    """An address where connections are taken and nothing is ever answered."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def environment(cluster: EmbeddedCluster, folder: Path, **more: str) -> dict[str, str]:
    return {
        **cluster.environment(cluster.kubeconfig(folder / "kubeconfig")),
        "BALLAST_HTTP__HOST": "127.0.0.1",
        "BALLAST_HTTP__PORT": "0",
        "BALLAST_TELEMETRY__INTERVAL": "1s",
        "BALLAST_PUBLISHING__MODE": "on",
        **more,
    }


def holder(cluster: EmbeddedCluster) -> str:
    lease = cluster.store.get(LEASE, OWN, "ballast")
    return str(lease.read()["spec"]["holderIdentity"]) if lease else ""


def addresses(cluster: EmbeddedCluster) -> list[str]:
    """Where the Service of the extender leads."""
    found = cluster.store.get(ENDPOINT_SLICE, OWN, "ballast-extender")
    return [address for each in found.read()["endpoints"] for address in each["addresses"]] if found else []


def test_sigterm_gives_the_lease_and_the_endpoint_back(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    own = {"POD_NAME": "ballast-0", "POD_NAMESPACE": OWN, "POD_IP": "10.0.0.7"}
    process = Process(tmp_path / "log", environment(cluster, tmp_path, **own))
    until(lambda: addresses(cluster) == ["10.0.0.7"])
    until(lambda: "labels current on 3 of 3 nodes (3 changed" in process.said)
    assert holder(cluster).startswith("ballast-0_")
    assert process.terminate() == 0
    assert holder(cluster) == ""
    assert addresses(cluster) == []
    assert "Traceback" not in process.said


def test_sigterm_while_nobody_listens_at_the_api_servers_address(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    settings = environment(cluster, tmp_path)
    cluster.stop()
    process = Process(tmp_path / "log", settings)
    until(lambda: "cannot list or watch a collection" in process.said)
    assert process.terminate() == 0
    assert "No answer from the Kubernetes API" in process.said
    assert "Traceback" not in process.said


def test_sigterm_while_the_api_server_says_nothing(cluster: EmbeddedCluster, tmp_path: Path, deaf: str) -> None:
    settings = environment(cluster, tmp_path)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(kubeconfig.read_text().replace(cluster.url, deaf))
    process = Process(tmp_path / "log", settings)
    until(lambda: process.said)
    assert process.terminate() == 0
    assert "Traceback" not in process.said


def test_sigterm_while_prometheus_says_nothing(cluster: EmbeddedCluster, tmp_path: Path, deaf: str) -> None:
    settings = environment(cluster, tmp_path, BALLAST_PROMETHEUS__URL=deaf, BALLAST_PROMETHEUS__TIMEOUT="45s")
    process = Process(tmp_path / "log", settings)
    until(lambda: holder(cluster))
    assert process.terminate() == 0
    assert holder(cluster) == ""
    assert "Traceback" not in process.said


def test_sigterm_while_the_api_server_asks_for_two_minutes_of_patience(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    process = Process(tmp_path / "log", environment(cluster, tmp_path, BALLAST_PUBLISHING__REFRESH="1s"))
    until(lambda: "labels current on 3 of 3 nodes (3 changed" in process.said)
    before = cluster.requests["patch", "nodes"]
    cluster.faults.kube_429(retry_after=120)
    until(lambda: cluster.requests["patch", "nodes"] > before)
    cluster.faults.clear()
    assert process.terminate() == 0
    assert holder(cluster) == ""
    assert "Traceback" not in process.said


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("BALLAST_PROMETHEUS__ULR", "http://x", "did you mean BALLAST_PROMETHEUS__URL"),
        ("BALLAST_WINDOWS__MAX_AGE", "soon", "BALLAST_WINDOWS__MAX_AGE"),
        ("BALLAST_EVICTION__MODE", "perhaps", "BALLAST_EVICTION__MODE"),
        ("BALLAST_CLUSTER__KUBECONFIG", "/nowhere/kubeconfig", "/nowhere/kubeconfig"),
        ("BALLAST_HTTP__PORT", "taken", "BALLAST_HTTP__PORT"),
    ],
)
def test_what_cannot_be_used_ends_with_2_and_names_it(
    cluster: EmbeddedCluster, tmp_path: Path, name: str, value: str, said: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        settings = environment(cluster, tmp_path) | {name: port if value == "taken" else value}
        process = Process(tmp_path / "log", settings)
        assert process.end() == 2
    assert said.lower() in process.said.lower()
    assert "Traceback" not in process.said
