"""One recording in two worlds: the real daemon in the embedded cluster, and its rehearsal, minute by minute.

Each pod has a load of its own, which it takes along to wherever its workload starts it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ballast.base.clock import Clock
from ballast.cli.live import read_objects
from ballast.model.sample import Floats, Ints
from ballast.runtime.daemon import Daemon
from ballast.settings import Settings, load
from ballast_lab.harness.waiting import until
from ballast_lab.rehearse import tables
from ballast_lab.rehearse.ballast_run import BallastRun
from ballast_lab.rehearse.course import Course
from ballast_lab.rehearse.history import CLUSTER_FILE, RESOURCES
from ballast_lab.rehearse.recording import HEAD_FILE, NODE_USAGE, POD_USAGE, Head, open_recording
from ballast_lab.simulator import World
from ballast_lab.simulator.objects import GIB
from ballast_lab.simulator.usage import Usage
from ballast_lab.simulator.world import SHAPES
from tests.worlds.daemons import Rig, rig

KNOT, STEP, HOUR = 300.0, 30.0, 3600.0
WARM = 310
"""Cycles of telemetry before the first of evictions: so long both are until they know how much loads vary."""
Key = tuple[str, str]
Drawn = Callable[[int, np.random.Generator], Floats]
"""[pod, five minutes]: the load of so many pods, in any unit."""


class TracedWorld(World):
    """Nodes alike, whose load is that of their pods; `mean` is that of cpu, over all time."""

    def __init__(
        self, nodes: int, seed: int, clock: Clock, *, scene: str, each: int, mean: float, drawn: Drawn
    ) -> None:
        super().__init__(nodes, seed, clock, pods=nodes * each, scene=scene)
        shape, every, pods = SHAPES[2], np.ones(nodes), nodes * each
        self.shapes = [shape] * nodes
        self.usage = Usage(
            self._generator, shape.cores * every, shape.gib * GIB * every, shape.link * every, breathing=False
        )
        self.workloads = [replace(each, autoscaled=False) for each in self._make_workloads(pods)]
        generator = np.random.default_rng(seed + 100)
        loads = drawn(pods, generator)
        self._cores = loads * mean * self.usage.cores.sum() / loads.mean(axis=1).sum()
        memory = generator.lognormal(0, 0.4, pods)
        self._memory = memory * 0.45 * self.usage.memory.sum() / memory.sum()
        self._slots: dict[Key, int] = {}
        self._free: dict[Key, list[int]] = {}
        self._names: set[Key] = set()
        self._born: dict[Key, float] = {}

    def slots(self, keys: Sequence[Key]) -> Ints:
        """[pod]: which load each of these pods has, -1 for one that has not taken over any."""
        if not self._slots:
            self._slots = {key: slot for slot, key in enumerate(sorted(self.members))}
            self._names = set(self._slots)
        for key in sorted(self._slots.keys() - self.members.keys()):
            self._free.setdefault(workload_of(key), []).append(self._slots.pop(key))
        for key in sorted(self.members.keys() - self._slots.keys()):
            if free := self._free.get(workload_of(key)):
                self._slots[key] = free.pop(0)
                if key not in self._names:
                    self._born[key] = self.clock.wall()
        self._names |= self._slots.keys()
        return np.array([self._slots.get(key, -1) for key in keys], int)

    def use_of_pods(self, resource: str, keys: Sequence[Key], times: Floats) -> Floats:
        """[pod, time]"""
        if resource not in RESOURCES or not len(keys):
            return super().use_of_pods(resource, keys, times)
        with self.lock:
            slots = self.slots(keys)
            used = np.zeros((len(keys), len(times)))
            mine, there = slots >= 0, slots[slots >= 0]
            if resource == "memory":
                used[mine] = self._memory[there][:, None]
            else:
                at = np.maximum(0.0, (np.asarray(times, float) - self.start) / KNOT + HOUR / KNOT)
                low, count = at.astype(int) % self._cores.shape[1], self._cores.shape[1]
                part, cores = at - at.astype(int), self._cores[there]
                used[mine] = (1 - part) * cores[:, low] + part * cores[:, (low + 1) % count]
            born = np.array([self._born.get(key, -np.inf) for key in keys])
            return np.where(np.asarray(times) < born[:, None], np.nan, used)

    def ratio(self, resource: str, times: Floats | Sequence[float]) -> Floats:
        """[node, time]"""
        if resource not in RESOURCES:
            return super().ratio(resource, times)
        return np.clip(np.round(self.used(resource, times) / self.whole(resource)[:, None], 6), 0.0, 1.0)

    def whole(self, resource: str) -> Floats:
        """[node]"""
        return self.usage.cores if resource == "cpu" else self.usage.memory

    def used(self, resource: str, times: Floats | Sequence[float]) -> Floats:
        """[node, time]: cores or bytes."""
        times = np.asarray(times, float)
        with self.lock:
            keys = [key for key, member in self.members.items() if member.running]
            homes = np.array([self.members[key].node for key in keys], int)
            total = np.zeros((len(self.node_names), len(times)))
            np.add.at(total, homes, np.nan_to_num(self.use_of_pods(resource, keys, times)))
            return total


def workload_of(key: Key) -> Key:
    """By the names that controllers give to pods."""
    parts = key[1].split("-")
    return key[0], "-".join(parts[:-2] if len(parts) > 2 else parts[:-1])


@dataclass
class Minute:
    """What one cycle of the job decided. A move is (workload, from, to, planner)."""

    plans: list[tuple[Any, ...]] = field(default_factory=list)
    moves: list[tuple[str, str, str, str]] = field(default_factory=list)
    refused: Mapping[str, int] = field(default_factory=dict)
    conditions: Mapping[str, str] = field(default_factory=dict)
    sentence: str = ""


@dataclass
class TwoWorlds:
    """What happened, and what was foretold, by the minute."""

    happened: list[Minute]
    foretold: list[Minute]

    def difference(self) -> str | None:
        """The first one, in words; None where there is none."""
        for number, (real, played) in enumerate(zip(self.happened, self.foretold, strict=True)):
            for part in ("plans", "moves", "refused", "conditions"):
                ours, theirs = getattr(played, part), getattr(real, part)
                if ours != theirs:
                    said = f"{real.sentence}\nrehearsal: {played.sentence}"
                    return f"minute {number}, {part}\ndaemon:    {theirs}\nrehearsal: {ours}\ndaemon:    {said}"
        return None


def compare(folder: Path, minutes: int, settings: Mapping[str, str], **world: Any) -> TwoWorlds:
    """The same hours in both worlds. `settings` are BALLAST_ variables without that prefix."""

    options = {name: value for name, value in world.items() if name not in ("nodes", "seed")}

    def traced(nodes: int, seed: int, clock: Clock, scene: str = "calm") -> World:
        return TracedWorld(nodes, world.get("seed", seed), clock, scene=scene, **options)

    folder.mkdir(parents=True, exist_ok=True)
    with rig(folder, nodes=world["nodes"], world=traced) as one:
        pods = world["nodes"] * world["each"]
        until(lambda: sum(member.running for member in one.world.members.values()) >= pods, "all pods run")
        first = one.clock.wall() // STEP * STEP
        begin = first + (WARM + 1) * STEP
        recorded = write_recording(one, folder / "recording", first, begin + (minutes + 1) * 60)
        chosen = {"EVICTION__MODE": "on", "PUBLISHING__MODE": "off", "LOG__LEVEL": "error", **settings}
        happened = happen(one, minutes, chosen)
        environment = one.environment(**chosen)
    return TwoWorlds(happened, foretell(recorded, first, begin, minutes, load(environment)))


def write_recording(one: Rig, folder: Path, begin: float, end: float) -> Path:
    """Of the hours as they are if nobody moves anything."""
    world = one.world
    assert isinstance(world, TracedWorld)
    folder.mkdir(parents=True, exist_ok=True)
    cluster, _ = read_objects(load(one.environment()))
    (folder / CLUSTER_FILE).write_bytes(msgspec.json.encode(cluster))
    times = np.arange(begin, end + STEP / 2, STEP)
    with world.lock:
        keys = sorted(key for key, member in world.members.items() if member.running)
        of_pods = np.stack([world.use_of_pods(name, keys, times) for name in RESOURCES])
        of_nodes = np.stack([world.ratio(name, times) * world.whole(name)[:, None] for name in RESOURCES])
    titles = ["/".join(key) for key in keys]
    node_part, pod_part = (tables.part_of(folder / name, begin, end) for name in (NODE_USAGE, POD_USAGE))
    tables.write_part(node_part, "node", RESOURCES, times, world.node_names, of_nodes)
    tables.write_part(pod_part, "pod", RESOURCES, times, titles, of_pods)
    (folder / HEAD_FILE).write_bytes(msgspec.json.encode(Head(begin, end, STEP)))
    return folder


def happen(one: Rig, minutes: int, settings: Mapping[str, str]) -> list[Minute]:
    """The real daemon's cycles, one a minute."""
    daemon = one.daemon(**settings)
    one.cluster.ask_extender(daemon.url.rstrip("/") + "/scheduler")
    assert daemon.context.workloads.wait_synced(30)
    assert daemon.context.cache.wait_synced(30)
    until(lambda: daemon.context.switches.paused("eviction") is None, "the switches are read")
    seen = Seen()
    for _ in range(WARM):
        one.advance()
        one.watch(daemon)
    for _ in range(minutes):
        one.advance()
        one.watch(daemon)
        daemon.extender.reservations.note_asked("default-scheduler")
        sentence = daemon.scheduler.run("eviction").sentence
        until(lambda: not one.cluster._controllers._terminating, "pods end")
        until(lambda: shown(one, daemon), "the daemon has seen them")
        seen.minute(daemon.board.plans, daemon.context.metrics, daemon.context.conditions.list(), sentence)
        one.advance()
        one.watch(daemon)
    return seen.minutes


def shown(one: Rig, daemon: Daemon) -> bool:
    """Whether the daemon's caches have the pods where they are, all of them Ready, and workloads that are complete."""
    with one.world.lock:
        running = {key: member.node for key, member in one.world.members.items() if member.running}
    there = {(*key, one.world.node_names[node]) for key, node in running.items()}
    known = {(pod.namespace, pod.name, pod.node) for pod in daemon.context.cache.pods() if pod.ready}
    sets = [each for each in daemon.context.workloads.workloads() if each.kind in ("ReplicaSet", "StatefulSet")]
    return there == known and all(each.ready == (each.replicas or 0) for each in sets)


def foretell(folder: Path, first: float, begin: float, minutes: int, settings: Settings) -> list[Minute]:
    """The rehearsal's cycles of the same minutes."""
    recording = open_recording(folder)
    course = Course(recording.history, settings)
    run = BallastRun("rehearsed", course, settings, STEP)
    assert run.evictions is not None
    seen, cycles = Seen(), 0
    for use in recording.play(first, begin + (minutes + 1) * 60, STEP):
        if use.time < begin:
            run.lead(use)
            continue
        run.advance(use)
        job = run.evictions
        if job.cycles > cycles:
            cycles = job.cycles
            seen.minute(job.board.plans, job.metrics, job.conditions.list(), job.sentence)
    return seen.minutes[:minutes]


class Seen:
    """Tells the minutes apart: plans since the one before, refusals since then."""

    def __init__(self) -> None:
        self.minutes: list[Minute] = []
        self._newest = ""
        self._refused: dict[str, int] = {}

    def minute(self, plans: Sequence[Any], metrics: Any, conditions: Sequence[Any], sentence: str) -> None:
        """One cycle of the job has ended."""
        new = []
        for plan in plans:
            if plan.id == self._newest:
                break
            new.append(plan)
        self._newest = plans[0].id if plans else ""
        [family] = metrics.eviction_verdicts.collect()
        counts = {
            sample.labels["check"]: round(sample.value)
            for sample in family.samples
            if sample.name.endswith("_total") and sample.labels["verdict"] == "refused"
        }
        refused = {check: count - self._refused.get(check, 0) for check, count in counts.items()}
        self._refused = counts
        self.minutes.append(
            Minute(
                [(plan.kind, [step_of(step) for step in plan.steps]) for plan in reversed(new)],
                [
                    (*step_of(step), plan.kind)
                    for plan in reversed(new)
                    for step in plan.steps
                    if any(each.pod == step.pod and each.verdict == "allowed" for each in plan.verdicts)
                ],
                {check: count for check, count in sorted(refused.items()) if count},
                {each.type: each.reason for each in conditions if each.status == "True" and each.type in OF_THE_JOB},
                sentence,
            )
        )


OF_THE_JOB = frozenset(
    {
        "BudgetsUnsatisfiable",
        "EvictionsHalted",
        "LandingNotSteered",
        "NothingStarts",
        "PlannerStopped",
        "PlanningFailing",
        "RateUsedUp",
        "TooFull",
    }
)


def step_of(step: Any) -> tuple[str, str, str]:
    """Names of pods of Deployments are drawn, so the workload stands for them."""
    key = (step.pod.partition("/")[0], step.pod.partition("/")[2])
    return "/".join(workload_of(key)), step.source or "", step.to or ""
