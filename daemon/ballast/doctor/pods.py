"""Checks of what pods use."""

from __future__ import annotations

from collections.abc import Iterator

from ballast.doctor.cluster_view import CheckNotPossible
from ballast.doctor.evidence import PATIENCE, Evidence
from ballast.doctor.finding import Finding

ENOUGH = 0.8
"""Share of the running pods; some always just started."""


def pod_usage(evidence: Evidence) -> Iterator[Finding]:
    """Whether the use of pods is known; evictions fall back to requests without it.

    Found: fewer than 80 % of the running pods have accepted samples.
    Fix: `BALLAST_TELEMETRY__SOURCE=metrics-server`
    """
    begun = evidence.clock.monotonic()
    usage = evidence.usage
    if usage.problems and evidence.clock.monotonic() - begun >= PATIENCE:
        raise CheckNotPossible(f"the usage of pods takes more than {PATIENCE:g} s, which the daemon may wait for")
    problems = "; ".join(f"{name}: {problem}" for name, problem in sorted(usage.problems.items()))
    all_pods = evidence.cluster.count("/api/v1/pods")
    if not problems and all_pods is not None and usage.measured >= ENOUGH * all_pods:
        return
    running = _running(evidence, all_pods if problems or not usage.measured else None)
    if not problems and usage.measured >= ENOUGH * running:
        return
    message = f"usage of {usage.measured:,} of {running:,} pods is known; the requests of the others count instead"
    message += f"; {problems}" if problems else ""
    yield Finding(
        "pod-usage",
        "warn",
        "pods",
        message,
        (
            "BALLAST_TELEMETRY__SOURCE=metrics-server",
            "kubectl get --raw /apis/metrics.k8s.io/v1beta1/pods | head -c 500",
        ),
    )


def _running(evidence: Evidence, otherwise: int | None) -> int:
    """How many pods run. Raises CheckNotPossible where their list takes too long and there is no other number."""
    try:
        return len(evidence.pods)
    except CheckNotPossible:
        if otherwise is None:
            raise
        return otherwise
