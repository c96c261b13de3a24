"""Checks of the connection to Prometheus, and of a second source beside it."""

import math
import os
from collections.abc import Iterator

import numpy as np

from ballast.base.text import named
from ballast.doctor.cluster_view import CheckNotPossible
from ballast.doctor.evidence import PATIENCE, Evidence
from ballast.doctor.finding import Finding, Status
from ballast.doctor.install import installed, prometheus_services
from ballast.jobs.witnesses import DISPUTED_BY, TOLERANCE, apart, unexplained
from ballast.model.sample import Floats
from ballast.telemetry.failed_answers import FailedAnswer, NotAllowed, TenantMissing, TooSlow, masked
from ballast.telemetry.series_check import matchers_line

_OTHER_SOURCE = "BALLAST_TELEMETRY__SOURCE=metrics-server"
_SERVICES = "kubectl get services --all-namespaces | grep -iE 'prometheus|thanos|mimir|victoria'"


def reachable(evidence: Evidence) -> Iterator[Finding]:
    """Whether there is a Prometheus at the address.

    Found: nothing answers at BALLAST_PROMETHEUS__URL, or what answers is no Prometheus.
    Fix: `BALLAST_PROMETHEUS__URL=http://prometheus-operated.monitoring:9090`, a line for each Service of a Prometheus
    that is there; no other address where a Prometheus answers, but with an error
    """
    error, url = evidence.answer, masked(evidence.settings.prometheus.url or "")
    timeout = evidence.settings.prometheus.timeout
    if evidence.slow:
        text = f"it answers, but the cheapest question takes {PATIENCE + evidence.slow:.0f} s of the {timeout:g} s"
        longer = f"BALLAST_PROMETHEUS__TIMEOUT={math.ceil(max(2 * timeout, 60))}s"
        yield Finding("prometheus-reachable", "warn", url, f"{text} of BALLAST_PROMETHEUS__TIMEOUT", (longer,))
        return
    if isinstance(error, TooSlow):
        longer = f"BALLAST_PROMETHEUS__TIMEOUT={math.ceil(max(2 * timeout, 30))}s"
        yield Finding("prometheus-reachable", "fail", url, str(error), (longer,))
        return
    if error is None or isinstance(error, NotAllowed):
        yield Finding("prometheus-reachable", "ok", url, "it answers")
        return
    if isinstance(error, FailedAnswer):
        question = f"curl -sG {url}/api/v1/query --data-urlencode 'query=vector(1)'"
        yield Finding("prometheus-reachable", "fail", url, str(error), (question, _OTHER_SOURCE))
        return
    yield Finding("prometheus-reachable", "fail", url, str(error), tuple(_addresses(evidence, url)))


def _addresses(evidence: Evidence, url: str) -> Iterator[str]:
    """Those of Services that are there; and from where to ask them."""
    try:
        services = prometheus_services(evidence)
    except CheckNotPossible:
        services = ()
    for service in services:
        if service.url != url:
            yield f"BALLAST_PROMETHEUS__URL={service.url}"
    if not services:
        yield _SERVICES
    elif not os.environ.get("KUBERNETES_SERVICE_HOST"):
        namespace = evidence.cluster.namespace
        if installed(evidence):  # Services are reached inside the cluster.
            yield f"kubectl -n {namespace} exec deploy/ballast -- ballast doctor  # where Services are reached"
        first = services[0]
        yield f"kubectl -n {first.namespace} port-forward service/{first.name} 9090:{first.port}"
        yield "BALLAST_PROMETHEUS__URL=http://localhost:9090"


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

    Found: Prometheus and metrics-server disagree by more than noise: another unit, query or cluster; or about single
    nodes, of which one source is wrong or forged.
    Fix: `BALLAST_PROMETHEUS__MATCHERS=cluster="..."`, or `BALLAST_TELEMETRY__SOURCE=metrics-server` where it is right
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
        gap = all_of_them = one - other
        if resource == "memory":
            all_of_them = unexplained(gap, evidence.working_set_gap, below=True)
            gap = unexplained(gap, evidence.working_set_gap)
        if message := apart(resource, all_of_them[np.isfinite(all_of_them)]):
            fix = (matchers_line(evidence.settings.prometheus.matchers, 'cluster="..."'), _OTHER_SOURCE)
            yield Finding("sources-disagree", "fail", resource, message, fix)
        elif message := out_of_order(resource, one, other):
            yield Finding("sources-disagree", "warn", resource, message, ("kubectl top nodes", "ballast top"))
        elif (doubtful := np.flatnonzero(np.nan_to_num(np.abs(gap)) > DISPUTED_BY)).size:
            names = named([evidence.nodes[row].name for row in doubtful.tolist()], _NAMED)
            text = f"{resource} of {names} differs by more than 20 points; while that lasts these nodes are disputed"
            yield Finding("sources-disagree", "warn", resource, text, ("kubectl top nodes", "ballast top"))


_FEWEST = 8
_NAMED = 5
_SPREAD = 0.1
_ORDERED = 0.3


def out_of_order(resource: str, ours: Floats, theirs: Floats) -> str:
    """A sentence where both sources spread the nodes widely, but not in the same order: loads belong to other nodes.

    [node], NaN where unknown. The order is compared by Spearman's rank correlation.
    """
    both = np.isfinite(ours) & np.isfinite(theirs)
    one, other = ours[both], theirs[both]
    if one.size < _FEWEST or min(one.std(), other.std()) < _SPREAD:
        return ""
    ranks = np.array([values.argsort().argsort() for values in (one, other)], float)
    correlation = float(np.corrcoef(ranks)[0, 1])
    if correlation >= _ORDERED:
        return ""
    return (
        f"{resource} ranks the {one.size:,} nodes otherwise than metrics-server does (rank correlation "
        f"{correlation:.1f}): values may belong to other nodes; compare some of them, then check "
        "BALLAST_TELEMETRY__NODE_LABEL and BALLAST_TELEMETRY__NODE_REWRITE"
    )
