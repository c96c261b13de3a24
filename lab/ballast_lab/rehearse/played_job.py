"""The daemon's own job of evictions, in a course: its moments, gate, executor, evictor and what follows them up.

What is played beside it: the cluster, the clock, what pods use, and that plans are made in this process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from ballast.actuation.eviction.replacement_use import Uses
from ballast.base.metrics import Metrics
from ballast.base.parts import Part
from ballast.cluster.conditions import Conditions
from ballast.cluster.context import Context
from ballast.cluster.lease import AlwaysLeader
from ballast.cluster.ledger_book import LedgerBook
from ballast.cluster.state import StateStore
from ballast.cluster.writer import Pace, Writer
from ballast.eviction.check_input import LOOKED_NOWHERE, CheckInput
from ballast.eviction.gate import NUMBER, ROWS
from ballast.eviction.history import Tally
from ballast.extender.decisions import ExtenderService
from ballast.jobs.eviction import build_eviction
from ballast.model.pod import Pod
from ballast.model.snapshot import Snapshot
from ballast.planners.built_in import planner
from ballast.planners.eviction_plan import EvictionPlan
from ballast.planning.moment import Moment
from ballast.planning.process import PlanningProcess
from ballast.planning.request import PlansRequest, PlansResponse, RequestedPlan
from ballast.planning.worker import facts_about, measured, plans_of
from ballast.publishing.freeze import Freeze
from ballast.serving.board import Board
from ballast.settings import Mode, Settings
from ballast.telemetry.pod_usage import PodAnswers
from ballast.telemetry.pod_usage_cache import PodUsageCache
from ballast_lab.rehearse.course import Course
from ballast_lab.rehearse.history import RESOURCES
from ballast_lab.rehearse.measures import MoveRecord
from ballast_lab.rehearse.played import PlayedClock
from ballast_lab.rehearse.played_cluster import Landing, PlayedCluster, Schedule, schedule

NAMESPACE = "ballast"
UNHURRIED = 1e9
"""Writes a second: nothing waits for its turn."""
SOME = 1_000
"""Pods from which on a planner beside relief is not asked while the rates leave it no eviction."""
MANY = 5_000
"""Pods from which on a planner that found nothing to do is asked again after a window: each plan takes long."""


class PlayedJob:
    """`observe` after each cycle of telemetry, `cycle` where the job is due."""

    def __init__(self, course: Course, settings: Settings, clock: PlayedClock, place: Schedule = schedule) -> None:
        """`place` is the scheduler."""
        self._course, self._clock = course, clock
        self.board, self.cycles, self.sentence = Board(clock=clock), 0, ""
        extender = ExtenderService(settings.extender, clock, Metrics(), self.board, lambda: 0.0)
        self._extender = extender.reservations
        self._settings = acting(settings)
        self._asking = sorted({pod.scheduler_name for pod in course.pods})
        self.metrics = Metrics()
        self.cluster = PlayedCluster(course, clock, self._held, place)
        self.conditions = Conditions(clock, self.metrics)
        context = self._context()
        usage, planning = PlayedUse(course), PlayedPlanning(course, self._settings)
        outside = build_eviction.Outside(cast(PlanningProcess, planning), cast(PodUsageCache, usage), usage.tell)
        self.job = build_eviction.build(context, self._extender, outside, self.board, None)

    def observe(self, snapshot: Snapshot, freeze: Freeze) -> None:
        """A cycle of telemetry has ended."""
        self.cluster.settle()
        self.board.snapshot, self.board.frozen = snapshot, freeze.frozen
        self.job.observe(snapshot)

    def cycle(self, snapshot: Snapshot) -> Iterator[tuple[MoveRecord, str]]:
        """One cycle of the job; the evictions, with their workloads."""
        self.cluster.landings.clear()
        if self._settings.eviction.landing == "extender":
            for name in self._asking:
                self._extender.note_asked(name)
        self.sentence = self.job.cycle(snapshot)
        self.cycles += 1
        for landing in self.cluster.landings:
            yield self._record(landing), landing.workload

    def refused(self) -> Mapping[str, int]:
        """{check: how many pods it refused}, as the daemon's metric counts."""
        [family] = self.metrics.eviction_verdicts.collect()
        counts = {
            sample.labels["check"]: round(sample.value)
            for sample in family.samples
            if sample.name.endswith("_total") and sample.labels["verdict"] == "refused"
        }
        return {check: count for check, count in counts.items() if count}

    def _record(self, landing: Landing) -> MoveRecord:
        steps = ((plan.kind, step) for plan in self.board.plans for step in plan.steps if step.pod == landing.pod)
        kind, step = next(steps)
        gain = round(float(step.gain), 4)
        return MoveRecord(landing.time, landing.pod, landing.source, landing.target, kind, step.reason, gain)

    def _held(self, pod: Pod) -> str | None:
        """Whose room is taken by what comes now."""
        for reservation in self._extender.active():
            if reservation.holder == pod.maker:
                self._extender.release(reservation.name)
                return reservation.node
        return None

    def _context(self) -> Context:
        cluster, clock, settings = cast(Any, self.cluster), self._clock, self._settings
        leadership = AlwaysLeader(self.metrics)
        leadership.start()
        writer = Writer(
            cluster,
            clock,
            self.metrics,
            pace=Pace(clock, UNHURRIED, int(UNHURRIED)),
            modes={Part.EVICTION: settings.eviction.mode.value},
            paused=cluster.paused,
            leading=leadership.is_leader,
        )
        state = StateStore(cluster, writer, NAMESPACE, clock)
        return Context(
            settings=settings,
            clock=clock,
            machine_clock=clock,
            metrics=self.metrics,
            conditions=self.conditions,
            namespace=NAMESPACE,
            api=cluster,
            cache=cluster,
            workloads=cluster,
            switches=cluster,
            leadership=leadership,
            events=cluster,
            writer=writer,
            state=state,
            ledger=LedgerBook(state, clock, gap=settings.telemetry.interval),
        )


def acting(settings: Settings) -> Settings:
    """What is in dry-run acts, since that is the question; a move with one replica more is one move."""
    eviction = settings.eviction
    modes = {name: Mode.OFF if mode is Mode.OFF else Mode.ON for name, mode in eviction.modes.items()}
    changes = {"mode": Mode.ON, "modes": modes, "surge": False}
    return settings.model_copy(update={"eviction": eviction.model_copy(update=changes)})


class PlayedUse:
    """What pods use is told with the layout; here is only what replacements use."""

    of_all = None

    def __init__(self, course: Course) -> None:
        self._course, self._told = course, -np.inf

    def ask(self, at: float, resources: Sequence[str], pods: Sequence[str] | None = None) -> PodAnswers:
        """Nothing that is to be decoded."""
        return PodAnswers(at, {}, {}, (), 0.0, 0.0)

    def tell(self, names: Sequence[str]) -> Mapping[str, Uses]:
        """Of pods, named namespace/name; each sample of the recording once."""
        course = self._course
        if course.time == self._told:
            return {}
        self._told = course.time
        rows = {name: row for name in names if (row := course.row_of(name)) is not None}
        used = course.of_pods(np.array(list(rows.values()), np.int64)).tolist() if rows else []
        return {
            name: {resource: amount for resource, amount in zip(RESOURCES, amounts, strict=True) if amount == amount}
            for name, amounts in zip(rows, used, strict=True)
        }


@dataclass(frozen=True)
class _Idle:
    """A planner that found nothing to do: until when it is not asked, and the hot nodes that it saw."""

    until: float
    hot: frozenset[str]


class PlayedPlanning:
    """Makes plans as the planning process does, of what the course has laid out already."""

    def __init__(self, course: Course, settings: Settings) -> None:
        self._course, self._settings = course, settings
        self._idle: dict[str, _Idle] = {}

    def ask(self, request: PlansRequest) -> PlansResponse:
        """The plans of a moment."""
        moment, pods = request.moment, len(request.moment.objects.pods)
        wishes = self._due(request.plans, moment) if pods > SOME else list(request.plans)
        if not wishes or not len(moment.objects.pods):
            return PlansResponse()
        kept = measured(moment)
        picked = [RESOURCES.index(moment.resources[column]) for column in kept]
        error = None if moment.error is None else moment.error[:, kept]
        arranged = self._course.arrange(moment.load[:, kept], error, picked)
        plans = plans_of(replace(request, plans=tuple(wishes)), arranged, facts_about(moment))
        for plan in plans if pods > MANY else ():
            self._note(plan, moment)
        rows = self._course.running()
        known = int(np.count_nonzero(np.isfinite(self._course.of_pods(rows)).any(axis=1)))
        return PlansResponse(plans, known, len(rows))

    def stop(self) -> None:
        """Nothing runs."""

    def _hot(self, moment: Moment) -> frozenset[str]:
        """The nodes that may be relieved."""
        least, confirmed = self._settings.eviction.confirmations, moment.history.confirmed or {}
        return moment.history.overloaded | {name for name, windows in confirmed.items() if windows >= least}

    def _due(self, wishes: Sequence[RequestedPlan], moment: Moment) -> list[RequestedPlan]:
        """Those that are asked: not a planner that found nothing, before a window has passed or another node is hot,
        nor one that the rates leave no eviction; of few pods relief is asked all the same."""
        due = [wish for wish in wishes if not self._rests(wish, moment)]
        bare = facts_about(replace(moment, objects=replace(moment.objects, pods=()))) if due else None

        def may(wish: RequestedPlan) -> bool:
            assert bare is not None
            if planner(wish.kind).needs_confirmation and len(moment.objects.pods) <= MANY:
                return True  # Overloaded nodes have rates of their own.
            case = CheckInput(moment.objects.pods[0], bare, wish.rules, moment.history, Tally(), LOOKED_NOWHERE)
            return ROWS[NUMBER["rate"]].check(case).allowed

        return list(filter(may, due))

    def _rests(self, wish: RequestedPlan, moment: Moment) -> bool:
        idle, urgent = self._idle.get(wish.kind), planner(wish.kind).needs_confirmation
        if idle is None or moment.now >= idle.until:
            return False
        return not urgent or self._hot(moment) <= idle.hot

    def _note(self, plan: EvictionPlan, moment: Moment) -> None:
        if not plan.steps and not plan.refused.get("rate"):
            until = moment.now + float(self._settings.windows.lengths[0])
            self._idle[plan.kind] = _Idle(until, self._hot(moment))
