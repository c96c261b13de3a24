"""Follows up earlier evictions once a cycle, and gives back what no replacement needs any more."""

import threading
from contextlib import suppress

from ballast.actuation.eviction.plan_follower import PlanFollower
from ballast.actuation.eviction.recorder import EvictionRecorder
from ballast.actuation.eviction.replacement_reservations import ReplacementReservations
from ballast.actuation.eviction.surge import Surges
from ballast.base.errors import ClusterError
from ballast.base.parts import Part
from ballast.cluster.context import Context
from ballast.jobs.eviction import eviction_sentences
from ballast.model.snapshot import Snapshot


class TaintKeeper:
    """Keeps the taints of nodes that pods leave, as long as their replacements are not bound yet."""

    def __init__(
        self, context: Context, recorder: EvictionRecorder, replacements: ReplacementReservations, surges: Surges | None
    ) -> None:
        self._cache, self._clock = context.cache, context.clock
        self._taints, self._recorder, self._surges = replacements.taints, recorder, surges

    def keep(self, *, paused: bool) -> None:
        """Takes away the taints that no replacement needs any more; all of them during a pause."""
        if self._taints is None or self._recorder.unreadable() is not None:
            return
        surging = self._surges.sources if self._surges is not None else frozenset[str]()
        needed = frozenset[str]() if paused else self._recorder.awaited_from() | surging
        self._taints.settle(needed, self._cache.nodes(), self._clock.wall())

    def give_back(self) -> None:
        """At the end of the daemon: no node stays tainted for a replacement."""
        if self._taints is not None:
            self._taints.settle((), self._cache.nodes())


class FollowUp:
    """`review` in the job's thread; `gained` where leadership is gained; `give_back` at the end of the daemon."""

    def __init__(
        self,
        context: Context,
        follower: PlanFollower,
        recorder: EvictionRecorder,
        replacements: ReplacementReservations,
        surges: Surges | None,
    ) -> None:
        self._cache, self._workloads, self._conditions = context.cache, context.workloads, context.conditions
        self._leading, self._switches = context.leadership.is_leader, context.switches
        self._follower, self._recorder, self._replacements, self._surges = follower, recorder, replacements, surges
        self._taints = TaintKeeper(context, recorder, replacements, surges)
        self._resumed = self._was_paused = False
        self._clock, self.tally, self.lost = context.clock, recorder.tally, recorder.lost
        self.undone = follower.undone.changes

    def gained(self) -> None:
        """This replica leads from now on. What the leader before had begun is read at once, beside everything else:
        the extender needs its reservations."""
        self._resumed = False
        if self._surges is not None:
            self._surges.forget()
        threading.Thread(target=self._resume, name="resume", daemon=True).start()

    def review(self, snapshot: Snapshot) -> list[str]:
        """Sentences. Raises ClusterError when `ballast-state` cannot be read."""
        lines = [] if self._resumed else [self._recorder.resume()]
        self._resumed = True
        paused = self._switches.paused(Part.EVICTION) is not None
        if self._was_paused and not paused:
            self._recorder.end_stops()
        self._was_paused = paused
        if self._surges is not None and paused:
            self._surges.give_back()
        elif self._surges is not None:
            lines += self._surges.advance(self._cache.pods(), self._recorder.take_up)
        replicas = {
            workload.key: workload.replicas for workload in self._workloads.workloads() if workload.replicas is not None
        }
        lines.append(self._follower.follow_plans(self._cache.pods(), snapshot, replicas))
        self._taints.keep(paused=paused)
        stops = eviction_sentences.stops(self._recorder.stops(self._clock.wall()))
        self._conditions.report("PlannerStopped", "NotAsPredicted", stops)
        unheld = eviction_sentences.UNHELD if self._replacements.extender.unheld else None
        self._conditions.report("ReservationsNotHeld", "FilterNotAsked", unheld)
        return [line for line in lines if line]

    def give_back(self) -> None:
        """At the end of the daemon: no count stays raised, and no node tainted for a replacement."""
        if not self._leading():
            return
        if self._surges is not None:
            self._surges.give_back()
        self._taints.give_back()

    def _resume(self) -> None:
        """What cannot be read now, the next cycle tries again."""
        with suppress(ClusterError):
            self._recorder.resume()
