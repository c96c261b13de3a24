"""Which conditions of the daemon say what a check finds, and what the daemon cannot see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class DaemonView(NamedTuple):
    """`conditions` the daemon raises for the same fact; `unseen` is what only the doctor sees, "" where nothing is."""

    conditions: tuple[str, ...] = ()
    unseen: str = ""


_SCHEDULERS = "The configuration of schedulers, which the daemon has no right to read."

SEEN: Mapping[str, DaemonView] = {
    "prometheus-reachable": DaemonView(("TelemetryDegraded",)),
    "prometheus-credentials": DaemonView(("TelemetryDegraded",)),
    "preset-data": DaemonView(("TelemetryDegraded",)),
    "node-label": DaemonView(("TelemetryDegraded", "UnmatchedSeries")),
    "clusters-mixed": DaemonView(("SeriesDiffer",)),
    "duplicate-exporters": DaemonView(("SeriesDiffer",)),
    "scrape-interval": DaemonView(("ScrapesSlow",)),
    "clock-skew": DaemonView(("TelemetryDegraded",)),
    "freshness": DaemonView(("TelemetryDegraded",)),
    "units": DaemonView(("TelemetryDegraded",)),
    "unmeasured-nodes": DaemonView(("NodesUnmeasured",)),
    "metrics-server": DaemonView(("FallbackMissing", "TelemetryDegraded")),
    "sources-disagree": DaemonView(("SourcesDisagree",)),
    "kubernetes-reachable": DaemonView(("ClusterUnreachable",)),
    "rbac": DaemonView(
        ("ClusterUnreachable", "PodsUnreadable", "LeaseFailing", "PublishingFailing", "CraneFailing", "StateNotSaved"),
        "A right that no cycle has needed yet.",
    ),
    "lease": DaemonView(("LeaseFailing",), "That no replica runs."),
    "second-ballast": DaemonView(
        ("SecondBallast", "Contended"),
        "Leases and Deployments of other namespaces, which the daemon has no right to read.",
    ),
    "pairing-labels": DaemonView((), _SCHEDULERS),
    "pairing-extender": DaemonView(
        ("LandingNotSteered", "ReservationsNotHeld", "BatchNotSteered"),
        f"{_SCHEDULERS} What it sees is who asks.",
    ),
    "pairing-trimaran": DaemonView((), _SCHEDULERS),
    "pairing-crane": DaemonView(("CraneFailing",), _SCHEDULERS),
    "autoscaler-labels": DaemonView(
        (), "The flags of cluster-autoscaler: the daemon does not read containers' arguments."
    ),
    "power-feed": DaemonView(("FeedAvailable", "ScheduleAvailable", "Fallback")),
    "power-consumption": DaemonView(("ConsumptionUnknown", "EffectMissing")),
    "power-targets": DaemonView(("Degraded",)),
    "power-autoscalers": DaemonView(("Degraded", "Limited", "Contended")),
    "budgets-unsatisfiable": DaemonView(("BudgetsUnsatisfiable",)),
    "eviction-landing": DaemonView(("LandingNotSteered",)),
    "extender-open": DaemonView((), "NetworkPolicies, which the daemon has no right to read."),
    "pod-usage": DaemonView(("PodUsageUnknown",)),
}
"""By check."""


def described(check: str) -> str:
    """What the page says of the daemon."""
    seen = SEEN[check]
    said = ", ".join(f"`{each}`" for each in seen.conditions)
    if not seen.conditions:
        return f"cannot see it: {seen.unseen[:1].lower()}{seen.unseen[1:]}"
    return f"{said}. Only the doctor sees: {seen.unseen[:1].lower()}{seen.unseen[1:]}" if seen.unseen else f"{said}."
