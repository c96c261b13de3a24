"""A burst of pods on nodes whose real load does not follow, beside a daemon that knows it."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.daemon import Daemon
from ballast_lab.harness.machines import Machines
from ballast_lab.harness.objects import PODS, placements, pod
from ballast_lab.harness.prometheus import Prometheus, prometheus
from ballast_lab.harness.waiting import eventually

CORES, REQUEST = 16, 0.5
REFRESH = 20
"""Seconds between refreshes, where a test does not say otherwise."""


def slowly(refresh: int = REFRESH) -> dict[str, str]:
    """Settings by which the daemon reads the nodes' load only every `refresh` seconds."""
    return {
        "BALLAST_TELEMETRY__INTERVAL": f"{refresh}s",
        "BALLAST_WINDOWS__LENGTHS": f"{refresh}s",
        "BALLAST_WINDOWS__MIN_SAMPLES": "1",
        "BALLAST_WINDOWS__MIN_COVERAGE": "0.1",
        "BALLAST_WINDOWS__MAX_AGE": f"{3 * refresh}s",
        "BALLAST_PUBLISHING__MODE": "off",
        "BALLAST_LOG__FORMAT": "text",
    }


@contextmanager
def knowing(
    plane: ControlPlane,
    folder: Path,
    loads: Mapping[str, float],
    settings: Mapping[str, str] | None = None,
    kubeconfig: Path | None = None,
    refresh: int = REFRESH,
) -> Iterator[Daemon]:
    """A daemon that knows these loads of cpu and memory; the administrator's, where no account is given."""
    with Machines(loads) as machines:
        for name, load in loads.items():
            machines[name].cpu = machines[name].memory = load
        own = Path(tempfile.mkdtemp(dir=folder))
        with prometheus(plane.tools, own, machines.targets(), interval=f"{1 + len(loads) // 40}s") as server:
            eventually("Prometheus knows every node", lambda: _rates(server, len(loads), refresh), every=0.5)
            given = {**slowly(refresh), **(settings or {}), "BALLAST_PROMETHEUS__URL": server.url}
            with Daemon(plane, "extender", kubeconfig or plane.kubeconfig("admin"), given) as daemon:
                eventually("Ballast knows every node", lambda: _known(daemon, len(loads)), every=0.5)
                yield daemon


def refreshed(refresh: int = REFRESH) -> bool:
    """The next refresh is far enough for a burst: these machines' load does not follow the pods."""
    return 0.5 < time.time() % refresh < REFRESH / 2


def burst(plane: ControlPlane, count: int) -> dict[str, str]:
    """{pod: node}."""
    names = [f"p{number}" for number in range(count)]
    for name in names:
        plane.api.post(PODS, pod(name, cpu=f"{int(REQUEST * 1000)}m", memory="1Gi"))
    return placements(plane.api, names)


def judge(loads: Mapping[str, float], placed: Mapping[str, str]) -> tuple[int, float]:
    """(pods on the busiest node, sd of the load after)."""
    count = Counter(placed.values())
    return max(count.values()), statistics.pstdev(load + count[name] * REQUEST / CORES for name, load in loads.items())


def _rates(server: Prometheus, nodes: int, refresh: int) -> bool:
    """At the time of the first cycle to come: one that knows nothing would freeze the answers for two more."""
    at = time.time() // refresh * refresh
    return len(server.query('rate(node_cpu_seconds_total{mode="idle"}[1m])', at)) == nodes


def _known(daemon: Daemon, nodes: int) -> bool:
    values = {name: value for name, _, value in daemon.samples()}
    values["ballast_nodes"] = sum(value for name, _, value in daemon.samples() if name == "ballast_nodes")
    wanted = {"ballast_nodes": nodes, "ballast_nodes_unknown": 0, "ballast_frozen": 0}
    return all(values.get(name) == value for name, value in wanted.items())
