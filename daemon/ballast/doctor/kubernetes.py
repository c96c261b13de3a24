"""Checks of the Kubernetes API, of the Lease, and of other installations of Ballast."""

from collections.abc import Iterator
from datetime import UTC, datetime

from ballast.base.clock import AHEAD
from ballast.base.text import named
from ballast.cluster.identity import known_namespace
from ballast.doctor.cluster_view import OWN_PODS, CheckNotPossible, Document, part, text, title
from ballast.doctor.evidence import Evidence
from ballast.doctor.finding import Finding
from ballast.publishing.node_keys import NodeKeys
from ballast.settings import Mode, Settings
from ballast.settings.model import variable

OLD = 60.0
"""Seconds without a renewal after which nobody holds a Lease. A live holder renews it every two seconds."""


def reachable(evidence: Evidence) -> Iterator[Finding]:
    """Whether the Kubernetes API answers and accepts the credentials.

    Found: it does not answer, or refuses the credentials.
    Fix: `BALLAST_CLUSTER__KUBECONFIG=/etc/ballast/kubeconfig`, `kubectl cluster-info`
    """
    error, server = evidence.cluster.failure, evidence.cluster.api.server
    if error is None:
        yield Finding("kubernetes-reachable", "ok", server, "it answers")
        return
    fix = ("BALLAST_CLUSTER__KUBECONFIG=/etc/ballast/kubeconfig", "kubectl cluster-info")
    yield Finding("kubernetes-reachable", "fail", server, str(error), fix)


def lease(evidence: Evidence) -> Iterator[Finding]:
    """Who holds the Lease, and how long ago it was renewed.

    Found: pods of Ballast run, but none holds the Lease; or its holder has not renewed it for a minute.
    Fix: `kubectl -n ballast get pods -l app.kubernetes.io/name=ballast`,
    `kubectl -n ballast logs -l app.kubernetes.io/name=ballast --tail=50`
    """
    where, lease = _lease(evidence)
    namespace = evidence.settings.lease.namespace or evidence.cluster.namespace
    fix = (f"kubectl -n {namespace} get pods -l {OWN_PODS}", f"kubectl -n {namespace} logs -l {OWN_PODS} --tail=50")
    holder = "" if lease is None else text(lease, "spec", "holderIdentity")
    if lease is None or not holder:
        what = "there is no Lease" if lease is None else "nobody holds the Lease"
        if not evidence.cluster.own_pods:
            raise CheckNotPossible(f"{what} {where}, and no pod of Ballast runs there")
        yield Finding("lease", "fail", where, f"{what}, though pods of Ballast run: nothing is written", fix)
        return
    age = _age(evidence, lease)
    if age is None:
        yield Finding("lease", "fail", where, f"{holder} holds it, but it has no renewTime that can be read", fix)
    elif age > OLD:
        yield Finding("lease", "fail", where, f"{holder} holds it, but renewed it {age:,.0f} s ago: nobody leads", fix)
    elif age < -AHEAD:
        message = f"{holder} renewed it {-age:,.0f} s in the future: the clocks differ"
        yield Finding("lease", "warn", where, message, ("timedatectl set-ntp true",))
    else:
        yield Finding("lease", "ok", where, f"{holder} holds it, renewed {max(0, age):.0f} s ago")


def second_ballast(evidence: Evidence) -> Iterator[Finding]:
    """Whether another Ballast writes in this cluster.

    Found: the Lease is held from outside its pods, another namespace has a live Lease of this name or a Deployment of
    Ballast, or nodes carry scores under another prefix.
    Fix: `kubectl -n OTHER scale deployment ballast --replicas=0`, `BALLAST_PUBLISHING__PREFIX=ballast.example.com`
    """
    settings, cluster = evidence.settings, evidence.cluster
    if not acts(settings):
        raise CheckNotPossible("every part is off: nothing is written")
    yield from _foreign_holder(evidence)
    home = settings.lease.namespace or cluster.namespace
    readable = False
    try:
        leases = cluster.all(
            "/apis/coordination.k8s.io/v1/leases", fieldSelector=f"metadata.name={settings.lease.name}"
        )
        readable = True
        yield from _other_leases(evidence, home, leases)
    except CheckNotPossible:
        pass
    try:
        deployments = cluster.all("/apis/apps/v1/deployments", labelSelector=OWN_PODS)
        readable = True
        yield from _other_deployments(home, deployments)
    except CheckNotPossible:
        pass
    yield from _other_prefixes(evidence)
    if not readable:
        raise CheckNotPossible("Leases and Deployments of other namespaces cannot be read; run it as somebody who may")


def acts(settings: Settings) -> bool:
    """Whether any part is on or in dry-run, so that there is a leader."""
    parts = (settings.publishing, settings.power, settings.eviction, settings.batch)
    return any(part.mode is not Mode.OFF for part in parts)


def _lease(evidence: Evidence) -> tuple[str, Document | None]:
    settings = evidence.settings
    if not settings.lease.enabled:
        raise CheckNotPossible("BALLAST_LEASE__ENABLED is false: this replica always writes")
    if not acts(settings):
        raise CheckNotPossible("every part is off: nothing is written, so nobody has to lead")
    namespace = settings.lease.namespace or known_namespace(None)
    if namespace is None:
        raise CheckNotPossible("the namespace of the Lease is not known here: set BALLAST_LEASE__NAMESPACE")
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{settings.lease.name}"
    return f"{namespace}/{settings.lease.name}", evidence.cluster.find(path)


def _age(evidence: Evidence, found: Document) -> float | None:
    try:
        renewed = datetime.fromisoformat(text(found, "spec", "renewTime"))
    except ValueError:
        return None
    moment = renewed if renewed.tzinfo else renewed.replace(tzinfo=UTC)
    return evidence.clock.wall() - moment.timestamp()


def _alive(evidence: Evidence, found: Document) -> bool:
    age = _age(evidence, found)
    return bool(text(found, "spec", "holderIdentity")) and age is not None and age <= OLD


def _foreign_holder(evidence: Evidence) -> Iterator[Finding]:
    """A holder is the name of its pod (or machine), an underscore and a random part."""
    try:
        where, lease = _lease(evidence)
        pods = {text(pod, "metadata", "name") for pod in evidence.cluster.own_pods}
    except CheckNotPossible:
        return
    if lease is None or not pods or not _alive(evidence, lease):
        return
    holder = text(lease, "spec", "holderIdentity")
    if holder.rpartition("_")[0] not in pods:
        message = f"{holder} holds the Lease {where}, and is none of the pods there: a second Ballast leads instead"
        yield Finding("second-ballast", "warn", holder, message, ("BALLAST_LEASE__NAME=ballast-second",))


def _other_leases(evidence: Evidence, home: str, leases: tuple[Document, ...]) -> Iterator[Finding]:
    for lease in leases:
        namespace = text(lease, "metadata", "namespace")
        if namespace != home and _alive(evidence, lease):
            holder = text(lease, "spec", "holderIdentity")
            message = f"{holder} leads by the Lease {title(lease)}: both write, each undoing the other"
            yield Finding("second-ballast", "warn", title(lease), message, _stop(namespace, "deployment ballast"))


def _other_deployments(home: str, deployments: tuple[Document, ...]) -> Iterator[Finding]:
    running = [deployment for deployment in deployments if part(deployment, "spec", "replicas") != 0]
    others = [deployment for deployment in running if text(deployment, "metadata", "namespace") != home]
    here = [deployment for deployment in running if text(deployment, "metadata", "namespace") == home]
    for deployment in (*others, *here[1:]):
        namespace, name = text(deployment, "metadata", "namespace"), text(deployment, "metadata", "name")
        message = "it is another Deployment of Ballast; two that write the same nodes undo each other"
        yield Finding("second-ballast", "warn", title(deployment), message, _stop(namespace, f"deployment {name}"))


def _other_prefixes(evidence: Evidence) -> Iterator[Finding]:
    publishing = evidence.settings.publishing
    here = publishing.label_prefix or publishing.prefix
    for prefix, nodes in NodeKeys.of(here).others(evidence.nodes).items():
        message = f"{len(nodes):,} nodes have scores under {prefix}, not only under {here}"
        remove = f"kubectl label nodes --all {prefix}/score- {prefix}/load-"
        setting = variable("publishing", "label_prefix" if publishing.label_prefix else "prefix")
        yield Finding("second-ballast", "warn", named(nodes), message, (remove, f"{setting}={prefix}"))


def _stop(namespace: str, what: str) -> tuple[str, ...]:
    return (f"kubectl -n {namespace} scale {what} --replicas=0", "BALLAST_CLUSTER__NODE_SELECTOR=pool=mine")
