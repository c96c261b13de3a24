"""The checks by name. A group is one file; its checks are functions of the evidence."""

import math
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from ballast.base.errors import BallastError, UsageError
from ballast.base.text import HIDDEN
from ballast.doctor import (
    eviction_needs,
    exposure,
    following,
    kubernetes,
    pairing,
    power,
    power_meters,
    rights,
    series,
    source_checks,
)
from ballast.doctor.cluster_view import CheckNotPossible
from ballast.doctor.evidence import Evidence
from ballast.doctor.finding import Finding, Report, report
from ballast.doctor.install import install
from ballast.doctor.outlook import Outlook, outlook
from ballast.doctor.trial import tried
from ballast.settings import mask_urls

_EXTENDER_TOKEN = re.compile(r"/scheduler/(?!(?:filter|prioritize|bind)\b)[^/\s\"'?]+")

Check = Callable[[Evidence], Iterator[Finding]]

CHECKS: Mapping[str, Check] = {
    "prometheus-reachable": source_checks.reachable,
    "prometheus-credentials": source_checks.credentials,
    "preset-data": series.preset_data,
    "node-label": series.node_label,
    "clusters-mixed": series.clusters_mixed,
    "duplicate-exporters": series.duplicate_exporters,
    "several-jobs": series.several_jobs,
    "copied-labels": series.copied_labels,
    "scrape-interval": series.scrape_interval,
    "clock-skew": series.clock_skew,
    "freshness": series.freshness,
    "units": series.units,
    "unmeasured-nodes": series.unmeasured_nodes,
    "metrics-server": source_checks.metrics_server,
    "sources-disagree": source_checks.sources_disagree,
    "kubernetes-reachable": kubernetes.reachable,
    "rbac": rights.rbac,
    "lease": kubernetes.lease,
    "second-ballast": kubernetes.second_ballast,
    "pairing-labels": pairing.labels,
    "pairing-extender": pairing.extender,
    "pairing-trimaran": pairing.trimaran,
    "pairing-crane": pairing.crane,
    "autoscaler-labels": eviction_needs.autoscaler_labels,
    "power-feed": power.feed,
    "power-consumption": power.consumption,
    "power-metered": power_meters.meters,
    "power-targets": power.targets,
    "power-autoscalers": power.autoscalers,
    "budgets-unsatisfiable": eviction_needs.budgets_unsatisfiable,
    "eviction-landing": eviction_needs.landing,
    "eviction-prices": eviction_needs.refusals,
    "extender-open": exposure.extender_open,
    "pod-usage": eviction_needs.pod_usage,  # the last two read every pod
    "scheduler-follows": following.scheduler_follows,
}


_TELEMETRY = frozenset(
    name for name, check in CHECKS.items() if check.__module__ in (series.__name__, source_checks.__name__)
)

WITHIN = 8.0
"""Seconds. Later the command starts no check and reads no page of a list."""


def examine(evidence: Evidence, only: Sequence[str] = (), within: float = math.inf) -> Report:
    """Runs the checks. What one needs and cannot get makes it `skipped`, and so does a start after `within` seconds.

    Raises UsageError for an unknown name.
    """
    begun = evidence.clock.monotonic()
    unknown = [name for name in only if name not in CHECKS]
    if unknown:
        raise UsageError(f"--only: there is no check {unknown[0]!r}. Choose among {', '.join(CHECKS)}.")
    chosen = [name for name in CHECKS if not only or name in only]
    findings: list[Finding] = []
    timer = threading.Timer(min(max(0.0, within), threading.TIMEOUT_MAX), evidence.cluster.stop.set)
    timer.daemon = True
    timer.start()
    try:
        for name in chosen:
            late = evidence.clock.monotonic() - begun > within
            findings += [_late(name, within)] if late else _run(name, CHECKS[name], evidence)
        late = evidence.clock.monotonic() - begun > within
        future = Outlook(None, {}, ("the checks took too long",)) if late else _outlook(evidence, chosen)
    finally:
        timer.cancel()
    line, assumed = install(evidence)
    return report(findings, future, (_hide(line), tuple(map(_hide, assumed))))


def _outlook(evidence: Evidence, chosen: Sequence[str]) -> Outlook:
    """Where a check of telemetry is made."""
    if _TELEMETRY.isdisjoint(chosen):
        return Outlook(None, {}, ("no check of telemetry is made",))
    future = outlook(evidence)
    return Outlook(future.frozen_in_seconds, future.states, tuple(map(_hide, future.why)))


def _late(name: str, within: float) -> Finding:
    message = f"the checks before it took {within:g} s. Make it alone: ballast doctor --only {name}"
    return Finding(name, "skipped", "", message)


def _run(name: str, check: Check, evidence: Evidence) -> list[Finding]:
    try:
        found = list(check(evidence))
        if name in _TELEMETRY:
            found = [tried(evidence, finding) for finding in found]
        return [_without_secrets(finding) for finding in found] or [Finding(name, "ok", "", "nothing wrong")]
    except CheckNotPossible as missing:
        return [Finding(name, "skipped", "", _hide(str(missing)))]
    except BallastError as error:
        return [Finding(name, "fail", "", _hide(str(error)))]


def _without_secrets(finding: Finding) -> Finding:
    subject, message, fix = _hide(finding.subject), _hide(finding.message), tuple(map(_hide, finding.fix))
    return replace(finding, subject=subject, message=message, fix=fix)


def _hide(text: str) -> str:
    """Hides what stands in addresses: user, password and query, and the token in the path of the extender."""
    return _EXTENDER_TOKEN.sub(f"/scheduler/{HIDDEN}", mask_urls(text))
