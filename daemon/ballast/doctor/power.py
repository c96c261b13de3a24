"""Checks of power policies: their feeds, what they measure, their targets, and what else scales these."""

import math
from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction

from ballast.actuation.scaling import scale
from ballast.actuation.scaling.cap import paused
from ballast.actuation.scaling.target_status import Autoscalers, deletes_claims
from ballast.base.errors import BallastError, ClusterError, NotFound, SettingsError, UsageError
from ballast.base.metrics import Metrics
from ballast.cluster.listing import list_all
from ballast.cluster.workload_cache import AUTOSCALERS, SCALED_OBJECTS, STATEFUL_SETS, WORKLOADS, plural_of, reader
from ballast.doctor.cluster_view import CheckNotPossible, document, text
from ballast.doctor.evidence import PATIENCE, Evidence
from ballast.doctor.finding import Finding
from ballast.jobs.power.build_power import PolicyFindings, client, findings
from ballast.model.workload import Autoscaler, Workload
from ballast.power.feed_spec import FeedSpec, Unit
from ballast.power.plausible import FACTOR, drawn_at_most, far_off
from ballast.power.policy import Member, PowerPolicy
from ballast.settings import Mode
from ballast.telemetry.feeds.budget_feed import BudgetFeed, Watts
from ballast.telemetry.feeds.power_schedule import ScheduleReader

_PATHS = {AUTOSCALERS: "/apis/autoscaling/v2/", SCALED_OBJECTS: "/apis/keda.sh/v1alpha1/"}


def feed(evidence: Evidence) -> Iterator[Finding]:
    """Whether every policy can be followed, and its feed answers a valid, fresh sample that can be right.

    Found: the policies cannot be used as they are; a feed does not answer, has no or several series, or is too old; its
    watts or those of the schedule are far from what the targets can draw; the schedule cannot be read, or ends.
    Fix: the lines of the policy's `feed`, such as `feed: {query: site_available_watts, expectSeries: 2}`
    """
    policies = _read(evidence)
    if policies.problems:
        for problem in policies.problems:
            yield Finding("power-feed", "fail", "BALLAST_POWER__POLICIES", problem, ("ballast config check",))
        return
    for warning in policies.warnings:
        yield Finding("power-feed", "warn", "BALLAST_POWER__POLICIES", warning, ("ballast config check",))
    for policy in policies.policies:
        if policy.feed is not None:
            yield from _sample_feed(evidence, "power-feed", policy, policy.feed, "feed")
        if policy.schedule is not None and policy.schedule.csv is None:
            yield from _sample_schedule(evidence, policy)


def consumption(evidence: Evidence) -> Iterator[Finding]:
    """Whether what the policies' replicas draw can be read, where they say how.

    Found: a policy's `consumption` does not answer a valid, fresh sample: what is measured is not known then.
    Fix: the lines of the policy's `consumption`, such as `consumption: {query: sum(rack_watts), maxAge: 2m}`
    """
    metered = [policy for policy in usable(evidence) if policy.consumption is not None]
    if not metered:
        raise CheckNotPossible("no policy has a consumption")
    for policy in metered:
        if policy.consumption is not None:
            measured = policy.model_copy(update={"feed": policy.consumption})
            yield from _sample_feed(evidence, "power-consumption", measured, policy.consumption, "consumption")


def targets(evidence: Evidence) -> Iterator[Finding]:
    """Whether every target of the policies exists and can be scaled, and a fall deletes no data.

    Found: there is no such workload, it is a DaemonSet, its kind has no /scale, or a fall of its replicas would delete
    their volume claims.
    Fix: `kubectl -n prod get deployments`, the member's `ref: prod/api`, or `deleteClaims: true`
    """
    for policy in usable(evidence):
        for place in policy.places.values():
            member = place.member
            if problem := _unscalable(evidence, member):
                yield Finding("power-targets", "fail", member.name, problem, _show_commands(member))
            elif danger := _deletes_claims(evidence, member):
                yield Finding(
                    "power-targets", "fail", member.name, danger, (_keep_command(member), "deleteClaims: true")
                )


def autoscalers(evidence: Evidence) -> Iterator[Finding]:
    """Whether what else scales the targets leaves room for a cap.

    Found: two autoscalers scale one target, an autoscaler's minimum is above the member's `max`, a ScaledObject is
    paused, or `actuation` does not fit.
    Fix: `kubectl -n prod delete hpa api`, `actuation: auto`
    """
    policies = usable(evidence)
    index = Autoscalers(_list_autoscalers(evidence, AUTOSCALERS), _list_autoscalers(evidence, SCALED_OBJECTS))
    for policy in policies:
        for place in policy.places.values():
            workload = _workload(evidence, place.member)
            if workload is None:
                continue
            detection = index.detect(workload, policy.actuation)
            show = f"kubectl -n {workload.namespace} get hpa,scaledobjects"
            if detection.problem:
                yield Finding(
                    "power-autoscalers", "fail", place.member.name, detection.problem, (show, "actuation: auto")
                )
            if detection.autoscaler is not None:
                yield from _no_room(place.member, detection.autoscaler, show)


def _read(evidence: Evidence) -> PolicyFindings:
    settings = evidence.settings
    if settings.power.mode is Mode.OFF:
        raise CheckNotPossible("BALLAST_POWER__MODE is off")
    if not settings.power.policies:
        raise CheckNotPossible("there is no power policy")
    return findings(settings, now=evidence.clock.wall())


def usable(evidence: Evidence) -> tuple[PowerPolicy, ...]:
    """The policies. Raises CheckNotPossible where there are none, power is off, or they cannot be used as they are."""
    policies = _read(evidence)
    if policies.problems:
        raise CheckNotPossible("the policies cannot be used as they are: see power-feed")
    return policies.policies


def _sample_feed(evidence: Evidence, check: str, policy: PowerPolicy, spec: FeedSpec, key: str) -> Iterator[Finding]:
    """What one read of a feed gives; the watts of running targets count as none."""
    fix = _other(spec, key)
    try:
        with closing(_FeedReader(evidence, policy)) as read:
            sample = read.now(evidence)
    except (SettingsError, UsageError) as error:
        yield Finding(check, "fail", policy.name, str(error), fix)
        return
    if sample.watts is None:
        yield Finding(check, "fail", policy.name, sample.problem or "it has no sample", fix)
    elif doubt := far_off(policy, sample.watts):
        most = float(drawn_at_most(policy))
        unit = likely_unit(float(sample.watts) / float(spec.unit.watts), most / FACTOR, most * FACTOR)
        message = f"{float(sample.watts):,.6g} W: {doubt}"
        yield Finding(check, "warn", policy.name, message, (f"{key}: {{unit: {unit}}}",))
    else:
        yield Finding(check, "ok", policy.name, f"{float(sample.watts):,.1f} W")


def likely_unit(number: float, least: float, most: float) -> Unit:
    """The unit in which it is between these watts, the nearest to watts; else that which brings it nearest."""
    units = sorted(Unit, key=lambda unit: abs(math.log10(unit.watts)))
    off = {unit: max(least / (number * float(unit.watts)), number * float(unit.watts) / most, 1.0) for unit in units}
    return min(units, key=lambda unit: off[unit])


def _sample_schedule(evidence: Evidence, policy: PowerPolicy) -> Iterator[Finding]:
    """A schedule that is asked for; one in a file is looked at with the settings."""
    asked = client(evidence.settings, [policy])
    try:
        with closing(ScheduleReader(policy, asked)) as reader:
            reader.lowest(evidence.clock.wall())
    finally:
        if asked is not None:
            asked.close()
    fix = ("schedule: {url: 'https://…', jsonPath: $.rows, unit: kW}",)
    if problem := reader.problem or reader.doubt:
        yield Finding("power-feed", "fail" if reader.problem else "warn", policy.name, problem, fix)


class _FeedReader:
    """A feed and the client it asks."""

    def __init__(self, evidence: Evidence, policy: PowerPolicy) -> None:
        self._client = client(evidence.settings, [policy])
        self._feed = BudgetFeed(policy, self._client, evidence.clock, Metrics(), PATIENCE)

    def now(self, evidence: Evidence) -> Watts:
        return self._feed.read(evidence.clock.wall(), Fraction(0))

    def close(self) -> None:
        self._feed.close()
        if self._client is not None:
            self._client.close()


def _other(spec: FeedSpec, key: str) -> tuple[str, ...]:
    if spec.url:
        return (f"curl -sS '{spec.url}'", f"{key}: {{url: '{spec.url}', jsonPath: $.watts, timePath: $.time}}")
    if spec.csv:
        return (f"ls -l {spec.csv}", f"{key}: {{csv: {spec.csv}}}")
    query = spec.query or "site_available_watts"
    return (f"{key}: {{query: '{query}', expectSeries: 2}}", f"{key}: {{query: '{query}', maxAge: 5m}}")


def _unscalable(evidence: Evidence, member: Member) -> str | None:
    if plural_of(member.kind) == "daemonsets":
        return "a DaemonSet has no replicas to set"
    try:
        path = _path(evidence, member)
        scale.decode(evidence.cluster.api.get(f"{path}/scale"))
    except NotFound:
        return f"there is no {member.ref}, or its kind has no /scale"
    except ClusterError as error:
        return str(error)
    return None


def _deletes_claims(evidence: Evidence, member: Member) -> str | None:
    workload = _workload(evidence, member)
    if workload is None:
        return None
    below: list[Workload] = []
    if plural_of(member.kind) not in WORKLOADS:
        path = f"/apis/apps/v1/namespaces/{workload.namespace}/{STATEFUL_SETS}"
        form = reader(STATEFUL_SETS, lambda key: True)
        try:
            listed = list_all(evidence.cluster.api, path, form, {}, evidence.cluster.stop)
        except ClusterError as error:
            raise CheckNotPossible(f"the {STATEFUL_SETS} cannot be read: {error}") from error
        below = [each for each in (listed or ([], ""))[0] if each.owner is not None and each.owner.uid == workload.uid]
    return deletes_claims(member, workload, below)


def _keep_command(member: Member) -> str:
    namespace, _, name = member.name.partition("/")
    if plural_of(member.kind) != STATEFUL_SETS:
        return f"kubectl -n {namespace} get {member.kind} {name} -o yaml"
    kept = '{"spec":{"persistentVolumeClaimRetentionPolicy":{"whenScaled":"Retain"}}}'
    return f"kubectl -n {namespace} patch {member.kind} {name} --type merge -p '{kept}'"


def _path(evidence: Evidence, member: Member) -> str:
    """The API path of a member's object. Raises ClusterError."""
    evidence.cluster.require_answer()
    namespace, _, name = member.name.partition("/")
    plural, _, group = member.kind.partition(".")
    version = "apps/v1"
    if group != "apps":
        api = evidence.cluster.api
        version = text(document(api, api.get(f"/apis/{group}")), "preferredVersion", "groupVersion")
    return f"/apis/{version}/namespaces/{namespace}/{plural}/{name}"


def _workload(evidence: Evidence, member: Member) -> Workload | None:
    plural = plural_of(member.kind)
    try:
        body = evidence.cluster.api.get(_path(evidence, member))
    except BallastError:
        return None
    workload = reader(plural, lambda key: True).read(body)
    return workload if isinstance(workload, Workload) else None


def _list_autoscalers(evidence: Evidence, kind: str) -> tuple[Autoscaler, ...]:
    """None where the kind is not served, as without KEDA."""
    evidence.cluster.require_answer()
    try:
        listed = list_all(
            evidence.cluster.api, f"{_PATHS[kind]}{kind}", reader(kind, lambda key: True), {}, evidence.cluster.stop
        )
    except NotFound:
        return ()
    except ClusterError as error:
        raise CheckNotPossible(f"the {kind} cannot be read: {error}") from error
    if listed is None:
        raise CheckNotPossible(f"the list of {kind} takes too long")
    return tuple(listed[0])


def _no_room(member: Member, autoscaler: Autoscaler, show: str) -> Iterator[Finding]:
    who = f"{autoscaler.own_kind} {autoscaler.own_name}"
    if autoscaler.own_kind == "ScaledObject" and (pause := paused(autoscaler)):
        unpause = f"kubectl -n {autoscaler.namespace} annotate scaledobject {autoscaler.own_name} {pause.key}-"
        yield Finding("power-autoscalers", "fail", member.name, f"{pause.text}: a cap has no effect", (unpause, show))
    if autoscaler.minimum > member.max:
        message = f"{who} keeps at least {autoscaler.minimum} replicas, the policy allows {member.max} at most"
        yield Finding("power-autoscalers", "fail", member.name, message, (f"max: {autoscaler.minimum}", show))


def _show_commands(member: Member) -> tuple[str, ...]:
    namespace = member.name.partition("/")[0]
    return (f"kubectl -n {namespace} get {member.kind}", f"kubectl get {member.kind} -A")
