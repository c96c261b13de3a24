"""What a tick of a power budget costs, and an allocation."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import msgspec

from ballast.actuation.scaling.actuators import Actuators
from ballast.actuation.scaling.targets import kinds_of
from ballast.base import log
from ballast.base.clock import Clock, SystemClock
from ballast.base.metrics import Metrics
from ballast.cluster.conditions import Conditions
from ballast.cluster.events import Events
from ballast.cluster.lease import AlwaysLeader
from ballast.cluster.objects.decoding import annotation_filter
from ballast.cluster.workload_cache import WorkloadCache, reader
from ballast.cluster.writer import EmergencyWriter, Pace, Writer
from ballast.jobs.power.budget import PolicyController
from ballast.jobs.power.policy_conditions import PowerEvents
from ballast.jobs.power.power_job import PolicyRun, PowerJob
from ballast.jobs.power.store import PowerStore
from ballast.jobs.power.tick_report import TickContext
from ballast.model.stamps import Stamps
from ballast.power.allocation import AllocationTarget, allocate
from ballast.power.controller import observe
from ballast.power.controller_state import ControllerState, Reason, Sample
from ballast.power.policy import PowerPolicy
from ballast.power.policy_reader import read
from ballast.settings import load
from ballast.telemetry.feeds.budget_feed import Watts
from ballast_lab.bench import clouds, emergency
from ballast_lab.bench.rows import Row, at_most
from tests.worlds.clock import FakeClock

TARGETS = 500
REPLICAS = 10_000
ROUNDS = 30
LATENCY = 0.2
"""Seconds."""
QUICK = {"emergency_targets": 50}


def measure(emergency_targets: int = TARGETS) -> list[Row]:
    """CPU milliseconds of ticks that wait and that act, and of allocations that redistribute; how long an emergency
    takes."""
    rows = [*_ticks(), *_absolute_ticks(), *_jobs(), *_allocations(), *_clouds(), *_slow_fall()]
    return [*rows, *emergency.measure(emergency_targets)]


def _ticks() -> list[Row]:
    policy = _policy()
    counts = {name: place.member.start for name, place in policy.places.items()}
    steady = observe(policy, ControllerState(), Sample.of(0, 10_000.0), counts).state
    waiting = observe(policy, steady, Sample.of(15, 7_000.0), counts).state
    found = []
    for what, state, sample in (
        ("tick inside the dead band", steady, Sample.of(15, 10_100.0)),
        ("tick with an open window", waiting, Sample.of(30, 7_000.0)),
        ("tick that acts: level, allocation, plan", waiting, Sample.of(300, 7_000.0)),
    ):
        spent = _spent(lambda: observe(policy, state, sample, counts))  # noqa: B023
        found.append(_row(what, f"{TARGETS} targets", spent, 5))
    acted = observe(policy, waiting, Sample.of(300, 7_000.0), counts).state
    found.append(
        _row(
            "state written ahead and read back",
            f"{TARGETS} targets",
            _spent(lambda: ControllerState.load(acted.dump())),
            5,
        )
    )
    assert acted.committed().reference == 7_000
    return found


def _absolute_ticks() -> list[Row]:
    """Ticks of an absolute budget that hold, shed and fill, with one kind of watts, and with as many as targets."""
    found = []
    for mixed in (False, True):
        policy = _policy(mixed=mixed, increase={"window": 0})
        counts = dict.fromkeys(policy.places, 20)
        load = float(policy.drawn(counts)) / 0.98
        steady = observe(policy, ControllerState(), Sample.of(0, 1.01 * load), counts).state
        at = f"{TARGETS} targets, absolute, {'mixed' if mixed else 'equal'} watts"
        for what, part, reason in (
            ("tick that holds", 1.012, Reason.INSIDE),
            ("tick that sheds", 0.6, Reason.SCALED_DOWN),
            ("tick that fills", 1.5, Reason.SCALED_UP),
        ):
            sample = Sample.of(15, part * load)
            assert observe(policy, steady, sample, counts).reason is reason
            found.append(_row(what, at, _spent(lambda: observe(policy, steady, sample, counts)), 5))  # noqa: B023
    return found


def _clouds() -> list[Row]:
    """Twelve hours of sun with clouds, 100 replicas of 50 W, three seeds, the worst of them."""
    runs = [clouds.lived(seed) for seed in (1, 2, 3)]
    found = (
        ("time over the feed", "%", 1.0, max(100 * float(run.over.share) for run in runs)),
        ("energy beyond the feed", "kWh", 0.02, max(float(run.over.watt_hours) / 1000 for run in runs)),
        ("replicas left unused", "", 4.0, max(float(run.unused) / clouds.EACH / clouds.CLOUD_HOURS for run in runs)),
        ("actions", "", 450.0, float(max(run.actions for run in runs))),
    )
    return [
        {
            "what": f"power: a cloudy day, {what}",
            "at": "12 h, 100 replicas, absolute, the worst of 3 seeds",
            "reach": f"≤ {limit:g} {unit}".strip(),
            "measured": f"{value:.3g} {unit}".strip(),
            "verdict": at_most(value, limit),
        }
        for what, unit, limit, value in found
    ]


def _jobs() -> list[Row]:
    mixed = _policy(mixed=True)
    feed = mixed.drawn(dict.fromkeys(mixed.places, 40)) / Fraction(98, 100)
    what, at = "whole cycle of the job, nothing has changed", f"{TARGETS} Deployments"
    return [
        _row(what, at, _job(_policy(), Fraction(10_000)), 5),
        _row(what, f"{at}, absolute, mixed watts", _job(mixed, feed), 5),
    ]


def _job(policy: PowerPolicy, feed: Fraction) -> list[float]:
    """From what the watches hold to metrics, conditions and the document of the API; the feed answers at once."""
    clock, metrics, api = FakeClock(), Metrics(), SimpleNamespace()
    cache, actuators = _actuators(policy, api, clock)
    store = PowerStore(Kept(), policy.name, shadow=False)  # type: ignore[arg-type]
    context: Any = SimpleNamespace(
        settings=load({"BALLAST_POWER__MODE": "on", "BALLAST_TELEMETRY__INTERVAL": "15s"}),
        clock=clock,
        metrics=metrics,
        conditions=Conditions(clock, metrics),
        leadership=AlwaysLeader(metrics),
        switches=SimpleNamespace(paused=lambda part: None, values={}),
        ledger=SimpleNamespace(add=lambda *_: None),
    )
    context.leadership.start()
    run = PolicyRun(PolicyController(policy, actuators, store, shadow=False), Steady(feed))
    events = Events(api, clock, metrics, instance="bench")  # type: ignore[arg-type]
    job = PowerJob(context, [run], PowerEvents(events, "ballast"), lambda document: None)

    def tick() -> None:
        clock.advance(15)
        _beat(cache)
        job.cycle()

    job.gained()
    for _ in range(4):
        tick()
    spent = _spent(tick)
    assert job.runs[0].report is not None
    assert job.runs[0].report.outcome.action is None
    assert job.runs[0].report.reason == Reason.INSIDE
    return spent


def _actuators(policy: PowerPolicy, api: Any, clock: Clock) -> tuple[WorkloadCache, Actuators]:
    """The targets of the policy as the watches hold them, and what changes them."""
    metrics, keep = Metrics(), annotation_filter("ballast.dev")
    cache = WorkloadCache(api, clock, metrics, kinds_of([policy]), keep_annotation=keep)
    for kind, objects in _objects(policy).items():
        cache._held[kind].replace([reader(kind, keep).read(msgspec.json.encode(each)) for each in objects])
    writer = Writer(
        api,
        clock,
        metrics,
        pace=Pace(clock, 20, 40),
        modes={"power": "on"},
        paused=lambda part: None,
        leading=lambda: True,
    )
    return cache, Actuators(api, cache, tuple, writer, EmergencyWriter(writer), clock)


def _beat(cache: WorkloadCache) -> None:
    for watch in cache._watches.values():
        watch._synced.set()
        watch._beat()


class SlowApi:
    """An API server that takes LATENCY for each write."""

    def __init__(self) -> None:
        self.done: list[tuple[float, str]] = []

    def request(self, method: str, path: str, **_: object) -> bytes:
        time.sleep(LATENCY)
        self.done.append((time.monotonic(), path))
        return b""


def _slow_fall() -> list[Row]:
    """A fall that changes all targets: when the first tenth by priority, and all of them, are written."""
    members = [
        {"ref": f"ns/t{index:03}", "min": 0, "max": 40, "wattsPerReplica": 20, "priority": index * 7919 % TARGETS}
        for index in range(TARGETS)
    ]
    policy, api = read([{"independents": members, "confirm": {"below": 0.0001}}])[0], SlowApi()
    log.configure("warning")
    cache, actuators = _actuators(policy, api, SystemClock())
    budget = PolicyController(policy, actuators, PowerStore(Kept(), "power", shadow=False), shadow=False)  # type: ignore[arg-type]
    began = 0.0
    for tick, watts in enumerate((500_000, 500_000, 0)):
        _beat(cache)
        began = time.monotonic()
        budget.cycle(TickContext(Fraction(15 * tick), time.time()), Watts(Fraction(watts), float(tick)))
    first = {f"/{member['ref'][3:]}/" for member in members if member["priority"] < TARGETS // 10}
    assert len(api.done) == TARGETS
    tenth = max(at for at, path in api.done if any(name in path for name in first)) - began
    last = max(at for at, _ in api.done) - began
    at = f"{TARGETS} targets, {LATENCY} s a write, simulated"
    return [
        {
            "what": f"power: {what} of a fall",
            "at": at,
            "reach": f"≤ {reach} s",
            "measured": f"{seconds:.2f} s",
            "verdict": at_most(seconds, reach),
        }
        for what, seconds, reach in (("the first tenth by priority", tenth, 1.0), ("all writes", last, 10.0))
    ]


def _objects(policy: PowerPolicy) -> dict[str, list[dict[str, object]]]:
    return {"namespaces": [{"metadata": {"name": "ns"}}], "deployments": [_deployment(name) for name in policy.places]}


def _deployment(ref: str) -> dict[str, object]:
    labels, replicas = {"app": ref[3:]}, 40
    meta = {"name": ref[3:], "namespace": "ns", "uid": ref, "resourceVersion": "1", "generation": 1}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}
    status = {"observedGeneration": 1, "replicas": replicas, "readyReplicas": replicas, "updatedReplicas": replicas}
    return {"metadata": meta, "spec": spec, "status": status}


class Steady:
    """A feed that never moves."""

    semantics = "available"

    def __init__(self, watts: Fraction) -> None:
        self.watts = watts

    def read(self, at: float, own: Fraction | None = None) -> Watts:
        return Watts(self.watts, at)

    def close(self) -> None:
        pass


class Kept:
    """`ballast-state` in memory."""

    def __init__(self) -> None:
        self.data: dict[str, str] = {}

    def read(self) -> dict[str, str]:
        return dict(self.data)

    def stamps(self, key: str) -> Stamps:
        return Stamps()

    def begin_anew(self, key: str, text: str, error: Exception) -> None:
        """Nobody reads what it was."""

    def update(self, change: Callable[[dict[str, str]], Mapping[str, str]], *, reason: str) -> SimpleNamespace:
        self.data = dict(change(dict(self.data)))
        return SimpleNamespace(done=True)


def _allocations() -> list[Row]:
    dice = random.Random(1)
    targets = [
        AllocationTarget(
            f"ns/t{index:03}",
            current=40,
            minimum=1,
            maximum=dice.randint(41, 90),
            group=f"g{index % 50}" if index % 2 else None,
            weight=Fraction(dice.randint(1, 99), 10),
            baseline=dice.randint(20, 60),
        )
        for index in range(TARGETS)
    ]
    down = _spent(lambda: allocate(targets, -REPLICAS))
    up = _spent(lambda: allocate(targets, REPLICAS))
    where = f"{REPLICAS:,} replicas over {TARGETS} targets, half of them in groups"
    return [_row("allocation on the way down", where, down, 50), _row("allocation on the way up", where, up, 50)]


def _policy(mixed: bool | None = None, **keys: Any) -> PowerPolicy:
    """Without watts of replicas, or with 20 W, or with others for each member."""
    dice = random.Random(1)
    members: list[dict[str, Any]] = [
        {"ref": f"ns/t{index:03}", "max": 40, "weight": 1 + index % 7} for index in range(TARGETS)
    ]
    if mixed is not None:
        for member in members:
            member["wattsPerReplica"] = round(dice.uniform(5, 300), 2) if mixed else 20
    groups = [{"name": f"g{index}", "members": members[index::50][5:]} for index in range(50)]
    alone = [member for index in range(50) for member in members[index::50][:5]]
    return read([{"groups": groups, "independents": alone, **keys}])[0]


def _row(what: str, where: str, spent: list[float], limit: float) -> Row:
    """The least of all rounds counts, since other work on the machine adds to it; the median stands beside it."""
    least = min(spent)
    return {
        "what": f"power: {what}",
        "at": where,
        "reach": f"≤ {limit:g} ms CPU",
        "measured": f"{least:.2f} ms CPU, median {statistics.median(spent):.2f}",
        "verdict": at_most(least, limit),
    }


def _spent(work: Callable[[], object]) -> list[float]:
    """CPU milliseconds of each round."""
    work()
    spent = []
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        spent.append((time.process_time() - start) * 1e3)
    return spent
