"""Collects what a plan is made from: which planners run, and the request to the planning process."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from ballast.actuation.eviction.evictor import Evictor
from ballast.actuation.eviction.replacement_reservations import ReplacementReservations
from ballast.actuation.eviction.surge import Surges
from ballast.base.errors import ClusterError
from ballast.base.parts import Part
from ballast.cluster.context import Context
from ballast.eviction.planners.planner import PlanningDemand
from ballast.eviction.planners.registry import planner, planners
from ballast.eviction.rules import UNLIMITED, GateRules
from ballast.jobs.eviction.cluster_facts import ClusterFacts
from ballast.jobs.eviction.day_peak import DayPeak
from ballast.jobs.eviction.hot_nodes import loads, of_nodes, watched_of
from ballast.jobs.eviction.rules import aims_of, limit
from ballast.model.node_state import NodeState
from ballast.model.pod import Pod
from ballast.model.sample import Floats
from ballast.model.snapshot import Snapshot
from ballast.planning.request import PlanRequest, RequestedPlan
from ballast.telemetry.pod_usage_cache import PodUsageCache

OF_PODS = ("cpu", "memory", "disk", "network")
"""What is measured of pods; their part of anything else is a share of their node's."""


@dataclass(frozen=True)
class Gathered:
    """What a cycle starts from."""

    request: PlanRequest | None
    """None if no planner is needed, or if nothing may be evicted."""
    halted: str | None
    """Why nothing may be evicted now."""
    earlier: list[str]
    """Sentences about earlier evictions."""
    skipped: list[str]
    """Sentences about the planners that do not run."""


class PlanInputs:
    """`gather` in the job's thread; `gained` where leadership is gained."""

    def __init__(
        self,
        context: Context,
        *,
        facts: ClusterFacts,
        usage: PodUsageCache,
        evictor: Evictor,
        replacements: ReplacementReservations,
        surges: Surges | None = None,
    ) -> None:
        self._settings, self._clock = context.settings, context.clock
        self._cache, self._conditions = context.cache, context.conditions
        self._facts, self._usage, self._peak = facts, usage, DayPeak()
        self._leading = context.leadership.is_leader
        self._switches = context.switches
        self._evictor, self._replacements, self._surges = evictor, replacements, surges
        self._aims = aims_of(context.settings)
        self._resumed = False

    def gained(self) -> None:
        """This replica leads from now on. What the leader before had begun is read at once, beside everything else:
        the extender needs its reservations."""
        self._resumed = False
        if self._surges is not None:
            self._surges.forget()
        threading.Thread(target=self._resume, name="resume", daemon=True).start()

    def gather(self, snapshot: Snapshot) -> Gathered:
        """Follows up earlier evictions first: their effect is part of what is planned with.

        Raises ClusterError when `ballast-state` cannot be read.
        """
        self._peak.observe(snapshot)
        earlier = self._follow_up(snapshot)
        self._settle()
        self._facts.refresh()
        history = self._facts.history()
        self._conditions.report("BudgetsUnsatisfiable", "NeverAllow", self._facts.never_allowing())
        halted = self._facts.halted(snapshot, history)
        self._conditions.report("EvictionsHalted", "NotSafeNow", halted)
        if halted is not None:
            return Gathered(None, halted, earlier, [])
        wanted, skipped = self._wanted()
        if not wanted:
            return Gathered(None, None, earlier, skipped)
        request = self.request(snapshot, wanted)
        measured = [name for name in request.resources if name in OF_PODS]
        usage = self._usage.ask(snapshot.time, measured, self._concerned(wanted))
        return Gathered(replace(request, usage=usage), None, earlier, skipped)

    def request(self, snapshot: Snapshot, wanted: Sequence[RequestedPlan]) -> PlanRequest:
        """What is known of this moment, in any thread; with the last usage of pods that covers all of them."""
        weights = self._settings.scoring.resources
        objects, resources = self._facts.objects(), watched_of(snapshot, self._aims, weights)
        names = [node.name for node in objects.nodes]
        return PlanRequest(
            now=self._clock.wall(),
            resources=resources,
            load=self._loads(snapshot, names, resources),
            error=self._errors(names, resources),
            wanted=tuple(wanted),
            objects=objects,
            history=self._facts.history(),
            pool_label=self._settings.cluster.pool_label,
            weights=weights,
            peak=self._peaks(snapshot, names, resources),
            silent=snapshot.states.counts[NodeState.SILENT],
            usage=self._usage.of_all,
        )

    def find(self, namespace: str, name: str) -> Pod | None:
        """The pod as the watch shows it."""
        return next((pod for pod in self._cache.pods() if pod.name == name and pod.namespace == namespace), None)

    def rules_for(self, node: str) -> GateRules:
        """Those of the planner that would move a pod off this node: relieve where it is overloaded, else another."""
        chosen = [each for each in planners() if each.name in self._settings.eviction.planners] or list(planners())
        hot = node in self._facts.hot.confirmed
        fitting = next((each for each in chosen if each.needs_confirmation == hot), chosen[0])
        return self._facts.rules(fitting, self._replacements.names({pod.scheduler_name for pod in self._cache.pods()}))

    def _resume(self) -> None:
        """What cannot be read now, the next cycle tries again."""
        with suppress(ClusterError):
            self._evictor.resume()

    def _follow_up(self, snapshot: Snapshot) -> list[str]:
        sentences = [] if self._resumed else [self._evictor.resume()]
        self._resumed = True
        if self._surges is not None:
            sentences += self._advance(self._surges)
        sentences.append(self._evictor.follow_up(self._cache.pods(), snapshot, self._facts.replicas()))
        return [sentence for sentence in sentences if sentence]

    def _advance(self, surges: Surges) -> list[str]:
        """Goes on with pods whose replacement is started first; a pause takes all added replicas back."""
        if self._switches.paused(Part.EVICTION) is None:
            return surges.advance(self._cache.pods(), self._evictor.recorder.under_way)
        surges.give_back()
        return []

    def give_back(self) -> None:
        """At the end of the daemon: no count stays raised, and no node tainted for a replacement."""
        if not self._leading():
            return
        if self._surges is not None:
            self._surges.give_back()
        if self._replacements.taints is not None:
            self._replacements.taints.settle((), self._cache.nodes())

    def _settle(self) -> None:
        """Gives back the taints that no replacement needs any more; all of them during a pause."""
        taints, recorder = self._replacements.taints, self._evictor.recorder
        if taints is not None and recorder.unreadable() is None:
            wanted = self._awaited_from() if self._switches.paused(Part.EVICTION) is None else frozenset[str]()
            taints.settle(wanted, self._cache.nodes(), self._clock.wall())
        unheld = "room is held for replacements, but no scheduler asks to filter, so other pods may take it"
        hint = "add filterVerb: filter to the extender, as `ballast profile extender` prints it"
        said = f"{unheld}: {hint}" if self._replacements.extender.unheld else None
        self._conditions.report("ReservationsNotHeld", "FilterNotAsked", said)

    def _awaited_from(self) -> frozenset[str]:
        """The nodes that pods leave or left, and whose replacements are not bound yet."""
        surging = self._surges.sources if self._surges is not None else frozenset[str]()
        return self._evictor.recorder.awaited_from() | surging

    def _wanted(self) -> tuple[list[RequestedPlan], list[str]]:
        """The plans to make, the most urgent first, and why others are not made."""
        pods = self._cache.pods()
        names = frozenset({pod.scheduler_name for pod in pods})
        steered = self._replacements.names(names)
        demand = PlanningDemand(hot=bool(self._facts.hot.confirmed), waiting=any(pod.waiting for pod in pods))
        unsteered, landing = None, self._settings.eviction.landing
        if landing == "none":
            unsteered = "nothing decides where replacements go: BALLAST_EVICTION__LANDING is none"
        elif landing == "extender" and names and not steered:
            who = " and ".join(sorted(names))
            unsteered = (
                f"where {who} puts replacements is not steered: it has not asked the extender in the last 10 minutes"
            )
        wanted, skipped = [], []
        for each in planners():
            if each.name not in self._settings.eviction.planners:
                continue
            reason = (
                each.idle(demand) or self._evictor.stopped(each.name) or (unsteered if each.needs_landing else None)
            )
            if reason is not None:
                skipped.append(f"{each.name}: {reason}")
                continue
            rules = self._facts.planning_rules(each, steered)
            most = UNLIMITED if each.spans_cycles else limit(self._settings.eviction.max_moves)
            wanted.append(RequestedPlan(each.name, rules, self._aims, most))
        self._conditions.report("LandingNotSteered", "ExtenderNotAsked", unsteered)
        return wanted, skipped

    def _loads(self, snapshot: Snapshot, nodes: list[str], resources: tuple[str, ...]) -> Floats:
        """[node, resource], including moves that the window does not show yet."""
        load, pending = loads(snapshot, resources, nodes), self._evictor.pending()
        for row, name in enumerate(nodes):
            for resource, change in pending.get(name, {}).items():
                if resource in resources:
                    load[row, resources.index(resource)] += change
        return load

    def _errors(self, nodes: list[str], resources: tuple[str, ...]) -> Floats | None:
        """[node, resource]"""
        newest = self._facts.errors.newest
        if newest is None or any(newest[0].resource(name) is None for name in resources):
            return None
        return of_nodes(newest[1], newest[0], resources, nodes)

    def _peaks(self, snapshot: Snapshot, nodes: list[str], resources: tuple[str, ...]) -> Floats | None:
        """[node, resource] at the day's p95; None where nobody asks."""
        if not any(planner(name).whole_nodes for name in self._settings.eviction.planners):
            return None
        columns = [index for name in resources if (index := snapshot.resource(name)) is not None]
        most = np.append(self._peak.loads(snapshot)[columns], np.full((len(columns), 1), np.nan), axis=1)
        return np.asarray(most[:, [snapshot.rows.get(name, -1) for name in nodes]].T)

    def _concerned(self, wanted: list[RequestedPlan]) -> list[str] | None:
        """The pods whose usage matters: those on hot nodes if no other may be moved. None for all."""
        if not all(planner(each.kind).needs_confirmation for each in wanted):
            return None
        hot = self._facts.hot.confirmed
        return [f"{pod.namespace}/{pod.name}" for node in hot for pod in self._cache.pods_on(node)]
