"""Checks of the connection to Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from ballast.doctor.cluster_view import CheckNotPossible
from ballast.doctor.evidence import Evidence
from ballast.doctor.finding import Finding
from ballast.telemetry.error_messages import NotAllowed, TenantMissing, masked

_SERVICES = "kubectl get services --all-namespaces | grep -iE 'prometheus|thanos|mimir|victoria'"


def reachable(evidence: Evidence) -> Iterator[Finding]:
    """Whether there is a Prometheus at the address.

    Found: nothing answers at BALLAST_PROMETHEUS__URL, or what answers is no Prometheus.
    Fix: `BALLAST_PROMETHEUS__URL=http://prometheus-operated.monitoring:9090`
    """
    error, url = evidence.answer, masked(evidence.settings.prometheus.url or "")
    if error is None or isinstance(error, NotAllowed):
        yield Finding("prometheus-reachable", "ok", url, "it answers")
        return
    fix = ("BALLAST_PROMETHEUS__URL=http://prometheus-operated.monitoring:9090", _SERVICES)
    yield Finding("prometheus-reachable", "fail", url, str(error), fix)


def credentials(evidence: Evidence) -> Iterator[Finding]:
    """Whether it accepts the credentials.

    Found: it answers 401 or 403, or asks for a tenant.
    Fix: `BALLAST_PROMETHEUS__TOKEN_FILE=...`, `BALLAST_PROMETHEUS__USERNAME=...`, `BALLAST_PROMETHEUS__HEADERS=...`
    """
    error, url = evidence.answer, masked(evidence.settings.prometheus.url or "")
    if error is None:
        yield Finding("prometheus-credentials", "ok", url, "it accepts the requests")
    elif not isinstance(error, NotAllowed):
        raise CheckNotPossible("Prometheus does not answer")
    else:
        fix = (
            "BALLAST_PROMETHEUS__TOKEN_FILE=/var/run/secrets/kubernetes.io/serviceaccount/token",
            "BALLAST_PROMETHEUS__USERNAME=ballast",
            "BALLAST_PROMETHEUS__PASSWORD_FILE=/etc/ballast/password",
            'BALLAST_PROMETHEUS__HEADERS=\'{"X-Scope-OrgID": "tenant"}\'',
        )
        first = 3 if isinstance(error, TenantMissing) else 0
        yield Finding("prometheus-credentials", "fail", url, str(error), fix[first:])
