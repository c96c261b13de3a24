"""How long an emergency takes on a real control plane, from the samples that show it to the last write."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

from ballast.actuation.scaling.actuators import Actuators
from ballast.actuation.scaling.targets import kinds_of
from ballast.clock import SystemClock
from ballast.cluster.client import connect
from ballast.cluster.emergency import EmergencyWriter
from ballast.cluster.objects.decoding import annotation_filter
from ballast.cluster.pace import Pace
from ballast.cluster.state import StateStore
from ballast.cluster.workload_cache import WorkloadCache
from ballast.cluster.writer import Writer
from ballast.jobs.power.budget import PolicyController, TickContext
from ballast.jobs.power.store import PowerStore
from ballast.metrics import Metrics
from ballast.power.policy import PowerPolicy
from ballast.telemetry.feeds.budget_feed import Watts
from tests.bench.rows import Row, at_most
from tests.cluster.harness.control_plane import ControlPlane
from tests.cluster.harness.tools import Tools
from tests.cluster.harness.waiting import eventually

TICK, SAMPLES, REPLICAS = 15.0, 2, 2
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def measure(targets: int = 500) -> list[Row]:
    """Ticks until the first write, and seconds until the last, of a policy over so many Deployments."""
    at = f"real kube-apiserver, {targets} Deployments, emergencyDrop of {SAMPLES} samples"
    first: Row = {"what": "power: first write of an emergency", "at": at, "reach": "≤ 2 ticks", "measured": ""}
    last: Row = {"what": "power: all writes of an emergency", "at": at, "reach": "≤ 15 s", "measured": ""}
    try:
        tools = Tools.find()
    except RuntimeError as error:
        return [{**row, "measured": f"not measured: {error}"} for row in (first, last)]
    with tempfile.TemporaryDirectory(prefix="ballast-bench-") as folder:
        plane = ControlPlane(tools, Path(folder))
        try:
            ticks, seconds = _measured(plane, targets)
        finally:
            plane.stop()
    return [
        {**first, "measured": f"{ticks} ticks", "verdict": at_most(ticks, 2)},
        {**last, "measured": f"{seconds:.1f} s", "verdict": at_most(seconds, 15)},
    ]


def _measured(plane: ControlPlane, targets: int) -> tuple[int, float]:
    names = [f"d{number:03}" for number in range(targets)]
    for name in names:
        plane.api.post(DEPLOYMENTS, _deployment(name))
    eventually("the pods are there", lambda: _present(plane) == targets * REPLICAS, within=300, every=1.0)
    members = [{"ref": f"default/{name}", "min": 0, "max": REPLICAS} for name in names]
    policy = PowerPolicy.model_validate(
        {"independents": members, "emergencyDrop": {"relative": 0.4, "samples": SAMPLES}}
    )
    with _budget(plane, policy) as budget:
        start, monotonic = Fraction(1_000_000), time.monotonic
        for tick, watts in enumerate((1000, 1000, *[10] * 5)):
            began = monotonic()
            view = budget.cycle(TickContext(start + tick * 15, time.time()), Watts(Fraction(watts)))
            if view.action is not None:
                assert view.action.result == "done", view.action.result
                assert _asked(plane) <= targets
                return tick - 1, monotonic() - began
    raise AssertionError("nothing was done")


@contextmanager
def _budget(plane: ControlPlane, policy: PowerPolicy) -> Iterator[PolicyController]:
    """A policy's whole way from a sample to the writes, with the state written ahead."""
    clock, metrics = SystemClock(), Metrics()
    api = connect(SimpleNamespace(kubeconfig=plane.admin_kubeconfig), metrics)
    keep = annotation_filter("ballast.dev")
    cache = WorkloadCache(api, clock, metrics, kinds_of([policy]), keep_annotation=keep)
    writer = Writer(
        api,
        clock,
        metrics,
        pace=Pace(clock, 20, 40),
        modes={"power": "on"},
        paused=lambda part: None,
        leading=lambda: True,
    )
    cache.start()
    try:
        assert cache.wait_synced(60), cache.problem("deployments")
        actuators = Actuators(api, cache, tuple, writer, EmergencyWriter(writer), clock)
        store = PowerStore(StateStore(api, writer, "default"), policy.name, shadow=False)
        yield PolicyController(policy, actuators, store, shadow=False)
    finally:
        cache.stop()
        api.close()


def _deployment(name: str) -> dict[str, object]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
    spec = {"replicas": REPLICAS, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


def _present(plane: ControlPlane) -> int:
    return sum(each.get("status", {}).get("replicas", 0) for each in plane.api.items(DEPLOYMENTS))


def _asked(plane: ControlPlane) -> int:
    return sum(each["spec"]["replicas"] for each in plane.api.items(DEPLOYMENTS))


if __name__ == "__main__":
    for row in measure():
        print(row)
