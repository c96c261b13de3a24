"""Builds the job `eviction` from the settings."""

import os
from collections.abc import Callable
from dataclasses import dataclass

from ballast.actuation.eviction.evictor import Evictor, EvictorOptions
from ballast.actuation.eviction.node_marks import EmptyNodes, LeavingTaints
from ballast.actuation.eviction.plan_follower import PlanFollower
from ballast.actuation.eviction.replacement_reservations import ReplacementReservations, ReservationService
from ballast.actuation.eviction.replacement_use import Ask
from ballast.actuation.eviction.restart import Restarts
from ballast.actuation.eviction.surge import Surges
from ballast.actuation.eviction.trial import ReplacementTrial
from ballast.actuation.protected import Protected
from ballast.base.clock import SystemClock
from ballast.cluster.context import Context
from ballast.eviction.facts import WorkloadKey
from ballast.jobs.eviction.day_peak import DayKeeper
from ballast.jobs.eviction.eviction_job import EvictionJob
from ballast.jobs.eviction.executor import PlanExecutor
from ballast.jobs.eviction.explainer import Explainer
from ballast.jobs.eviction.follow_up import FollowUp
from ballast.jobs.eviction.moment_taker import MomentTaker, OtherParts
from ballast.jobs.eviction.replaced_use import ReplacedUse
from ballast.jobs.power import build_power
from ballast.jobs.power.power_job import PowerJob
from ballast.planners.built_in import planner
from ballast.planning.process import PlanningProcess, deadline_of
from ballast.serving.board import Board
from ballast.settings import Duration, Mode, Settings
from ballast.telemetry.pod_usage_cache import PodUsageCache
from ballast.telemetry.presets import rate_window
from ballast.telemetry.prometheus_source import PrometheusSource
from ballast.telemetry.source import Source


@dataclass(frozen=True)
class Outside:
    """Who plans, and who tells what pods use. A rehearsal has its own."""

    worker: PlanningProcess
    usage: PodUsageCache
    used: Ask
    """What pods use that came instead of others."""
    history: Callable[[], Source] | None = None
    """Opens a source with the last day in it."""


def outside_of(context: Context, source: Source, board: Board) -> Outside:
    """A process that plans; `source` says what pods use."""
    settings, get = context.settings, context.api.get
    used = ReplacedUse(
        PodUsageCache(source, get, settings),
        lambda: context.clock.wall() if board.snapshot is None else board.snapshot.time,
        context.cache.nodes,
        context.cache.pods,
    )
    past = (lambda: PrometheusSource(settings, context.metrics)) if source.name == PrometheusSource.name else None
    worker = PlanningProcess(deadline=deadline_of(settings.eviction.interval))
    return Outside(worker, PodUsageCache(source, get, settings, hour=True), used, past)


def build(
    context: Context, reservations: ReservationService, outside: Outside, board: Board, power: PowerJob | None
) -> EvictionJob:
    """Workloads that an open plan of `power` changes are left alone."""
    settings, eviction, prefix = context.settings, context.settings.eviction, context.settings.publishing.prefix
    api, writer, clock, acts = context.api, context.writer, context.clock, bool(eviction.acting)
    protected = Protected(
        api,
        SystemClock(),
        context.cache.pods,
        namespace=context.namespace,
        own=os.environ.get("POD_NAME") or os.environ.get("HOSTNAME"),
        urls=[url for url in (settings.prometheus.url, *build_power.urls(build_power.policies(settings))) if url],
        operator_only=frozenset(f"{prefix}/{name}" for name in eviction.operator_only),
    )
    replacements = ReplacementReservations(
        reservations,
        clock,
        interval=eviction.interval,
        taints=LeavingTaints(api, writer, prefix, sets=eviction.landing == "taint") if acts else None,
        pods=context.cache.pods,
        probes=eviction.landing == "extender",
    )
    surges = Surges(api, writer, context.state, clock, ready_within=eviction.ready_within) if acts else None
    evictor = Evictor(
        surges=surges if eviction.surge else None,
        writer=writer,
        state=context.state,
        clock=clock,
        metrics=context.metrics,
        events=context.events,
        replacements=replacements,
        options=EvictorOptions(
            prefix=prefix,
            window=settings.windows.lengths[0],
            lag=lag_of(settings),
            acts=acts,
            imagining=eviction.imagining,
            grace_period=eviction.grace_period,
            ready_within=eviction.ready_within,
            nominate=eviction.nominate,
            restarts=Restarts(api, writer) if acts else None,
            trial=ReplacementTrial(api, writer, clock) if acts else None,
        ),
    )
    follower = PlanFollower(evictor, replacements, clock, outside.used)
    moments = MomentTaker(
        context,
        board=board,
        evictor=evictor,
        replacements=replacements,
        protected=protected,
        others=OtherParts(
            power_plans=lambda: power.changing if power else frozenset(),
            surging=lambda: surges.workloads if surges else frozenset(),
            budgeted=_budgeted(settings),
        ),
        day=DayKeeper(context, outside.history, needed=any(planner(name).whole_nodes for name in eviction.running)),
    )
    usage, worker = outside.usage, outside.worker
    return EvictionJob(
        context,
        moments=moments,
        follow_up=FollowUp(context, follower, evictor.recorder, replacements, surges),
        usage=usage,
        worker=worker,
        executor=PlanExecutor(
            context, board=board, moments=moments, evictor=evictor, empty=EmptyNodes(api, writer, prefix)
        ),
        explainer=Explainer(context, moments, usage, worker, lambda: board.snapshot),
    )


def _budgeted(settings: Settings) -> frozenset[WorkloadKey]:
    """The Deployments that a power policy scales: one more replica would count as a change by somebody else."""
    policies = build_power.policies(settings) if settings.power.mode is Mode.ON else ()
    members = (place.member for policy in policies for place in policy.places.values())
    names = (member.name.split("/", 1) for member in members if member.kind == "deployments.apps")
    return frozenset((namespace, "Deployment", name) for namespace, name in names)


def lag_of(settings: Settings) -> float:
    """Seconds over which a sample itself is a mean: presets ask for rates of all but memory."""
    rates = any(resource.name != "memory" for resource in settings.telemetry.resources)
    if not rates or settings.telemetry.source != "prometheus":
        return 0.0
    return float(Duration(rate_window(settings.telemetry.interval)))
