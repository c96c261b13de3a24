"""Which meters of power Prometheus has, and the policy that goes by each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from math import ceil

from ballast.base.errors import TelemetryError
from ballast.doctor.cluster_view import CheckNotPossible
from ballast.doctor.evidence import Evidence
from ballast.doctor.finding import Finding
from ballast.doctor.power import likely_unit, usable
from ballast.settings import Settings
from ballast.telemetry import responses
from ballast.telemetry.exporters.terms import Terms
from ballast.telemetry.feeds.power_feed import PrometheusFeed
from ballast.telemetry.prometheus_client import Grid, PrometheusClient

PLAUSIBLE = 1.0, 100_000.0
"""Watts of one series: from a small board to a row of racks."""


@dataclass(frozen=True)
class Meter:
    """`query` has the selector of `metric` as {it}; `more` are matchers that leave one series for each machine."""

    what: str
    metric: str
    query: str = "{it}"
    more: tuple[str, ...] = ()
    freshness: bool = False
    """Whether the age of the query's samples has to be asked apart."""


METERS = (
    Meter("a PDU read by SNMP", "rPDU2DeviceStatusPower", "10 * {it}", freshness=True),
    Meter("servers read by IPMI", "ipmi_dcmi_power_consumption_watts"),
    Meter("servers read by Redfish", "idrac_power_control_consumed_watts"),
    Meter("Kepler", "kepler_node_cpu_watts", more=('zone="package"',)),
    Meter("Kepler before 0.10", "kepler_node_platform_joules_total", "rate({it}[2m])"),
    Meter("GPUs read by DCGM", "DCGM_FI_DEV_POWER_USAGE"),
    Meter("boards read by node_exporter (hwmon)", "node_hwmon_power_average_watt"),
    Meter("processors read by node_exporter (RAPL)", "node_rapl_package_joules_total", "rate({it}[2m])"),
    Meter("a UPS read by NUT", "network_ups_tools_ups_realpower"),
)
"""Those of docs/power-recipes.md, the ones that see most of a machine first."""


def meters(evidence: Evidence) -> Iterator[Finding]:
    """Which meters of power Prometheus has, what they show now, and whether policies go by one.

    Found: no meter tells what a policy draws, though Prometheus has one; a meter shows what no machine draws.
    Fix: `consumption: {query: ipmi_dcmi_power_consumption_watts, expectSeries: 6}`, or a whole policy to begin with
    """
    settings = evidence.settings
    if settings.prometheus.url is None:
        raise CheckNotPossible("BALLAST_PROMETHEUS__URL is not set")
    evidence.require_answer()
    blind = _without_meter(evidence)
    if blind is not None and not blind:
        yield Finding("power-metered", "ok", "", "every policy has a meter")
        return
    with closing(PrometheusClient(settings)) as client:
        found = list(_found(client, settings, evidence.at))
        if not found:
            raise CheckNotPossible("Prometheus has no meter of power that is known (docs/power-recipes.md)")
        for meter, query, count in found:
            yield _shown(evidence, client, meter, query, count, blind)


def _shown(
    evidence: Evidence, client: PrometheusClient, meter: Meter, query: str, count: int, blind: tuple[str, ...] | None
) -> Finding:
    """One finding for each meter: what it shows, and the lines to copy."""
    freshness = f"min(timestamp({_selector(meter, evidence.settings)}))" if meter.freshness else None
    sample = PrometheusFeed(client, query, freshness=freshness, expect_series=count).read(evidence.at)
    keys = [f"query: {_quoted(query)}"]
    keys += [f"freshness: {_quoted(freshness)}"] if freshness else []
    keys += [f"expectSeries: {count}"] if count > 1 else []
    line = f"consumption: {{{', '.join(keys)}}}"
    if sample.watts is None:
        return Finding("power-metered", "warn", meter.what, f"{query}: {sample.problem or 'no sample'}", (line,))
    each = sample.watts / count
    shown = f"{sample.watts:,.0f} W by {count} series of {meter.metric}"
    if not each:
        return Finding("power-metered", "warn", meter.what, f"{shown}: they measure nothing now", (line,))
    if not PLAUSIBLE[0] <= each <= PLAUSIBLE[1]:
        keys.append(f"unit: {likely_unit(each, *PLAUSIBLE)}")
        message = f"{shown}: no machine draws {each:,.4g} W; check its unit"
        return Finding("power-metered", "warn", meter.what, message, (f"consumption: {{{', '.join(keys)}}}",))
    if blind is None:
        feed = f"feed: {{watts: {ceil(sample.watts / 100) * 100}}}"
        member = "independents: [{ref: NAMESPACE/NAME, min: 1, max: 10, wattsPerReplica: measured}]"
        message = f"{shown}. A policy by it, with your limit in watts and your workload:"
        return Finding("power-metered", "ok", meter.what, message, (f"power: {{{feed}, {line}, {member}}}",))
    message = f"{shown}, and no meter tells what policy {', '.join(blind)} draws"
    return Finding("power-metered", "warn", meter.what, message, (line,))


def _without_meter(evidence: Evidence) -> tuple[str, ...] | None:
    """The policies that no meter follows; None where there is no policy that can be used."""
    try:
        policies = usable(evidence)
    except CheckNotPossible:
        return None
    return tuple(policy.name for policy in policies if policy.consumption is None and not policy.shares_limit)


def _found(client: PrometheusClient, settings: Settings, at: float) -> Iterator[tuple[Meter, str, int]]:
    """Each meter that has series, its query, and how many they are."""
    asked = [(meter, client.start(_selector(meter, settings), Grid(at, 1.0, 1))) for meter in METERS]
    for meter, answer in asked:
        try:
            count = len(responses.instant(answer.result(), (), client.url, every=True))
        except TelemetryError as error:
            raise CheckNotPossible(f"Prometheus cannot be asked about meters of power: {error}") from error
        if count:
            yield meter, meter.query.format(it=_selector(meter, settings)), count


def _selector(meter: Meter, settings: Settings) -> str:
    return Terms((), settings.prometheus.matchers, "").pick(meter.metric, *meter.more)


def _quoted(query: str) -> str:
    """As YAML takes it in braces."""
    return "'" + query.replace("'", "''") + "'" if set(query) & set("{},[]:") else query
