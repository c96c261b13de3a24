"""A run with Ballast: the daemon's own windows, scores, labels, planners and gate decide, on the recording's clock.

What the rehearsal adds is only the world around them: where an evicted pod's replacement lands, when it is Ready, and
what is remembered of evictions. Parts that are off do nothing; parts in dry-run act, since that is the question.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from ballast.actuation.eviction import effect
from ballast.actuation.eviction.evictor import past_eviction, prepare_step
from ballast.actuation.eviction.records import Running, StepRecord, StepStatus
from ballast.base.metrics import Metrics
from ballast.eviction.check_input import LOOKED_NOWHERE, CheckInput
from ballast.eviction.checks.acting import cluster_trouble
from ballast.eviction.facts import ClusterObjects, Facts
from ballast.eviction.feasibility import EMPTY, handed_over
from ballast.eviction.gate import NUMBER, ROWS, Gate
from ballast.eviction.history import History as Remembered
from ballast.eviction.history import Tally
from ballast.eviction.recent_evictions import RecentEvictions
from ballast.extender.decisions import ExtenderService
from ballast.extender.strategies import Strategies
from ballast.jobs import telemetry_cycle
from ballast.jobs.eviction.build_eviction import lag_of
from ballast.jobs.eviction.day_peak import DayPeak
from ballast.jobs.eviction.observations import HotNodes, RecentScaling
from ballast.jobs.eviction.plans import choose, rules_for
from ballast.jobs.progress import settling
from ballast.jobs.publishing import label_rules
from ballast.model.node import Node
from ballast.model.node_state import NodeState
from ballast.model.sample import Floats
from ballast.model.snapshot import Snapshot
from ballast.planners.built_in import planner
from ballast.planners.eviction_plan import EvictionPlan, Move, make_plan
from ballast.planning.from_settings import aims_of, rules_of
from ballast.planning.moment import Moment, facts_of, watched_of, with_loads
from ballast.planning.request import RequestedPlan
from ballast.publishing.freeze import Freeze
from ballast.publishing.label_plan import LabelPlanner, NodeChange, PublishedKeys
from ballast.publishing.node_keys import NodeKeys, stamp, window_end
from ballast.serving.board import Board
from ballast.settings import Mode, Settings
from ballast.telemetry.node_names import NodeNames
from ballast.windows.standard_error import LoadErrors
from ballast_lab.rehearse.course import Course
from ballast_lab.rehearse.history import RESOURCES
from ballast_lab.rehearse.measures import Measures, MoveRecord
from ballast_lab.rehearse.objects import objects_at
from ballast_lab.rehearse.played import PlayedClock, PlayedSource
from ballast_lab.rehearse.recording import Use

NOTHING = PublishedKeys(None, None, None, False)
MANY = 5_000
"""Pods from which on a planner that found nothing to do is asked again after a window: each plan takes long."""


class BallastRun:
    """One run with the settings of one file."""

    def __init__(self, name: str, course: Course, settings: Settings, step: float) -> None:
        self.name, self.course, self.measures = name, course, Measures(step)
        self._settings = settings
        self._clock = PlayedClock()
        # A step longer than the interval of telemetry is read several times, as the daemon would.
        self._cycles = max(1, round(step / settings.telemetry.interval))
        self._interval = step / self._cycles
        self._watch = Watch(course, settings, self._interval, self._clock)
        self._labels = Labels(settings, self._clock) if settings.publishing.mode is not Mode.OFF else None
        evicts = settings.eviction.mode is not Mode.OFF
        self.evictions = Evictions(course, settings, step, self._interval) if evicts else None

    def lead(self, use: Use) -> None:
        """A step before the first: the windows are filled."""
        self._clock.now = use.time
        self.course.advance(use)
        for _ in range(self._cycles):
            snapshot, _ = self._watch.cycle()
            if self.evictions is not None:
                self.evictions.observe(snapshot)
            self._clock.now += self._interval

    def advance(self, use: Use) -> None:
        """One step of time."""
        course = self.course
        self._clock.now = use.time
        course.advance(use)
        self.measures.observe(course.load(), course.present, course.empty())
        for cycle in range(self._cycles):
            self._cycle(acts=cycle == 0)
            self._clock.now += self._interval

    def _cycle(self, *, acts: bool) -> None:
        """One cycle of telemetry, and what follows from it."""
        course = self.course
        snapshot, freeze = self._watch.cycle()
        if self._labels is not None:
            self.measures.label_writes += self._labels.publish(snapshot, freeze)
            course.preferred = self._labels.points(course.history.nodes)
        if self.evictions is not None:
            self.evictions.observe(snapshot)
            if acts and not freeze.frozen:
                self._evict(snapshot)

    def _evict(self, snapshot: Snapshot) -> None:
        assert self.evictions is not None
        for plan in self.evictions.plan(snapshot):
            self.measures.refused.update(plan.refused)
            if plan.empty is not None:
                self.course.mark_empty(plan.empty, f"{self._settings.publishing.prefix}/{EMPTY}")
            for move, workload in self.evictions.carry_out(plan):
                self.measures.evicted(move, workload)

    def finish(self) -> None:
        """The end of time."""
        self.measures.concentration = self.course.most_of_one()


class Watch:
    """Telemetry: what the nodes of a course use enters the daemon's windows."""

    def __init__(self, course: Course, settings: Settings, step: float, clock: PlayedClock) -> None:
        self._course = course
        configured = [resource.name for resource in settings.telemetry.resources]
        self._columns = [column for column, name in enumerate(RESOURCES) if name in configured]
        resources = [RESOURCES[column] for column in self._columns]
        self._source = PlayedSource(resources)
        rules = replace(telemetry_cycle.rules_of(settings), resources=resources, interval=step, offset=0.0)
        self._cycle = telemetry_cycle.TelemetryCycle(self._source, None, rules, clock=clock, metrics=Metrics())
        self._clock = clock
        self._freeze = Freeze(settings.publishing.max_unknown, settings.publishing.forget_after)
        nodes = course.history.nodes
        self._capacity = np.array([[node.capacity.get(name, 0.0) for node in nodes] for name in resources], float)
        self._present = np.zeros(len(nodes), bool)
        self._names = NodeNames(())

    def cycle(self) -> tuple[Snapshot, Freeze]:
        """One cycle of telemetry."""
        course = self._course
        if (course.present != self._present).any():
            self._present = course.present.copy()
            here = np.flatnonzero(course.present).tolist()
            self._names = NodeNames([course.history.nodes[row] for row in here])
        whole = self._capacity
        used = course.used()[self._columns]
        ratios = np.divide(used, whole, out=np.full(whole.shape, np.nan), where=whole > 0)
        self._source.ratios = ratios[:, course.present]
        snapshot = self._cycle.cycle(self._names)
        self._freeze = self._freeze.after(snapshot.states.silent_share, self._clock.monotonic())
        return snapshot.trusted, self._freeze


class Labels:
    """Publishing: the labels that nodes would carry, and how often they would be written."""

    def __init__(self, settings: Settings, clock: PlayedClock) -> None:
        self._clock, self._strategy = clock, settings.publishing.strategy
        keys = NodeKeys.of(settings.publishing.prefix, settings.publishing.label_prefix)
        self._keys, self._planner = keys, LabelPlanner(keys, label_rules(settings))
        board = Board(clock=clock, max_age=1e9)
        strategies = Strategies(settings)
        self._extender = ExtenderService(settings.extender, clock, Metrics(), board, lambda: 0.0, strategies)
        self.carried: dict[str, PublishedKeys] = {}
        self._taint = settings.publishing.taint

    def publish(self, snapshot: Snapshot, freeze: Freeze) -> int:
        """One round; how many patches changed a label."""
        self._extender.observe(snapshot)
        scores = self._extender.label_scores(self._strategy)
        carried = {node.name: self.carried.get(node.name, NOTHING) for node in snapshot.nodes}
        writes = 0
        for change in self._planner.plan(snapshot, scores, carried, freeze, self._clock.now):
            carried[change.node] = self._after(carried[change.node], change)
            writes += bool(change.labels)
        self.carried = carried
        return writes

    def _after(self, before: PublishedKeys, change: NodeChange) -> PublishedKeys:
        return PublishedKeys(
            change.labels.get(self._keys.score, before.score),
            change.labels.get(self._keys.load, before.load),
            _end_alone(change.annotations.get(self._keys.window, before.window)),
            before.tainted if change.taint is None else change.taint,
            before.load_taints if change.load_taints is None else change.load_taints,
        )

    def points(self, nodes: Sequence[Node]) -> Floats:
        """[node]: what NodeAffinity makes of the labels by the printed profile, 0..100."""
        scores = [self.carried.get(node.name, NOTHING).score for node in nodes]
        values = np.array([float(score or 0) for score in scores])
        return np.floor(100 * values / values.max()) if values.max(initial=0.0) > 0 else np.zeros(len(values))


def _end_alone(window: str | None) -> str | None:
    """Of the annotation only its end is read again, at every cycle."""
    end = None if window is None else window_end(window)
    return None if end is None else json.dumps({"end": stamp(end)})


@dataclass(frozen=True)
class Arranged:
    """One moment as planners and gate see it."""

    moment: Moment
    facts: Facts
    columns: Sequence[int]
    """Of the recorded resources those of which any load is known."""


class Evictions:
    """The job of evictions: plans as the daemon makes them, carried out at once."""

    def __init__(self, course: Course, settings: Settings, step: float, interval: float) -> None:
        """`interval` is the one of telemetry."""
        self._course, self._settings, self._step = course, settings, step
        aims, weights = aims_of(settings), settings.scoring.resources
        self._aims, self._weights, self._rules = aims, weights, rules_of(settings)
        self._hot = HotNodes(aims, interval, weights)
        self._lag = lag_of(settings)
        self._errors, self._scaling = LoadErrors(self._lag), RecentScaling()
        self.peak = DayPeak()
        """The load of the last day."""
        self._memory = RecentEvictions()
        self._steps: list[StepRecord] = []
        self._interval = max(float(settings.eviction.interval), step)
        self._next = -np.inf
        self._cycles = 0
        self._idle: dict[str, tuple[float, frozenset[str]]] = {}
        """By planner that found nothing to do: until when it is not asked, and the hot nodes that it saw."""
        self._examples = {pod.scheduler_name: pod for pod in reversed(course.pods)}
        self._steered = frozenset(self._examples if settings.eviction.landing == "extender" else ())
        self._empties = any(planner(name).whole_nodes for name in settings.eviction.running)

    def observe(self, snapshot: Snapshot) -> None:
        """A cycle of telemetry has ended."""
        self._cycles += 1
        self._hot.observe(snapshot)
        self._errors.observe(snapshot)

    def plan(self, snapshot: Snapshot) -> Iterator[EvictionPlan]:
        """The plans of a cycle in order, until one has steps; after it those of marked nodes, without steps. None while
        it is not time."""
        now = self._course.time
        if now < self._next or settling(self._cycles) is not None:
            return
        self._next = now + self._interval
        self._memory.forget(now)
        if self._empties:
            self.peak.observe(snapshot)
        moment = self._moment(snapshot)
        pods = int(np.count_nonzero(self._course.there))
        facts = facts_of(replace(moment.objects, pods=()), snapshot, moment.now, pods)
        if not pods or cluster_trouble(facts, self._rules, moment.history) is not None:
            return
        chosen = choose(moment, self._settings, lambda kind: None).plans
        hot = self._hot_enough()
        wishes = [wish for wish in chosen if self._rested(wish, hot) and self._may(wish, moment, facts)]
        if not wishes:
            return
        arranged = self._arrange(moment)
        yield from self._plans(arranged, wishes)

    def _moment(self, snapshot: Snapshot) -> Moment:
        """With one pod for each scheduler: all that the choice of planners looks at."""
        now = self._course.time
        bare = Moment(
            now=now,
            objects=ClusterObjects(nodes=snapshot.nodes, pods=tuple(self._examples.values())),
            resources=watched_of(snapshot, self._aims, self._weights),
            history=self._history(now),
            silent=snapshot.states.counts[NodeState.SILENT],
            steered=self._steered,
            pool_label=self._settings.cluster.pool_label,
            weights=self._weights,
            node_weights=self._settings.scoring.node_weights,
        )
        nodes = {node.name: node for node in snapshot.nodes}
        recent = self._pending(now, nodes, snapshot.shortest.seconds)
        return with_loads(
            bare,
            snapshot,
            {**self._pending(now, nodes), **{name: recent.get(name, {}) for name in bare.history.overloaded}},
            self._errors.newest,
            self.peak.loads(snapshot) if self._empties else None,
        )

    def _history(self, now: float) -> Remembered:
        awaited = [step for step in self._steps if step.ready_at > now]
        return replace(
            self._memory.history(now),
            awaited=frozenset(step.workload for step in awaited if step.workload is not None),
            replacements=len(awaited),
            confirmed=self._hot.confirmed,
            overloaded=self._hot.overloaded,
            causes=self._hot.causes,
        )

    def _pending(
        self, now: float, nodes: Mapping[str, Node], window: float | None = None
    ) -> Mapping[str, Mapping[str, float]]:
        primary = float(self._settings.windows.lengths[0])
        self._steps = [step for step in self._steps if step.landed_at > now - primary - self._lag]
        running = Running(id="", kind="", time=now, before={}, after={}, loads={}, mean={}, steps=tuple(self._steps))
        return effect.pending([running], now - self._lag / 2, window or primary, nodes)

    def _hot_enough(self) -> frozenset[str]:
        """The nodes that may be relieved."""
        least = self._settings.eviction.confirmations
        return self._hot.overloaded | {name for name, windows in self._hot.confirmed.items() if windows >= least}

    def _rested(self, wish: RequestedPlan, hot: frozenset[str]) -> bool:
        """Whether a planner that found nothing is asked again: for another hot node, or after a window."""
        until, seen = self._idle.get(wish.kind, (-np.inf, hot))
        return self._course.time >= until or (planner(wish.kind).needs_confirmation and not hot <= seen)

    def _may(self, wish: RequestedPlan, moment: Moment, facts: Facts) -> bool:
        """Whether the rates leave an eviction to this planner: without one its plan has no step."""
        case = CheckInput(moment.objects.pods[0], facts, wish.rules, moment.history, Tally(), LOOKED_NOWHERE)
        return ROWS[NUMBER["rate"]].check(case).allowed

    def _arrange(self, moment: Moment) -> Arranged:
        objects = objects_at(self._course)
        self._scaling.observe(objects.workloads, moment.now)
        objects = replace(objects, autoscalers=self._scaling.beside(objects.autoscalers))
        known = np.isfinite(moment.load)
        columns = [column for column in range(len(moment.resources)) if known[:, column].any()]
        blind = [node.name for node, row in zip(objects.nodes, known, strict=True) if not row.any()]
        facts = Facts(objects, now=moment.now, unknown=blind, silent=moment.silent)
        return Arranged(replace(moment, objects=objects), facts, columns)

    def _plans(self, arranged: Arranged, wishes: Sequence[RequestedPlan]) -> Iterator[EvictionPlan]:
        moment, columns = arranged.moment, arranged.columns
        picked = [RESOURCES.index(moment.resources[column]) for column in columns]
        error = None if moment.error is None else moment.error[:, columns]
        layout = self._course.arrange(moment.load[:, columns], error, picked)
        peak = None if moment.peak is None else moment.peak[:, columns]
        late = False
        for wish in wishes:
            if late and not (planner(wish.kind).whole_nodes and self._marked(wish)):
                continue
            most = wish.most.of(len(layout.pods))
            aims = wish.aims if most is None else replace(wish.aims, max_moves=most)
            self._gate = Gate(arranged.facts, wish.rules, moment.history)
            plan = make_plan(wish.kind, layout, self._gate, aims, peak=peak)
            if not plan.steps and len(layout.pods) > MANY:
                window = float(self._settings.windows.lengths[0])
                self._idle[wish.kind] = (moment.now + window, self._hot_enough())
            yield replace(plan, steps=()) if late else plan
            late = late or bool(plan.steps)

    def _marked(self, wish: RequestedPlan) -> bool:
        return any(handed_over(node, wish.rules.prefix) for node in self._course.nodes)

    def carry_out(self, plan: EvictionPlan) -> Iterator[tuple[MoveRecord, str]]:
        """Evicts; the replacement uses what the pod used from the next step on, and is Ready then or as late as pods of
        its workload were in history. The moves, with their workloads."""
        course, made_by = self._course, planner(plan.kind)
        moves = plan.steps[:1] if made_by.one_at_a_time else plan.steps
        # A plan that spans cycles knows no limits; those of the moment hold back its steps.
        acting = Gate(self._gate.facts, rules_for(made_by, self._rules, self._steered), self._gate.history)
        for move in moves:
            row = course.row_of(move.pod)
            pod = course.pods[row]
            if made_by.spans_cycles and acting.admit(pod) is not None:
                continue
            target = self._landing(move, row)
            step = prepare_step(move, pod, self._gate.facts, (), course.time, probe=False)
            self._memory.add(past_eviction(step, plan.kind, self._gate))
            restart = None if step.workload is None else course.history.restarts.get(step.workload)
            if step.workload is not None and restart is not None:
                self._memory.note_restart(step.workload, restart)
            self._steps.append(self._landed(step, target, restart or 0.0))
            course.move(row, target)
            there = course.history.nodes[target].name
            done = MoveRecord(course.time, move.pod, move.source, there, plan.kind, move.reason, round(move.gain, 4))
            yield done, "/".join(step.workload) if step.workload else move.pod

    def _landing(self, move: Move, row: int) -> int:
        """Where the printed profile puts the replacement: on the target where the extender decides, else as the stock
        scheduler scores. Where it fits nowhere else it starts again on its own node."""
        course = self._course
        if move.target is not None:
            return course.history.rows[move.target]
        target = course.choose(row, course.present)
        return int(course.on[row]) if target is None else target

    def _landed(self, step: StepRecord, target: int, restart: float) -> StepRecord:
        at, ready_at = step.time + self._step, step.time + max(self._step, restart)
        name = self._course.history.nodes[target].name
        return msgspec.structs.replace(
            step, status=StepStatus.READY, landed_on=name, gone_at=at, landed_at=at, ready_at=ready_at
        )
