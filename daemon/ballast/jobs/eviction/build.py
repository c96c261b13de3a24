"""What the job `eviction` is made of, from the settings."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ballast.actuation.eviction.evictor import Evictor, EvictorOptions
from ballast.actuation.eviction.replacement_reservations import ReplacementReservations
from ballast.actuation.protected import Protected
from ballast.clock import SystemClock
from ballast.jobs.eviction.job import PART, EvictionJob
from ballast.jobs.eviction.planning_process import PlanningProcess
from ballast.jobs.power import build
from ballast.settings import Duration, Mode, Settings
from ballast.telemetry.pod_usage_cache import PodUsageCache
from ballast.telemetry.presets import rate_window

if TYPE_CHECKING:
    from ballast.runtime.daemon import Daemon


def evicting(daemon: Daemon) -> EvictionJob:
    """Of a daemon that has everything else."""
    settings = daemon.settings
    protected = Protected(
        daemon.api,
        SystemClock(),
        daemon.cache.pods,
        namespace=daemon.namespace,
        own=os.environ.get("POD_NAME") or os.environ.get("HOSTNAME"),
        urls=[url for url in (settings.prometheus.url, *build.urls(build.policies(settings))) if url],
    )
    landing = ReplacementReservations(daemon.extending.steering, daemon.clock, interval=settings.eviction.interval)
    evictor = Evictor(
        writer=daemon.writer,
        state=daemon.state,
        clock=daemon.clock,
        metrics=daemon.metrics,
        events=daemon.events,
        landing=landing,
        options=EvictorOptions(
            prefix=settings.publishing.prefix,
            window=settings.windows.lengths[0],
            lag=_lag(settings),
            acts=settings.eviction.mode is Mode.ON,
            grace_period=settings.eviction.grace_period,
            ready_within=settings.eviction.ready_within,
            nominate=settings.eviction.nominate,
        ),
    )
    return EvictionJob(
        settings,
        clock=daemon.clock,
        metrics=daemon.metrics,
        board=daemon.board,
        conditions=daemon.conditions,
        cache=daemon.cache,
        workloads=daemon.workloads,
        asking=PodUsageCache(daemon.telemetry.source, daemon.api.get, settings),
        evictor=evictor,
        events=daemon.events,
        landing=landing,
        worker=PlanningProcess(),
        leading=daemon.elector.is_leader,
        paused=lambda: daemon.switches.paused(PART),
        protected=protected,
        power_plans=lambda: daemon.powering.changing if daemon.powering else frozenset(),
    )


def _lag(settings: Settings) -> float:
    """Seconds over which a sample itself is a mean: presets ask for rates of all but memory."""
    rates = any(resource.name != "memory" for resource in settings.telemetry.resources)
    return (
        float(Duration(rate_window(settings.telemetry.interval)))
        if rates and settings.telemetry.source == "prometheus"
        else 0.0
    )
