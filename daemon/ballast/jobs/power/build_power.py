"""What the job `power` is made of, from the settings."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path

from ballast.actuation.protected import Protected
from ballast.actuation.scaling.actuators import Actuators
from ballast.actuation.scaling.cap import ORIGINAL
from ballast.actuation.scaling.scale import is_ours
from ballast.actuation.scaling.target_status import Actuator, TargetStatus
from ballast.base.clock import Clock
from ballast.base.errors import ClusterError, SettingsError, UsageError
from ballast.cluster.cache import Cache
from ballast.cluster.client import KubeApi
from ballast.cluster.context import Context
from ballast.cluster.watch import WATCH_SILENT
from ballast.cluster.writer import EmergencyWriter
from ballast.jobs.power.budget import PolicyController
from ballast.jobs.power.departed import DepartedTargets
from ballast.jobs.power.policy_conditions import PowerEvents
from ballast.jobs.power.power_job import PolicyRun, PowerJob
from ballast.jobs.power.store import PowerStore
from ballast.model.pod import Pod
from ballast.model.snapshot import Snapshot
from ballast.power.averaging import Average, range_of
from ballast.power.learned_watts import WattsLearner
from ballast.power.plausible import doubts
from ballast.power.policy import PowerPolicy
from ballast.power.policy_reader import hidden_exporters, labelled, not_to_run, read, remarks, unusable_at
from ballast.power.sections import Need
from ballast.power.values import exact
from ballast.serving.board import Board
from ballast.settings import Mode, Settings, mask_urls
from ballast.telemetry.feeds import budget_feed
from ballast.telemetry.feeds.budget_feed import BudgetFeed, NeedsReader
from ballast.telemetry.feeds.power_schedule import ScheduleReader, recorded_schedule
from ballast.telemetry.prometheus_client import PrometheusClient


@dataclass(frozen=True)
class PolicyFindings:
    """What keeps the policies from being followed, and what to warn of."""

    policies: tuple[PowerPolicy, ...] = ()
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def findings(settings: Settings, called: str = "power", now: float | None = None) -> PolicyFindings:
    """The policies, checked as the daemon needs them, also while power is off.

    `called` names where they stand, `now` (Unix seconds) is what the files of schedules are held against.
    """
    if not settings.power.policies:
        idle = (
            "BALLAST_POWER__MODE is on, but there is no policy. Give a JSON list in BALLAST_POWER__POLICIES, or power "
            "in the file of BALLAST_CONFIG_FILE."
        )
        return PolicyFindings(warnings=(idle,) if settings.power.mode is Mode.ON else ())
    try:
        parsed = read(settings.power.policies, called)
    except SettingsError as error:
        return PolicyFindings(problems=tuple(map(mask_urls, error.problems)))
    interval = exact(float(settings.telemetry.interval))
    problems: list[str] = []
    warnings: list[str] = []
    for policy in parsed:
        label = labelled(called, policy.name if len(parsed) > 1 else None)
        texts = (
            *not_to_run(policy),
            *unusable_at(policy, interval, "BALLAST_TELEMETRY__INTERVAL"),
            *budget_feed.problems(policy),
            *_without_prometheus(policy, settings),
        )
        problems.extend(f"{label}: {text}" for text in texts)
        warnings.extend(f"{label}: {text}" for text in (*remarks(policy, interval), *hidden_exporters(policy)))
        warnings.extend(f"{label}: {text}" for text in _doubts(policy, now))
    return PolicyFindings(parsed, tuple(problems), tuple(warnings))


def _doubts(policy: PowerPolicy, now: float | None) -> Iterator[str]:
    """What can hardly be right of the schedule; its file is read where it is here."""
    try:
        path = None if policy.schedule is None else policy.schedule.csv
        schedule = recorded_schedule(policy) if path is not None and Path(path).is_file() else None
    except UsageError as error:
        schedule = None
        yield f"the schedule cannot be read: {error}"
    yield from doubts(policy, schedule, now)


def policies(settings: Settings) -> tuple[PowerPolicy, ...]:
    """Those that are followed: none while power is off. Raises SettingsError."""
    if settings.power.mode is Mode.OFF:
        return ()
    checked = findings(settings)
    if checked.problems:
        raise SettingsError(*checked.problems)
    return checked.policies


def urls(found: Sequence[PowerPolicy]) -> tuple[str, ...]:
    """What the feeds are read from, beside Prometheus."""
    parts = (
        part for policy in found for part in (policy.feed, policy.consumption, policy.schedule) if part is not None
    )
    return tuple(part.url for part in parts if part.url)


def client(settings: Settings, found: Sequence[PowerPolicy]) -> PrometheusClient | None:
    """None where nobody asks Prometheus."""
    return PrometheusClient(settings) if any(map(_asks, found)) else None


def build(context: Context, policies: Sequence[PowerPolicy], board: Board, client: PrometheusClient | None) -> PowerJob:
    """The job. Raises SettingsError and UsageError for a feed that cannot be read."""
    settings, machine = context.settings, context.machine_clock
    protected = Protected(
        context.api,
        machine,
        context.cache.pods,
        namespace=context.namespace,
        own=os.environ.get("POD_NAME"),
        urls=[url for url in (settings.prometheus.url, *urls(policies)) if url],
        operator_only=frozenset(f"{settings.publishing.prefix}/{name}" for name in settings.power.operator_only),
    )
    actuators = Actuators(
        context.api,
        context.workloads,
        partial(_pods, context.cache),
        context.writer,
        EmergencyWriter(context.writer),
        machine,
        prefix=settings.publishing.prefix,
        protected=protected,
    )
    departed = None
    if settings.power.mode is Mode.ON:
        restore = partial(actuators.restore, reason="it is in no power policy any more")
        departed = DepartedTargets(context.state, policies, restore)
    return PowerJob(
        context,
        [_run(context, policy, actuators, board, client) for policy in policies],
        PowerEvents(context.events, context.namespace),
        partial(setattr, board, "power"),
        departed,
    )


def _pods(cache: Cache) -> tuple[Pod, ...]:
    """Raises ClusterError while they are not known."""
    if not cache.listed("pods") or cache.age("pods") > WATCH_SILENT:
        raise ClusterError(cache.problem("pods") or "the pods have not been listed yet")
    return cache.pods()


def _run(
    context: Context, policy: PowerPolicy, actuators: Actuators, board: Board, client: PrometheusClient | None
) -> PolicyRun:
    settings, clock, metrics = context.settings, context.clock, context.metrics
    shadow = settings.power.mode is not Mode.ON
    needs_reader = NeedsReader(policy, client, metrics) if client is not None and _has_needs(policy) else None
    feed = BudgetFeed(policy, client, clock, metrics)
    budget = PolicyController(
        policy,
        actuators,
        PowerStore(context.state, policy.name, shadow=shadow),
        shadow=shadow,
        needs=partial(_read_needs, needs_reader, clock, settings),
        loads=lambda: _node_loads(board.snapshot),
        traces=partial(_traces, context.api, f"{settings.publishing.prefix}/{ORIGINAL}"),
        meter=WattsLearner(policy) if policy.consumption is not None or policy.shares_limit else None,
    )
    average = Average(_consumption_range(policy))
    own = partial(_average_own_watts, budget, actuators, average, clock) if feed.needs_own else lambda: None
    keys = None if shadow else context.state
    schedule = None if policy.schedule is None else ScheduleReader(policy, client, keys)
    if policy.consumption is None:
        return PolicyRun(budget, feed, own, schedule, keys=keys)
    drawn = BudgetFeed(policy.model_copy(update={"feed": policy.consumption}), client, clock, metrics)
    return PolicyRun(budget, feed, own, schedule, lambda at: drawn.read(at).watts, drawn.close, keys)


def _without_prometheus(policy: PowerPolicy, settings: Settings) -> Iterator[str]:
    if _asks(policy) and settings.prometheus.url is None:
        yield (
            "the policy asks Prometheus, and BALLAST_PROMETHEUS__URL is not set: expected its address, such as "
            "http://prometheus-k8s.monitoring:9090. Set it."
        )


def _asks(policy: PowerPolicy) -> bool:
    scheduled = policy.schedule is not None and policy.schedule.query is not None
    metered = policy.consumption is not None and policy.consumption.query is not None
    return budget_feed.asks_prometheus(policy) or _has_needs(policy) or scheduled or metered


def _has_needs(policy: PowerPolicy) -> bool:
    return any(place.member.needs for place in policy.places.values())


def _read_needs(
    reader: NeedsReader | None, clock: Clock, settings: Settings, counts: Mapping[str, int]
) -> Mapping[str, Need]:
    """What targets with these counts need at the newest moment that is read; nothing where no member has `needs`."""
    if reader is None:
        return {}
    interval = float(settings.telemetry.interval)
    return reader.read(clock.wall() // interval * interval - settings.telemetry.offset, counts)


def _consumption_range(policy: PowerPolicy) -> Fraction:
    """Seconds over which the feed's consumption is averaged: replicas would swing if their own part were not."""
    consumption = policy.feed.consumption if policy.feed is not None else None
    return Fraction(0) if consumption is None else range_of(consumption.query)


def _average_own_watts(
    budget: PolicyController, actuators: Actuators, average: Average, clock: Clock
) -> Fraction | None:
    own = own_watts(budget.in_force, actuators)
    return None if own is None else average.add(exact(clock.monotonic()), own)


def own_watts(policy: PowerPolicy, actuators: Actuators) -> Fraction | None:
    """Watts of the replicas that run now, as their controllers count them; None where one cannot be seen."""
    total = Fraction(0)
    statuses = actuators.read(policy)
    for name, place in policy.places.items():
        running = statuses[name].running
        if running is None or place.member.watts_per_replica is None:
            return None
        total += running * place.member.watts
    return total


def _node_loads(snapshot: Snapshot | None) -> Mapping[str, float] | None:
    """The larger of cpu's and memory's mean by node, where one of them is known."""
    if snapshot is None:
        return None
    rows = [row for row, name in enumerate(snapshot.resources) if name in ("cpu", "memory")]
    means = snapshot.primary.mean[rows]
    loads = {}
    for column, node in enumerate(snapshot.nodes):
        known = [value for value in means[:, column].tolist() if value == value]
        if known:
            loads[node.name] = max(known)
    return loads


def _traces(api: KubeApi, annotation: str, statuses: Mapping[str, TargetStatus]) -> Iterator[str]:
    """Targets whose replicas or caps were last set by Ballast; each is asked for when it is its turn."""
    return (name for name, status in statuses.items() if _is_ours(api, annotation, status))


def _is_ours(api: KubeApi, annotation: str, status: TargetStatus) -> bool:
    if status.actuator is Actuator.SCALE:
        return is_ours(api, status.scale_path.removesuffix("/scale"), "replicas")
    return status.autoscaler is not None and annotation in status.autoscaler.annotations
