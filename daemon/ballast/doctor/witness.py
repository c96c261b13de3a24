"""Checks of metrics-server, alone and beside Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ballast.doctor.cluster_view import CheckNotPossible
from ballast.doctor.evidence import Evidence
from ballast.doctor.finding import Finding, Status
from ballast.jobs.witnesses import TOLERANCE, apart
from ballast.telemetry.series_check import matchers_line

_INSTALL = "kubectl apply -f https://github.com/kubernetes-sigs/metrics-server/releases/latest/download/components.yaml"


def metrics_server(evidence: Evidence) -> Iterator[Finding]:
    """Whether it answers: as the source, or as what steps in for Prometheus.

    Found: metrics.k8s.io does not answer.
    Fix: `kubectl apply -f https://github.com/kubernetes-sigs/metrics-server/releases/latest/download/components.yaml`
    """
    problems = sorted(set(evidence.witness.problems.values()))
    if problems:
        only = evidence.settings.telemetry.source == "metrics-server"
        what = "" if only else "; without it nothing steps in when Prometheus is silent"
        status: Status = "fail" if only else "warn"
        yield Finding("metrics-server", status, "metrics.k8s.io", f"{'; '.join(problems)}{what}", (_INSTALL,))


def sources_disagree(evidence: Evidence) -> Iterator[Finding]:
    """Whether both say the same about cpu and memory.

    Found: Prometheus and metrics-server disagree by more than noise: another unit, query or cluster.
    Fix: `BALLAST_PROMETHEUS__MATCHERS=cluster="..."`
    """
    ours, theirs = evidence.reading.samples, evidence.witness.samples
    if not theirs:
        raise CheckNotPossible("metrics-server does not answer")
    for resource in TOLERANCE:
        if resource not in ours or resource not in theirs:
            continue
        one, other = np.full(len(evidence.nodes), np.nan), np.full(len(evidence.nodes), np.nan)
        one[ours[resource].rows] = ours[resource].values
        other[theirs[resource].rows] = theirs[resource].values
        gap = one - other
        if message := apart(resource, gap[np.isfinite(gap)]):
            fix = (matchers_line(evidence.settings.prometheus.matchers, 'cluster="..."'),)
            yield Finding("sources-disagree", "fail", resource, message, fix)
