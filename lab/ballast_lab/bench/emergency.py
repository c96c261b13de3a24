"""How long a fall takes on a real control plane, from the samples that show it to the last write."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

from ballast.actuation.scaling.actuators import Actuators
from ballast.actuation.scaling.targets import kinds_of
from ballast.base.clock import SystemClock
from ballast.base.metrics import Metrics
from ballast.cluster.client import connect
from ballast.cluster.objects.decoding import annotation_filter
from ballast.cluster.state import StateStore
from ballast.cluster.workload_cache import WorkloadCache
from ballast.cluster.writer import EmergencyWriter, Pace, Writer
from ballast.jobs.power.budget import PolicyController
from ballast.jobs.power.store import PowerStore
from ballast.jobs.power.tick_report import TickContext
from ballast.power.policy import PowerPolicy
from ballast.telemetry.feeds.budget_feed import Watts
from ballast_lab.bench.rows import Row, at_most
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.tools import Tools
from ballast_lab.harness.waiting import eventually

TICK, SAMPLES, REPLICAS = 15.0, 2, 2
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


@dataclass(frozen=True)
class Fall:
    """A policy's keys, the watts of 500 targets before and after, and how fast it has to be."""

    name: str
    how: str
    member: dict[str, object]
    keys: dict[str, object]
    watts: tuple[int, int]
    ticks: int
    seconds: float

    def rows(self, targets: int, told: tuple[str, str], verdicts: tuple[str, str] | None = None) -> list[Row]:
        """The rows of the first and the last write."""
        at = f"real kube-apiserver, {targets} Deployments, {self.how}"
        reach = (f"≤ {self.ticks} tick" + "s" * (self.ticks > 1), f"≤ {self.seconds:g} s")
        found: list[Row] = []
        for index, what in enumerate((f"power: first write of {self.name}", f"power: all writes of {self.name}")):
            row: Row = {"what": what, "at": at, "reach": reach[index], "measured": told[index]}
            found.append({**row, "verdict": verdicts[index]} if verdicts is not None else row)
        return found


EMERGENCY = Fall(
    "an emergency",
    f"emergencyDrop of {SAMPLES} samples",
    {},
    {"emergencyDrop": {"relative": 0.4, "samples": SAMPLES}},
    (1000, 10),
    2,
    15,
)
ABSOLUTE = Fall(
    "a fall", "absolute budget, half of the watts gone", {"wattsPerReplica": 20}, {"margin": 0}, (20_000, 10_000), 1, 10
)


def measure(targets: int = 500, falls: Sequence[Fall] = (EMERGENCY, ABSOLUTE)) -> list[Row]:
    """Ticks until the first write, and seconds until the last, of policies over so many Deployments."""
    try:
        tools = Tools.find()
    except RuntimeError as error:
        return [row for fall in falls for row in fall.rows(targets, (f"not measured: {error}",) * 2)]
    found = []
    for fall in falls:
        with tempfile.TemporaryDirectory(prefix="ballast-bench-") as folder:
            plane = ControlPlane(tools, Path(folder))
            try:
                ticks, seconds = _measured(plane, targets, fall)
            finally:
                plane.stop()
        told = f"{ticks} tick" + "s" * (ticks > 1), f"{seconds:.1f} s"
        found += fall.rows(targets, told, (at_most(ticks, fall.ticks), at_most(seconds, fall.seconds)))
    return found


def _measured(plane: ControlPlane, targets: int, fall: Fall) -> tuple[int, float]:
    names = [f"d{number:03}" for number in range(targets)]
    for name in names:
        plane.api.post(DEPLOYMENTS, _deployment(name))
    eventually("the pods are there", lambda: _present(plane) == targets * REPLICAS, every=1.0)
    members = [{"ref": f"default/{name}", "min": 0, "max": REPLICAS, **fall.member} for name in names]
    policy = PowerPolicy.model_validate({"independents": members, **fall.keys})
    before, after = (watts * targets // 500 for watts in fall.watts)
    with _budget(plane, policy) as budget:
        start, monotonic = Fraction(1_000_000), time.monotonic
        for tick, watts in enumerate((before, before, *[after] * 5)):
            began = monotonic()
            at = start + tick * 15
            view = budget.cycle(TickContext(at, time.time()), Watts(Fraction(watts), float(at)))
            if view.outcome.action is not None:
                took = monotonic() - began
                assert view.outcome.action.result == "done", view.outcome.action.result
                assert len(view.outcome.action.changes) == targets
                assert _asked(plane) <= targets
                return tick - 1, took
    raise AssertionError("nothing was done")


@contextmanager
def _budget(plane: ControlPlane, policy: PowerPolicy) -> Iterator[PolicyController]:
    """A policy's whole way from a sample to the writes, with the state written ahead."""
    clock, metrics = SystemClock(), Metrics()
    api = connect(SimpleNamespace(kubeconfig=plane.admin_kubeconfig, context=None), metrics)
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
