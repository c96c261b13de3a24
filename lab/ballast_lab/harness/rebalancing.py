"""The real effect of a plan: predicted by Ballast, carried out by it with the extender, and landed by the stock way."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ballast.publishing.scheduler_profiles import extender_profile
from ballast_lab.harness.api import Json
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.daemon import Daemon
from ballast_lab.harness.evicting import DEPLOYMENTS, deployment, is_ready
from ballast_lab.harness.objects import PODS, add_nodes, node, pod
from ballast_lab.harness.prometheus import Prometheus, prometheus
from ballast_lab.harness.scheduler import STOCK, scheduler
from ballast_lab.harness.waiting import eventually
from ballast_lab.harness.work import Work

GIB = 2.0**30
CORES, MEMORY = 16, 64
RATES = 130.0
"""Seconds until the rates of the presets, which reach two minutes back, tell of a change as a whole."""


@dataclass(frozen=True)
class Size:
    """`moves` pods are moved; `window` and `interval` in seconds. Without `cpu` only memory, which shows at once."""

    nodes: int
    apps: int
    replicas: int
    moves: int
    window: int
    interval: int
    cpu: bool = True

    @property
    def resources(self) -> tuple[str, ...]:
        return ("cpu", "memory") if self.cpu else ("memory",)

    @property
    def settled(self) -> float:
        """Seconds until windows tell of the pods as they are."""
        return self.window + 3 * self.interval + (RATES if self.cpu else 0.0)


@dataclass(frozen=True)
class Found:
    """Shares of the deviation of load that are left, by resource. `measured` is by what Ballast saw in the end,
    `real` by where the pods are; `stock` when the same plan's victims land as they like."""

    predicted: Mapping[str, float]
    real: Mapping[str, float]
    measured: Mapping[str, float]
    stock: Mapping[str, float]
    evicted: int
    on_target: int


def settings(size: Size, mode: str) -> dict[str, str]:
    return {
        "BALLAST_TELEMETRY__INTERVAL": f"{size.interval}s",
        "BALLAST_TELEMETRY__RESOURCES": ",".join(size.resources),
        "BALLAST_WINDOWS__LENGTHS": f"{size.window}s",
        "BALLAST_WINDOWS__MIN_SAMPLES": "2",
        "BALLAST_WINDOWS__MAX_AGE": "60s",
        "BALLAST_PUBLISHING__MODE": "off",
        "BALLAST_POWER__MODE": "off",
        "BALLAST_CLUSTER__QPS": "200",
        "BALLAST_CLUSTER__BURST": "200",
        "BALLAST_EVICTION__MODE": mode,
        "BALLAST_EVICTION__PLANNERS": "rebalance",
        "BALLAST_EVICTION__INTERVAL": f"{2 * size.interval}s",
        "BALLAST_EVICTION__MAX_MOVES": str(size.moves),
        "BALLAST_EVICTION__RATE": f"{4 * size.moves}/1h",
        "BALLAST_EVICTION__HIGH": "0.95",
        "BALLAST_EVICTION__TARGET_HIGH": "0.95",
        "BALLAST_EVICTION__CONFIDENCE": "0",
        "BALLAST_EVICTION__PRICE": "0",
        **{f"BALLAST_EVICTION__LIMIT_{what}": "0" for what in ("TOTAL", "NODE", "NAMESPACE", "WORKLOAD")},
        **{f"BALLAST_EVICTION__{what}": "0s" for what in ("COOLDOWN", "MIN_POD_AGE", "MIN_NODE_AGE")},
        **{f"BALLAST_EVICTION__{what}": "0s" for what in ("QUIET_AFTER_SCALE", "WORKLOAD_WINDOW")},
        "BALLAST_EVICTION__MAX_UNAVAILABLE": "0",
        "BALLAST_LOG__FORMAT": "text",
    }


def uses(size: Size, seed: int) -> dict[str, tuple[float, float]]:
    dice = random.Random(seed)
    return {
        f"app-{number:03d}": (
            min(1.5, 0.2 * dice.lognormvariate(0, 0.9)),
            min(5.0, 0.7 * dice.lognormvariate(0, 0.8)) * GIB,
        )
        for number in range(size.apps)
    }


def settle(server: Prometheus, size: Size) -> None:
    """Waits until windows tell of the pods as they are now: each target was scraped often enough since."""
    began = time.monotonic()

    def scraped() -> bool:
        passed = int(time.monotonic() - began)
        found = server.series(f"count_over_time(up[{passed}s])") if passed else ()
        return bool(found) and all(float(each["value"][1]) >= size.settled / size.interval for each in found)

    eventually("each target was scraped", scraped, every=0.5)


def compare(
    cluster: ControlPlane, folder: Path, size: Size, *, kubeconfig: Path, given: Mapping[str, str], seed: int = 7
) -> Found:
    """`given` are settings of the daemon beside those of the comparison."""
    api, used = cluster.api, uses(size, seed)
    names = add_nodes(
        api, [node(f"n{number:02d}", cpu=str(CORES), memory=f"{MEMORY}Gi") for number in range(size.nodes)]
    )
    pods = size.apps * size.replicas
    with scheduler(cluster, STOCK):
        for app in used:
            api.post(DEPLOYMENTS, deployment(app, size.replicas, cpu="200m", memory="512Mi"))
        _all_ready(cluster, pods)
    with (
        Work(api, names, (CORES, MEMORY * GIB), used, every=size.interval / 2) as work,
        prometheus(cluster.tools, folder, work.targets(), interval=f"{size.interval}s") as server,
    ):
        told = {**given, "BALLAST_PROMETHEUS__URL": server.url}
        settle(server, size)
        before = work.deviations()
        with Daemon(cluster, "plans", kubeconfig, {**told, **settings(size, "dry-run")}) as daemon:
            plan = eventually("a plan", lambda: _plan(daemon, size), every=0.5)
        with scheduler(cluster, STOCK):
            for step in plan["steps"]:
                name = step["pod"].partition("/")[2]
                api.post(f"{PODS}/{name}/eviction", {"metadata": {"name": name, "namespace": "default"}})
            _all_ready(cluster, pods)
        stock = _left(work.deviations(), before)
        settle(server, size)
        before = work.deviations()
        with (
            Daemon(cluster, "acts", kubeconfig, {**told, **settings(size, "on")}) as daemon,
            scheduler(cluster, extender_profile(daemon.url, "default-scheduler", filtering=True), patient=True),
        ):
            eventually("it knows the nodes", lambda: _known(daemon, size.nodes), every=0.5)
            api.post(PODS, pod("asks", cpu="1m", memory="1Mi"))
            plan = eventually("a plan", lambda: _plan(daemon, size), every=0.5)
            eventually("all are Ready", lambda: _recent(daemon, size, "ready"), every=0.5)
            real = _left(work.deviations(), before)
            rows = eventually("the effect is measured", lambda: _measured(daemon, size), every=1)
    return Found(
        predicted=_left(plan["after"], plan["before"]),
        real=_of(real, size),
        measured=_left(rows[0]["measured"]["after"], rows[0]["measured"]["before"]),
        stock=_of(stock, size),
        evicted=len(rows),
        on_target=sum(row["to"] == row["landed_on"] for row in rows),
    )


def _all_ready(cluster: ControlPlane, count: int) -> None:
    def all_ready() -> bool:
        found = [each for each in cluster.api.items(PODS) if (each["metadata"].get("labels") or {}).get("app")]
        settled = [each for each in found if "deletionTimestamp" not in each["metadata"] and is_ready(each)]
        return len(found) == len(settled) == count

    eventually(f"{count} pods are Ready", all_ready, every=1)


def _known(daemon: Daemon, nodes: int) -> bool:
    values = {name: value for name, _, value in daemon.samples()}
    found = sum(value for name, _, value in daemon.samples() if name == "ballast_nodes")
    return found == nodes and values.get("ballast_nodes_unknown") == 0


def _plan(daemon: Daemon, size: Size) -> Json:
    """The first that moves as many as it may."""
    plans: list[Json] = daemon.get("/api/v1/plans").json()
    return next((plan for plan in reversed(plans) if len(plan["steps"]) >= size.moves), {})


def _recent(daemon: Daemon, size: Size, status: str) -> list[Json]:
    """Evictions that happened, once there are as many as may be and all have this status."""
    recent = daemon.get("/api/v1/evictions").json()["recent"]
    rows = [row for row in recent if row["status"] not in ("refused", "failed")]
    return rows if len(rows) >= size.moves and all(row["status"] == status for row in rows) else []


def _measured(daemon: Daemon, size: Size) -> list[Json]:
    rows = _recent(daemon, size, "ready")
    return rows if all("after" in row["measured"] for row in rows) else []


def _left(after: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(after[name]) / float(before[name]) for name in after if before.get(name)}


def _of(shares: Mapping[str, float], size: Size) -> dict[str, float]:
    return {name: shares[name] for name in size.resources}
