"""A run with Ballast: the daemon's own windows, scores, labels and job of evictions decide, on the recording's clock.

What the rehearsal adds is only the world around them. Parts that are off do nothing; parts in dry-run act, since that
is the question.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ballast.base.metrics import Metrics
from ballast.extender.decisions import ExtenderService
from ballast.extender.strategies import Strategies
from ballast.jobs import telemetry_cycle
from ballast.jobs.progress import settling
from ballast.jobs.publishing import label_rules
from ballast.model.node import Node
from ballast.model.sample import Floats
from ballast.model.snapshot import Snapshot
from ballast.publishing.freeze import Freeze
from ballast.publishing.label_plan import LabelPlanner, NodeChange, PublishedKeys
from ballast.publishing.node_keys import NodeKeys, stamp, window_end
from ballast.serving.board import Board
from ballast.settings import Mode, Settings
from ballast.telemetry.node_names import NodeNames
from ballast_lab.rehearse.course import Course
from ballast_lab.rehearse.history import RESOURCES
from ballast_lab.rehearse.measures import Measures
from ballast_lab.rehearse.played import PlayedClock, PlayedSource
from ballast_lab.rehearse.played_job import PlayedJob
from ballast_lab.rehearse.recording import Use

NOTHING = PublishedKeys(None, None, None, False)
ROUNDING = 1e-6
"""Seconds."""


class BallastRun:
    """One run with the settings of one file."""

    def __init__(self, name: str, course: Course, settings: Settings, step: float) -> None:
        self.name, self.course, self.measures = name, course, Measures(step)
        self._clock, self._step = PlayedClock(), step
        self._interval, self._every = float(settings.telemetry.interval), float(settings.eviction.interval)
        self._watch = Watch(course, settings, self._clock)
        publishes, evicts = settings.publishing.mode is not Mode.OFF, settings.eviction.mode is not Mode.OFF
        self._labels = Labels(settings, self._clock) if publishes else None
        self.evictions = PlayedJob(course, settings, self._clock) if evicts else None
        self._next = self._due = -np.inf
        self._cycles = 0

    def lead(self, use: Use) -> None:
        """A step before the first: the windows are filled."""
        self.course.advance(use)
        for _ in self._moments(use):
            snapshot, freeze = self._watch.cycle()
            self._observe(snapshot, freeze)

    def advance(self, use: Use) -> None:
        """One step of time."""
        course = self.course
        course.advance(use)
        self.measures.observe(course.load(), course.present, course.empty())
        for now in self._moments(use):
            snapshot, freeze = self._watch.cycle()
            if self._labels is not None:
                self.measures.label_writes += self._labels.publish(snapshot, freeze)
                course.preferred = self._labels.points(course.history.nodes)
            self._observe(snapshot, freeze)
            if now >= self._due and settling(self._cycles) is None:
                self._due = (now // self._every + 1) * self._every
                self._evict(snapshot)

    def _moments(self, use: Use) -> Iterator[float]:
        """The times within a step at which telemetry is read: the settings' own, whatever the recording's step."""
        self._next = max(self._next, math.ceil(use.time / self._interval) * self._interval)
        while self._next < use.time + self._step - ROUNDING:
            self._clock.now = self._next
            yield self._next
            self._next += self._interval

    def _observe(self, snapshot: Snapshot, freeze: Freeze) -> None:
        self._cycles += 1
        if self.evictions is not None:
            self.evictions.observe(snapshot, freeze)

    def _evict(self, snapshot: Snapshot) -> None:
        if self.evictions is not None:
            for move, workload in self.evictions.cycle(snapshot):
                self.measures.evicted(move, workload)

    def finish(self) -> None:
        """The end of time."""
        self.measures.concentration = self.course.most_of_one()
        if self.evictions is not None:
            self.measures.refused.update(self.evictions.refused())


class Watch:
    """Telemetry: what the nodes of a course use enters the daemon's windows."""

    def __init__(self, course: Course, settings: Settings, clock: PlayedClock) -> None:
        self._course = course
        configured = [resource.name for resource in settings.telemetry.resources]
        self._columns = [column for column, name in enumerate(RESOURCES) if name in configured]
        resources = [RESOURCES[column] for column in self._columns]
        self._source = PlayedSource(resources)
        rules = replace(telemetry_cycle.rules_of(settings), resources=resources, offset=0.0)
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
