"""An exporter that stops makes its node unknown after MAX_AGE, however long Prometheus goes on answering for it."""

import time
from pathlib import Path

from ballast.settings import load
from ballast.telemetry import presets
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.daemon import FAST, Daemon
from ballast_lab.harness.machines import Machines
from ballast_lab.harness.objects import add_nodes, node
from ballast_lab.harness.prometheus import NodeExporter, Target, prometheus
from ballast_lab.harness.waiting import eventually

MAX_AGE = 6.0
NODES = ["alive-0", "alive-1", "alive-2", "alive-3", "alive-4", "alive-5", "alive-6", "alive-7", "pushed"]


def test_a_node_is_unknown_max_age_after_its_exporter_stopped(cluster: ControlPlane, tmp_path: Path) -> None:
    add_nodes(cluster.api, [node(name) for name in [*NODES, "killed"]])
    queries = presets.queries(load({}))
    exporter = NodeExporter(tmp_path, "killed")
    try:
        with Machines(NODES) as machines:
            machines["pushed"].stamped = True
            targets = [*machines.targets(), Target(exporter.address, "killed")]
            with prometheus(cluster.tools, tmp_path, targets) as server:
                settings = {
                    **FAST,
                    "BALLAST_PROMETHEUS__URL": server.url,
                    "BALLAST_WINDOWS__MAX_AGE": f"{MAX_AGE:g}s",
                    # A window of 10 s with nothing in its last 6 s stays known: only the age ends it.
                    "BALLAST_WINDOWS__MIN_SAMPLES": "2",
                    "BALLAST_WINDOWS__MIN_COVERAGE": "0.2",
                    "BALLAST_PUBLISHING__MAX_UNKNOWN": "0.5",
                }
                with Daemon(cluster, "silent", cluster.admin_kubeconfig, settings) as daemon:
                    for name in ("pushed", "killed"):
                        eventually(f"{name} is labelled", lambda name=name: _score(cluster, name))

                    machines["pushed"].frozen = True
                    exporter.kill()
                    for name in ("pushed", "killed"):
                        assert _age_when_silent(daemon, name) > MAX_AGE
                    assert "pushed" in server.query(queries["memory"], time.time()), "Prometheus answers five minutes"

                    for name in ("pushed", "killed"):
                        eventually(f"{name} has lost its keys", lambda name=name: _is_unknown(cluster, name))
                        assert daemon.get(f"/watcher?host={name}").status_code == 404
                    assert _score(cluster, "alive-0")
                    assert daemon.node("alive-0")["state"] == "known"
    finally:
        exporter.stop()


def _age_when_silent(daemon: Daemon, name: str) -> float:
    """Seconds from the newest sample to the end of the window, when the node is silent for the first time."""
    ages_when_known = []

    def age() -> float | None:
        found = daemon.node(name)
        age = float(min(found["time"] - newest for newest in found["newest"].values()))
        if found["state"] == "silent":
            return age
        if found["state"] == "known":
            ages_when_known.append(age)
        return None

    age_when_silent = eventually(f"{name} is silent", age)
    assert max(ages_when_known, default=0.0) <= MAX_AGE
    return age_when_silent


def _metadata(cluster: ControlPlane, name: str) -> dict[str, dict[str, str]]:
    metadata = cluster.api.get(f"/api/v1/nodes/{name}")["metadata"]
    return {"labels": metadata["labels"], "annotations": metadata.get("annotations", {})}


def _score(cluster: ControlPlane, name: str) -> str | None:
    return _metadata(cluster, name)["labels"].get("ballast.dev/score")


def _is_unknown(cluster: ControlPlane, name: str) -> bool:
    found = _metadata(cluster, name)
    return (
        found["labels"].get("ballast.dev/load") == "unknown"
        and "ballast.dev/score" not in found["labels"]
        and "ballast.dev/window" not in found["annotations"]
    )
