"""The descheduler's LowNodeUtilization by use, for comparison: what it would have evicted, and where that landed.

Every 5 minutes (the interval of its chart): nodes below all thresholds are underutilised, nodes above any target
threshold overutilised. Pods leave the latter, the lowest priority first, until the node is below or the room on the
former is used up. The default evictor leaves DaemonSets, critical pods, bare pods and those with local storage, and the
eviction API keeps disruption budgets. Replacements land where the stock scheduler puts them. Thresholds are LOW and
HIGH of Ballast, so both aim for the same. Source: descheduler pkg/framework/plugins/nodeutilization, defaultevictor.
"""

from __future__ import annotations

import numpy as np

from ballast.eviction.check_input import LOOKED_NOWHERE, CheckInput
from ballast.eviction.facts import Facts
from ballast.eviction.gate import NUMBER, ROWS
from ballast.eviction.gate_rules import GateRules
from ballast.eviction.history import NOTHING_YET, Tally
from ballast.model.load_limits import limits
from ballast.model.sample import Floats, Ints
from ballast.settings import Settings
from ballast_lab.rehearse.course import Course
from ballast_lab.rehearse.history import RESOURCES
from ballast_lab.rehearse.measures import Measures, MoveRecord
from ballast_lab.rehearse.recording import Use

NAME = "low-node-utilization"
INTERVAL = 300.0
EVICTOR = ("mirror", "static", "terminating", "finished", "daemonset", "critical", "bare", "local-storage", "pdb")
"""Ballast's checks that stand for the default evictor and the eviction API."""


class LowNodeUtilization:
    """One run."""

    name = NAME

    def __init__(self, course: Course, settings: Settings, step: float) -> None:
        eviction = settings.eviction
        self.course, self.measures = course, Measures(step)
        self._low, self._high = (limits(limit, RESOURCES) for limit in (eviction.low, eviction.high))
        self._rules = GateRules(prefix=settings.publishing.prefix)
        self._next = -np.inf

    def lead(self, use: Use) -> None:
        """Nothing is known of the time before."""

    def advance(self, use: Use) -> None:
        """One step of time."""
        self.course.advance(use)
        load = self.course.load()
        self.measures.observe(load, self.course.present, self.course.empty())
        if use.time >= self._next:
            self._next = use.time + INTERVAL
            self._balance(load)

    def _balance(self, load: Floats) -> None:
        known = np.isfinite(load).all(axis=0)
        high = known & (load > self._high[:, None]).any(axis=0)
        low = known & (load < self._low[:, None]).all(axis=0)
        if not high.any() or not low.any():
            return
        course = self.course
        whole = course.history.capacity
        room = ((self._high[:, None] - load) * whole)[:, low].sum(axis=1)
        # Its checks ask for nothing that changes but budgets, which the tally counts.
        facts = Facts(course.history.objects, now=course.time, unknown=(), silent=0)
        tally = Tally()
        hottest = np.flatnonzero(high)[np.argsort(-load[:, high].sum(axis=0), kind="stable")]
        leaving: list[int] = []
        for node in hottest.tolist():
            leaving += self._drain(node, load[:, node] * whole[:, node], room, facts, tally)
        for row in leaving:
            self._evict(row, facts)

    def _drain(self, node: int, used: Floats, room: Floats, facts: Facts, tally: Tally) -> list[int]:
        """The pods that leave a node; `used` and `room` fall with them."""
        course, bound = self.course, self._high * self.course.history.capacity[:, node]
        leaving = []
        for row in self._ordered(node):
            if not (used > bound).any() or (room <= 0).any():
                break
            pod = course.pods[row]
            case = CheckInput(pod, facts, self._rules, NOTHING_YET, tally, LOOKED_NOWHERE)
            check = next((name for name in EVICTOR if not ROWS[NUMBER[name]].check(case).allowed), None)
            if check is not None:
                self.measures.refused[check] += 1
                continue
            tally.add(facts, pod)
            took = np.nan_to_num(course.of_pods(np.array([row]))[0])
            used -= took
            room -= took
            leaving.append(row)
        return leaving

    def _ordered(self, node: int) -> list[int]:
        rows: Ints = np.flatnonzero(self.course.there & (self.course.on == node))
        return sorted(rows.tolist(), key=lambda row: self.course.pods[row].priority)

    def _evict(self, row: int, facts: Facts) -> None:
        key = facts.key(self.course.pods[row])
        target = self.course.choose(row, self.course.present)
        if target is None:
            # Only its own node has room: there the replacement starts again.
            target = int(self.course.on[row])
        pod, names = self.course.pods[row], self.course.history.nodes
        title, there = f"{pod.namespace}/{pod.name}", names[target].name
        move = MoveRecord(self.course.time, title, pod.node, there, NAME, f"{pod.node} is overutilized", 0.0)
        self.course.move(row, target)
        self.measures.evicted(move, "/".join(key) if key else "")

    def finish(self) -> None:
        """The end of time."""
        self.measures.concentration = self.course.most_of_one()
