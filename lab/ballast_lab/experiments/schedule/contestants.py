"""Who places pods: kube-scheduler's plugins, other projects' rules, Ballast as it ships, and one that knows the future.

Ballast is its own code: `ExtenderService` with its ledger, or `LabelPlanner` with the profile that is printed for it.
Other projects' rules are the strategies of that name, alone and with ties broken at random, which is their best.
"""

import json
import threading
from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np

from ballast.base.errors import UsageError
from ballast.base.metrics import Metrics
from ballast.cluster.objects import wire
from ballast.extender.decisions import ExtenderService
from ballast.extender.strategies import Strategies
from ballast.jobs.publishing import label_rules
from ballast.model.load_limits import limits
from ballast.model.node import Node
from ballast.model.sample import Floats, Ints
from ballast.model.snapshot import Snapshot
from ballast.placement.assumed_pods import AssumedPods
from ballast.placement.fleet_model import FleetModel
from ballast.placement.layout import layout
from ballast.placement.simulated_placement import SimulatedPlacement
from ballast.planners.relieve import relieve
from ballast.planners.step import Worth
from ballast.planners.thresholds import Thresholds, hot
from ballast.publishing.freeze import Freeze
from ballast.publishing.label_plan import LabelPlanner, PublishedKeys
from ballast.publishing.node_keys import NodeKeys
from ballast.publishing.scheduler_profiles import LABELS_WEIGHTS
from ballast.scoring.protocol import Strategy
from ballast.scoring.strategy import NAMES, strategy
from ballast.serving.board import Board
from ballast.serving.rendering import render
from ballast.settings import Settings, load
from ballast_lab.experiments.schedule.loop import EPOCH, WINDOW, Contestant, Day

HORIZON = 3600.0
HINDSIGHT_STEP = 300.0
KOORDINATOR = {"cpu": 0.85, "memory": 0.70}
"""Use per request that koordinator's LoadAwareScheduling expects (estimator/default_estimator.go)."""
RECENT = 300.0
"""Its window of node usage, within which it also adds the estimates of pods that were just assigned."""
SAMPLES = 5
"""Of each pod's use within the window."""
EVICTIONS = 20
"""A day: what the default of BALLAST_EVICTION__RATE permits where 1 % of the pods are fewer."""


class StandingClock:
    """It stands where it is put."""

    speed = 1.0

    def __init__(self) -> None:
        self.now = EPOCH

    def wall(self) -> float:
        """Unix seconds."""
        return self.now

    def monotonic(self) -> float:
        """Seconds."""
        return self.now

    def wait(self, event: threading.Event, timeout: float | None) -> bool:
        """Does not wait."""
        return event.is_set()


class Plain:
    """Adds the scores of strategies, which see the pods that are placed; ties are broken at random."""

    writes: int | None = None

    def __init__(self, day: Day, seed: int, *strategies: Strategy) -> None:
        self._day, self._strategies = day, strategies
        self._random = np.random.default_rng([seed, 3])
        self._assumed = AssumedPods(60.0)
        self._model: FleetModel | None = None
        self.observe(idle_snapshot(day))

    def observe(self, snapshot: Snapshot) -> None:
        held = self._assumed.begin() if self._model is None else []
        self._model = FleetModel(snapshot, self._model)
        if not self._model.follows:
            self._model.fill(held)
        self._assumed.adopt(self._model)

    def choose(self, pod: int, time: float, feasible: Ints) -> int:
        return self.best(self.scores(pod), feasible)

    def scores(self, pod: int) -> Floats:
        """[node]: whole numbers, as kube-scheduler adds them."""
        assert self._model is not None
        arriving = self._day.pod(pod)
        total = np.zeros(len(self._day.names))
        for each in self._strategies:
            total += each.score(self._model.fleet, arriving).scores
        return total

    def best(self, scores: Floats, feasible: Ints) -> int:
        """A row of the highest score."""
        among = scores[feasible]
        return int(self._random.choice(feasible[among >= among.max() - 1e-9]))

    def bound(self, pod: int, row: int, time: float) -> None:
        self._assumed.put(self._day.pod(pod, row, time), time, wall=time)

    def left(self, pod: int, row: int, time: float) -> None:
        self._assumed.remove(self._day.uid(pod), time)

    def evict(self, time: float) -> Sequence[int]:
        return ()


def idle_snapshot(day: Day) -> Snapshot:
    """Idle nodes, before the first cycle."""
    day.measure(0.0)
    return day.snapshot(-1.0)


class Crane(Plain):
    """crane-scheduler's Dynamic with its default policy: 5-minute means, and their maxima of an hour and a day."""

    def __init__(self, day: Day, seed: int) -> None:
        self._five: list[Floats] = []
        super().__init__(day, seed)

    def observe(self, snapshot: Snapshot) -> None:
        super().observe(snapshot)
        self._five.append(self._day.recent(300.0).mean(axis=0))

    def scores(self, pod: int) -> Floats:
        past = np.array(self._five)
        each = 0.2 * past[-1] + 0.3 * past[-120:].max(axis=0) + 0.5 * past.max(axis=0)
        return np.asarray(np.floor(100 * (1 - each.mean(axis=0))))


class Koordinator(Plain):
    """LoadAwareScheduling: least of 5-minute use and the estimates of pods assigned since (load_aware.go)."""

    def __init__(self, day: Day, seed: int) -> None:
        self._assigned: list[tuple[int, int, float]] = []
        super().__init__(day, seed)

    def observe(self, snapshot: Snapshot) -> None:
        super().observe(snapshot)
        self._used = self._day.recent(RECENT).mean(axis=0)
        self._assigned = [entry for entry in self._assigned if entry[2] > snapshot.time - RECENT]

    def _estimate(self, pod: int) -> Floats:
        load = self._day.load
        return np.array([load.cpu[pod] * KOORDINATOR["cpu"] or 0.25, load.memory[pod] * KOORDINATOR["memory"]])

    def scores(self, pod: int) -> Floats:
        nodes = self._day.load.nodes
        whole = np.stack([nodes.cpu, nodes.memory])
        used = self._used * whole + self._estimate(pod)[:, None]
        for other, row, _ in self._assigned:
            used[:, row] += self._estimate(other)
        return np.asarray(np.floor(np.clip(100 * (1 - used / whole), 0, 100)).mean(axis=0))

    def bound(self, pod: int, row: int, time: float) -> None:
        super().bound(pod, row, time)
        self._assigned.append((pod, row, time))


class Hindsight(Plain):
    """Knows the next hour's use of every pod that runs: least time above 75 %, then least squared load."""

    def scores(self, pod: int) -> Floats:
        day, load = self._day, self._day.load
        now = float(load.start[pod])
        running = np.flatnonzero((day.row >= 0) & (load.end > now))
        wanted = []
        for time in np.arange(now, now + HORIZON, HINDSIGHT_STEP):
            there = running[load.end[running] > time]
            own = load.use(np.array([pod]), time)[0]
            wanted.append(np.bincount(day.row[there], load.use(there, time), len(day.names)) + own)
        future = np.array(wanted) / load.nodes.cpu
        return np.asarray(-(100 * np.maximum(future - 0.75, 0).sum(axis=0) + (future**2).mean(axis=0)))


class Extender:
    """kube-scheduler with the printed extender profile: Ballast's choice outweighs the other plugins."""

    writes: int | None = None

    def __init__(self, day: Day, settings: Settings, profile: str | None = None) -> None:
        self._day, self._profile, self._clock = day, profile, StandingClock()
        self.board = Board(clock=self._clock, max_age=1e9)
        self.service = ExtenderService(
            settings.extender, self._clock, Metrics(), self.board, lambda: 0.0, Strategies(settings)
        )
        self.observe(idle_snapshot(day))

    def observe(self, snapshot: Snapshot) -> None:
        self._clock.now = max(self._clock.now, snapshot.time)
        self.board.rendered = render(snapshot, {}, fetched=snapshot.time)
        self.service.observe(snapshot)

    def choose(self, pod: int, time: float, feasible: Ints) -> int:
        self.show(pod, time)
        names, waiting = [self._day.names[row] for row in feasible.tolist()], self._day.pod(pod)
        asked = wire.Pod(metadata=wire.Meta(name=waiting.name, namespace="default", uid=waiting.uid))
        points = json.loads(self.service.prioritize(asked, names, self._profile).body)
        best = max(points, key=lambda entry: entry["Score"])
        return self._day.names.index(best["Host"])

    def show(self, pod: int, time: float) -> None:
        """The watch shows that it waits."""
        self._clock.now = time
        self.service.put(self._day.pod(pod))

    def bound(self, pod: int, row: int, time: float) -> None:
        self.service.put(self._day.pod(pod, row, time))

    def left(self, pod: int, row: int, time: float) -> None:
        self._clock.now = max(self._clock.now, time)
        self.service.remove(self._day.pod(pod, row, time))

    def evict(self, time: float) -> Sequence[int]:
        return ()


class Labels(Plain):
    """kube-scheduler with the printed labels profile, and the labels that the publisher would write."""

    def __init__(self, day: Day, seed: int, settings: Settings) -> None:
        self._extender = Extender(day, settings)
        self._settings, self._keys = settings, NodeKeys.of(settings.publishing.prefix, settings.publishing.label_prefix)
        self._planner = LabelPlanner(self._keys, label_rules(settings))
        self._carried: dict[str, Node] = {node.name: node for node in day.nodes}
        self._freeze = Freeze(1.0, 1e9)
        self.writes = 0
        super().__init__(day, seed, strategy("least-allocated"), strategy("balanced"))

    def observe(self, snapshot: Snapshot) -> None:
        super().observe(snapshot)
        self._extender.observe(snapshot)
        scores = self._extender.service.label_scores(self._settings.publishing.strategy)
        carried = {name: PublishedKeys.of(node, self._keys) for name, node in self._carried.items()}
        for change in self._planner.plan(snapshot, scores, carried, self._freeze, snapshot.time):
            node = self._carried[change.node]
            self.writes = (self.writes or 0) + (self._keys.score in change.labels)
            labels = {name: text for name, text in {**node.labels, **change.labels}.items() if text is not None}
            notes = {**node.annotations, **change.annotations}
            self._carried[change.node] = msgspec.structs.replace(
                node, labels=labels, annotations={name: text for name, text in notes.items() if text is not None}
            )

    def labels(self) -> dict[str, str]:
        """{node: its score label}."""
        return {name: self._carried[name].labels.get(self._keys.score, "0") for name in self._day.names}

    def scores(self, pod: int) -> Floats:
        assert self._model is not None
        arriving = self._day.pod(pod)
        labels = np.array([float(text) for text in self.labels().values()])
        affinity = np.floor(100 * labels / labels.max()) if labels.max() > 0 else labels
        fit, balance = (each.score(self._model.fleet, arriving).scores for each in self._strategies)
        return np.asarray(np.dot(LABELS_WEIGHTS, [affinity, fit, balance]))

    def bound(self, pod: int, row: int, time: float) -> None:
        super().bound(pod, row, time)
        self._extender.bound(pod, row, time)

    def left(self, pod: int, row: int, time: float) -> None:
        super().left(pod, row, time)
        self._extender.left(pod, row, time)


class Evicting(Extender):
    """The extender, and the planner `relieve` by the limits of the default settings.

    Every pod may be evicted, as one of many replicas without a budget; its replacement starts at once, where the
    extender puts it.
    """

    def __init__(self, day: Day, settings: Settings) -> None:
        self._rules = settings.eviction
        self._windows: Ints = np.zeros(len(day.names), np.int64)
        self._bound: dict[int, float] = {}
        self._evictions: list[tuple[float, int]] = []
        super().__init__(day, settings)

    def observe(self, snapshot: Snapshot) -> None:
        super().observe(snapshot)
        self._load: Floats = snapshot.primary.mean.T
        self._thresholds = Thresholds.absolute(self._load, self._rules.high, self._rules.low, snapshot.resources)
        overloaded = hot(self._load, np.ones(len(self._load), bool), self._thresholds).any(axis=1)
        self._windows = np.where(overloaded, self._windows + 1, 0)

    def bound(self, pod: int, row: int, time: float) -> None:
        super().bound(pod, row, time)
        self._bound[pod] = time - EPOCH

    def evict(self, time: float) -> Sequence[int]:
        rules, day = self._rules, self._day
        cooling = {row for at, row in self._evictions if at > time - rules.cooldown}
        counted = self._windows >= rules.confirmations
        limit = min(EVICTIONS - len(self._evictions), rules.limit_total.number)
        if time % rules.interval or limit <= 0 or not counted.any():
            return ()
        pods = {f"default/p{number}": number for number in day.running.tolist()}
        use = np.mean([day.load.use(day.running, time - back) for back in np.linspace(0, WINDOW, SAMPLES)], axis=0)
        memory = day.load.memory[day.running]
        usage = {name: {"cpu": cpu, "memory": held} for name, cpu, held in zip(pods, use, memory, strict=True)}
        bound = [day.pod(number, int(day.row[number]), EPOCH + self._bound[number]) for number in pods.values()]
        known = layout(day.nodes, bound, ("cpu", "memory"), self._load, usage)
        placement = SimulatedPlacement(known, targets=~counted, ceiling=limits(rules.target_high, known.resources))
        numbers = [pods[f"default/{pod.name}"] for pod in known.pods]
        old = np.array([self._bound[number] <= time - rules.min_pod_age for number in numbers], bool)

        def admit(pod: int, target: int) -> Ints | None:
            home = known.on[pod]
            return np.flatnonzero(known.on == home) if home in cooling else None

        worth = Worth(np.full(len(numbers), rules.price), np.zeros(self._load.shape))
        evicted = []
        for step in relieve(placement, old, counted, admit, self._thresholds, limit=limit, worth=worth):
            evicted.append(numbers[step.pod])
            cooling.add(step.source)
            self._evictions.append((time, step.source))
        return evicted


Make = Callable[[Day, int], Contestant]


def _plain(*names: str, **keys: object) -> Make:
    return lambda day, seed: Plain(day, seed, *(strategy(name, keys) for name in names))


def _extender(name: str) -> Make:
    return lambda day, seed: Extender(day, load({"BALLAST_EXTENDER__STRATEGY": name}))


PEERS: Mapping[str, Make] = {
    "random": lambda day, seed: Plain(day, seed),
    "stock": _plain("least-allocated", "balanced"),
    "lvrb": _plain("load-variation"),
    "tlp": _plain("target-load", in_flight="upstream"),
    "lro": _plain("low-risk"),
    "crane": Crane,
    "koordinator": Koordinator,
    "hindsight": Hindsight,
}
NEEDS_KEYS = ("peaks", "dynamic")
"""Strategies that read what a recorded load does not have: a power model, annotations of crane."""

CONTESTANTS: Mapping[str, Make] = {
    **PEERS,
    "default": lambda day, seed: Extender(day, load({})),
    "default+evictions": lambda day, seed: Evicting(day, load({})),
    "labels": lambda day, seed: Labels(day, seed, load({})),
    **{name: _extender(name) for name in NAMES if name not in NEEDS_KEYS},
}
"""By name; a strategy's name stands for it in the extender."""


def contestant(name: str) -> Make:
    """Raises UsageError for a name that nobody has."""
    if name not in CONTESTANTS:
        raise UsageError(f"--contestant {name}: choose one of {', '.join(CONTESTANTS)}.")
    return CONTESTANTS[name]
