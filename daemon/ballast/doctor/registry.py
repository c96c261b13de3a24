"""The checks by name. A group is one file; its checks are functions of the evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from ballast.doctor import kubernetes, pods, rights, series, source, witness
from ballast.doctor.cluster_view import Missing
from ballast.doctor.evidence import Evidence
from ballast.doctor.finding import Finding, Report, report
from ballast.errors import BallastError, UsageError

Check = Callable[[Evidence], Iterator[Finding]]

CHECKS: Mapping[str, Check] = {
    "prometheus-reachable": source.reachable,
    "prometheus-credentials": source.credentials,
    "preset-data": series.preset_data,
    "node-label": series.node_label,
    "clusters-mixed": series.clusters_mixed,
    "duplicate-exporters": series.duplicate_exporters,
    "scrape-interval": series.scrape_interval,
    "clock-skew": series.clock_skew,
    "freshness": series.freshness,
    "units": series.units,
    "unmeasured-nodes": series.unmeasured_nodes,
    "metrics-server": witness.metrics_server,
    "sources-disagree": witness.sources_disagree,
    "pod-usage": pods.pod_usage,
    "kubernetes-reachable": kubernetes.reachable,
    "rbac": rights.rbac,
    "lease": kubernetes.lease,
    "second-ballast": kubernetes.second_ballast,
}


def examine(evidence: Evidence, only: Sequence[str] = ()) -> Report:
    """Runs the checks. What one needs and cannot get makes it `skipped`. Raises UsageError for an unknown name."""
    unknown = [name for name in only if name not in CHECKS]
    if unknown:
        raise UsageError(f"--only: there is no check {unknown[0]!r}. Choose among {', '.join(CHECKS)}.")
    chosen = [name for name in CHECKS if not only or name in only]
    return report(finding for name in chosen for finding in _run(name, CHECKS[name], evidence))


def _run(name: str, check: Check, evidence: Evidence) -> list[Finding]:
    try:
        return list(check(evidence)) or [Finding(name, "ok", "", "nothing found")]
    except Missing as missing:
        return [Finding(name, "skipped", "", str(missing))]
    except BallastError as error:
        return [Finding(name, "fail", "", str(error))]
