"""A simulated cluster with pods behind the gate."""

from typing import Any

from ballast.runtime.daemon import Daemon
from ballast_lab.harness.waiting import HUNG, until
from tests.worlds.daemons import PLANNER, POD, Rig

GATE = "ballast.dev/batch"
SHOP = "shop"


def pod(name: str, *, cpu: str = "100m", gates: tuple[str, ...] = (GATE,), **spec: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu, "memory": "64Mi"}}
    return {
        "metadata": {"name": name},
        "spec": {
            "containers": [{"name": "main", "image": "none", "resources": resources}],
            "schedulingGates": [{"name": gate} for gate in gates],
            **spec,
        },
    }


def create(calm: Rig, *documents: dict[str, Any]) -> None:
    for each in documents:
        calm.cluster.resources.create(POD, SHOP, each)


def found(calm: Rig, name: str) -> dict[str, Any] | None:
    stored = calm.cluster.store.get(POD, SHOP, name)
    return None if stored is None else stored.read()


def gates(calm: Rig, name: str) -> list[str]:
    each = found(calm, name)
    return [gate["name"] for gate in (each or {"spec": {}})["spec"].get("schedulingGates") or ()]


def batching(calm: Rig, mode: str = "on", *, settled: bool = True, **settings: str) -> Daemon:
    """A daemon that may act on its next cycle of the batch job."""
    quiet = {"PUBLISHING__MODE": "off", "BATCH__GATHER": "0", "BATCH__INTERVAL": "1s", **settings}
    daemon = calm.daemon(BATCH__MODE=mode, **quiet)
    assert daemon.batch is not None
    daemon.batch._planner.worker._command, daemon.batch._planner.worker._deadline = PLANNER, HUNG
    until(lambda: daemon.context.switches.paused("batch") is None, "the switches")
    until(lambda: daemon.context.workloads.wait_synced(HUNG), "the namespaces")
    if settled:
        for _ in range(2):
            cycle(daemon)
    return daemon


def cycle(daemon: Daemon) -> str:
    return daemon.scheduler.run("batch").sentence


def seen(daemon: Daemon, *names: str) -> None:
    """The daemon's watch shows these pods gated."""
    until(lambda: {pod.name for pod in daemon.context.cache.pods_on("") if pod.gated} >= set(names), "the pods")
