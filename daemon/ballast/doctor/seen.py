"""Which conditions of the daemon say what a check finds, and what the daemon cannot see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Seen(NamedTuple):
    """`conditions` the daemon raises for the same fact; `unseen` is what only the doctor sees, "" where nothing is."""

    conditions: tuple[str, ...] = ()
    unseen: str = ""


_SCHEDULERS = "The configuration of schedulers, which the daemon has no right to read."

SEEN: Mapping[str, Seen] = {
    "prometheus-reachable": Seen(("TelemetryDegraded",)),
    "prometheus-credentials": Seen(("TelemetryDegraded",)),
    "preset-data": Seen(("TelemetryDegraded",)),
    "node-label": Seen(("TelemetryDegraded", "UnmatchedSeries")),
    "clusters-mixed": Seen(("SeriesDiffer",)),
    "duplicate-exporters": Seen(("SeriesDiffer",)),
    "scrape-interval": Seen(("ScrapesSlow",)),
    "clock-skew": Seen(("TelemetryDegraded",)),
    "freshness": Seen(("TelemetryDegraded",)),
    "units": Seen(("TelemetryDegraded",)),
    "unmeasured-nodes": Seen(("NodesUnmeasured",)),
    "metrics-server": Seen(("FallbackMissing", "TelemetryDegraded")),
    "sources-disagree": Seen(("SourcesDisagree",)),
    "kubernetes-reachable": Seen(("ClusterUnreachable",)),
    "rbac": Seen(
        ("ClusterUnreachable", "PodsUnreadable", "LeaseFailing", "PublishingFailing", "CraneFailing", "StateNotSaved"),
        "A right that no cycle has needed yet.",
    ),
    "lease": Seen(("LeaseFailing",), "That no replica runs."),
    "second-ballast": Seen(
        ("SecondBallast", "Contended"),
        "Leases and Deployments of other namespaces, which the daemon has no right to read.",
    ),
    "pairing-labels": Seen((), _SCHEDULERS),
    "pairing-extender": Seen(
        ("LandingNotSteered", "ReservationsNotHeld", "BatchNotSteered"),
        f"{_SCHEDULERS} What it sees is who asks.",
    ),
    "pairing-trimaran": Seen((), _SCHEDULERS),
    "pairing-crane": Seen(("CraneFailing",), _SCHEDULERS),
    "autoscaler-labels": Seen((), "The flags of cluster-autoscaler: the daemon does not read containers' arguments."),
    "power-feed": Seen(("FeedAvailable", "ScheduleAvailable", "Fallback")),
    "power-consumption": Seen(("ConsumptionUnknown", "EffectMissing")),
    "power-targets": Seen(("Degraded",)),
    "power-autoscalers": Seen(("Degraded", "Limited", "Contended")),
    "budgets-unsatisfiable": Seen(("BudgetsUnsatisfiable",)),
    "eviction-landing": Seen(("LandingNotSteered",)),
    "extender-open": Seen((), "NetworkPolicies, which the daemon has no right to read."),
    "pod-usage": Seen(("PodUsageUnknown",)),
}
"""By check."""


def described(check: str) -> str:
    """What the page says of the daemon."""
    seen = SEEN[check]
    said = ", ".join(f"`{each}`" for each in seen.conditions)
    if not seen.conditions:
        return f"cannot see it: {seen.unseen[:1].lower()}{seen.unseen[1:]}"
    return f"{said}. Only the doctor sees: {seen.unseen[:1].lower()}{seen.unseen[1:]}" if seen.unseen else f"{said}."
