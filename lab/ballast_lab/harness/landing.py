"""The same kind of world for each way: where evicted pods land by the stock scheduler, by a taint, by the extender."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ballast.publishing.scheduler_profiles import extender_profile
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.daemon import Daemon
from ballast_lab.harness.evicting import DEPLOYMENTS, clear, deployment, forget
from ballast_lab.harness.objects import PODS, add_nodes, node, pod
from ballast_lab.harness.prometheus import prometheus
from ballast_lab.harness.rebalancing import (
    CORES,
    GIB,
    MEMORY,
    Size,
    _all_ready,
    _known,
    _plan,
    _recent,
    settings,
    settle,
    uses,
)
from ballast_lab.harness.scheduler import STOCK, scheduler
from ballast_lab.harness.waiting import eventually
from ballast_lab.harness.work import Placed, Work


class Left(NamedTuple):
    """Shares of the deviation of memory load that are left after a plan: in fact, if each pod had landed on the node of
    the lowest load, and on average if they had landed anywhere."""

    real: float
    lowest: float
    anywhere: float


def left(
    cluster: ControlPlane, folder: Path, size: Size, way: str, *, kubeconfig: Path, given: Mapping[str, str]
) -> Left:
    """After a plan whose pods land by stock, taint or extender."""
    forget(cluster.api, given["POD_NAMESPACE"])
    with _world(cluster, folder, size) as (work, told):
        before = work.placed()
        variables = {**given, **told, **settings(size, "dry-run" if way == "stock" else "on")}
        variables["BALLAST_EVICTION__LANDING"] = "taint" if way == "taint" else "extender"
        with Daemon(cluster, way, kubeconfig, variables) as daemon:
            profile = extender_profile(daemon.url, "default-scheduler") if way == "extender" else STOCK
            with scheduler(cluster, profile, patient=True):
                eventually("it knows the nodes", lambda: _known(daemon, size.nodes), every=0.5)
                cluster.api.post(PODS, pod("asks", cpu="1m", memory="1Mi"))
                if way == "stock":
                    steps = eventually("a plan", lambda: _plan(daemon, size), every=0.5)["steps"]
                    for step in steps:
                        name = step["pod"].partition("/")[2]
                        body = {"metadata": {"name": name, "namespace": "default"}}
                        cluster.api.post(f"{PODS}/{name}/eviction", body)
                    _all_ready(cluster, size.apps * size.replicas)
                else:
                    steps = eventually("all are Ready", lambda: _recent(daemon, size, "ready"), every=0.5)
                if way == "taint":
                    eventually("no taint is left", lambda: not tainted(cluster), every=0.5)
        return _shares(before, work.placed(), [step["pod"].partition("/")[2] for step in steps])


def _shares(before: Mapping[str, Placed], after: Mapping[str, Placed], evicted: Sequence[str]) -> Left:
    dice, nodes = random.Random(7), sorted({pod.node for pod in before.values()})
    stayed = dict.fromkeys(nodes, 0.0)
    for name, (node_name, memory) in before.items():
        stayed[node_name] += memory * (name not in evicted)
    uses = sorted((before[name].memory for name in evicted), reverse=True)

    def share(chosen: Callable[[Mapping[str, float]], str]) -> float:
        loads = dict(stayed)
        for memory in uses:
            loads[chosen(loads)] += memory
        return statistics.pstdev(loads.values()) / deviation(before)

    def deviation(pods: Mapping[str, Placed]) -> float:
        loads = dict.fromkeys(nodes, 0.0)
        for node_name, memory in pods.values():
            loads[node_name] += memory
        return statistics.pstdev(loads.values())

    anywhere = statistics.mean(share(lambda loads: dice.choice(nodes)) for _ in range(500))
    return Left(deviation(after) / deviation(before), share(lambda loads: min(nodes, key=loads.__getitem__)), anywhere)


def tainted(cluster: ControlPlane) -> list[str]:
    """The nodes that pods are kept off."""
    return [
        each["metadata"]["name"]
        for each in cluster.api.items("/api/v1/nodes")
        if any(
            taint["key"] in ("ballast.dev/leaving", "ballast.dev/loaded") for taint in each["spec"].get("taints") or ()
        )
    ]


@contextmanager
def _world(cluster: ControlPlane, folder: Path, size: Size, seed: int = 7) -> Iterator[tuple[Work, dict[str, str]]]:
    api, used = cluster.api, uses(size, seed)
    names = add_nodes(
        api, [node(f"n{number:02d}", cpu=str(CORES), memory=f"{MEMORY}Gi") for number in range(size.nodes)]
    )
    with scheduler(cluster, STOCK):
        for app in used:
            api.post(DEPLOYMENTS, deployment(app, size.replicas, cpu="200m", memory="512Mi"))
        _all_ready(cluster, size.apps * size.replicas)
    with (
        Work(api, names, (CORES, MEMORY * GIB), used, every=size.interval / 2) as work,
        prometheus(cluster.tools, folder, work.targets(), interval=f"{size.interval}s") as server,
    ):
        settle(server, size)
        try:
            yield work, {"BALLAST_PROMETHEUS__URL": server.url}
        finally:
            clear(api)
            api.delete(PODS, {"gracePeriodSeconds": 0})
            eventually("no pods are left", lambda: not api.items(PODS), every=0.2)
