"""The helm line for this cluster, and what it takes for granted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from ballast.base.errors import BallastError
from ballast.doctor.cluster_view import CheckNotPossible, Document, part, text

if TYPE_CHECKING:
    from ballast.doctor.evidence import Evidence

PLATFORMS = {
    "eks.amazonaws.com/": "EKS",
    "cloud.google.com/gke-": "GKE",
    "kubernetes.azure.com/": "AKS",
    "node.openshift.io/": "OpenShift",
}
"""Prefix of a node's label → whose control plane it is."""
_MONITORING = "monitoring"
"""Namespace that the chart's NetworkPolicy lets in by default."""
_TOKENS = "/var/run/secrets/kubernetes.io/serviceaccount"
_RANKS = (
    ("thanos-querier", "openshift-monitoring"),
    ("kube-prometheus-prometheus", ""),
    ("prometheus-k8s", ""),
    ("prometheus-operated", ""),
    ("prometheus-server", ""),
    ("prometheus", ""),
    ("vmselect", ""),
    ("vmsingle", ""),
    ("victoria-metrics", ""),
    ("thanos-query", ""),
    ("mimir", ""),
)
"""Parts of the names of Services that answer PromQL, those of known charts first, and the namespace they need."""
_OTHERS = ("node-exporter", "operator", "alertmanager", "adapter", "pushgateway", "kube-state", "blackbox", "vmagent")
_PORTS = (9090, 80, 8428, 8481, 8429, 9091, 10902, 8080)


class Service(NamedTuple):
    """A Service that answers PromQL, by its name and port."""

    namespace: str
    name: str
    port: int
    release: str

    @property
    def url(self) -> str:
        """Its address inside the cluster."""
        tls = self.port in (443, 9091)
        return f"{'https' if tls else 'http'}://{self.name}.{self.namespace}{'.svc' if tls else ''}:{self.port}"


def prometheus_services(evidence: Evidence) -> tuple[Service, ...]:
    """Those of the cluster, the likeliest first. Raises CheckNotPossible where Services cannot be listed."""
    ranked: list[tuple[int, Service]] = []
    for service in evidence.cluster.all("/api/v1/services"):
        name, namespace = text(service, "metadata", "name"), text(service, "metadata", "namespace")
        if any(word in name for word in _OTHERS):
            continue
        ports = [entry.get("port") for entry in part(service, "spec", "ports") or ()]
        port = next((port for port in _PORTS if port in ports), None)
        rank = next((i for i, (word, where) in enumerate(_RANKS) if word in name and where in ("", namespace)), None)
        if port is not None and rank is not None:
            ranked.append((rank, Service(namespace, name, port, text(service, "metadata", "labels", "release"))))
    return tuple(service for _, service in sorted(ranked))


def install(evidence: Evidence) -> tuple[str, tuple[str, ...]]:
    """The line, and what it assumed. Never raises for what the cluster says: what cannot be read is assumed."""
    values, assumed = [], []
    for value, why in _values(evidence):
        values += [value] if value else []
        assumed += [why] if why else []
    verb, keep = (
        ("upgrade", " --reset-then-reuse-values") if installed(evidence) else ("install", " --create-namespace")
    )
    sets = "".join(f" --set {value}" for value in values)
    return f"helm {verb} ballast charts/ballast --namespace {evidence.cluster.namespace}{keep}{sets}", tuple(assumed)


def _values(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """(value, what it assumes); one of both may be ""."""
    if not installed(evidence):
        yield (
            ("image.repository=ballast", "`kind load docker-image` brought the image to kind's nodes")
            if _on_kind(evidence)
            else (
                "image.repository=REGISTRY/ballast",
                "REGISTRY is where `make image IMAGE=REGISTRY/ballast:TAG PUSH=1` put it",
            )
        )
    service, address = None, evidence.settings.prometheus.url
    try:
        services = prometheus_services(evidence)
        service = _service(services, address)
    except CheckNotPossible as error:
        yield "", f"Services were not looked at: {error}"
    yield from _source(evidence, service, address)
    platform = _platform(evidence)
    yield from _scheduler(evidence, platform)
    if platform == "OpenShift":
        yield "podSecurityContext.runAsUser=null", "OpenShift gives each namespace its own user"
        yield "podSecurityContext.runAsGroup=null", ""
        yield "podSecurityContext.fsGroup=null", ""
        yield "configCheck.enabled=false", "the hook's pod has no token for the cluster's Thanos"
    yield from _monitoring(evidence, service)


def _service(services: tuple[Service, ...], address: str | None) -> Service | None:
    """The one that the settings name, else the likeliest."""
    host = urlsplit(address or "").hostname or ""
    named = [service for service in services if host.split(".")[:2] == [service.name, service.namespace]]
    return next(iter(named or services), None)


def _source(evidence: Evidence, service: Service | None, address: str | None) -> Iterator[tuple[str, str]]:
    settings = evidence.settings
    host = urlsplit(address or "").hostname or ""
    near = host in ("", "localhost", "::1") or host.startswith("127.")
    if settings.telemetry.source == "metrics-server":
        yield "settings.telemetry.source=metrics-server", "BALLAST_TELEMETRY__SOURCE says so"
    elif address and not near:
        yield f"settings.prometheus.url={address}", "BALLAST_PROMETHEUS__URL is reached from inside the cluster too"
    elif service is not None:
        yield (
            f"settings.prometheus.url={service.url}",
            f"Service {service.namespace}/{service.name} is the Prometheus to ask",
        )
    elif _metrics_server(evidence):
        yield (
            "settings.telemetry.source=metrics-server",
            "no Service of a Prometheus is there, and metrics-server answers",
        )
    else:
        yield "settings.prometheus.url=http://PROMETHEUS:9090", "no Prometheus was found: PROMETHEUS is its address"
    if "preset" in settings.prometheus.model_fields_set:
        preset = settings.prometheus.preset.replace(",", "\\,")
        yield f"settings.prometheus.preset={preset}", ""
    if service is not None and service.name == "thanos-querier":
        yield (
            f"settings.prometheus.token_file={_TOKENS}/token",
            "its account has the ClusterRole cluster-monitoring-view",
        )
        yield f"settings.prometheus.ca_file={_TOKENS}/service-ca.crt", ""


def _metrics_server(evidence: Evidence) -> bool:
    try:
        return not evidence.witness.problems
    except BallastError:
        return False


def _platform(evidence: Evidence) -> str:
    try:
        labels = {label for node in evidence.nodes for label in node.labels}
    except BallastError:
        return ""
    return next((name for prefix, name in PLATFORMS.items() if any(label.startswith(prefix) for label in labels)), "")


def _on_kind(evidence: Evidence) -> bool:
    try:
        return any(node.provider_id.startswith("kind://") for node in evidence.nodes)
    except BallastError:
        return False


def _scheduler(evidence: Evidence, platform: str) -> Iterator[tuple[str, str]]:
    try:
        own = evidence.cluster.all("/api/v1/namespaces/kube-system/pods", labelSelector="component=kube-scheduler")
    except CheckNotPossible:
        own = ()
    if own and not platform:
        yield (
            "",
            "you can configure the kube-scheduler: ballast profile labels prints its file (docs/install/kubeadm.md)",
        )
        return
    whose = f"the control plane is managed ({platform})" if platform else "no kube-scheduler of your own was seen"
    yield "scheduler.enabled=true", f"{whose}, so a second scheduler runs; pods choose it by schedulerName: ballast"


def _monitoring(evidence: Evidence, service: Service | None) -> Iterator[tuple[str, str]]:
    if _serves(evidence, "monitoring.coreos.com/v1"):
        yield "serviceMonitor.enabled=true", "the Prometheus Operator's kinds are served"
        yield "prometheusRule.enabled=true", ""
        if service is not None and service.release:
            release = f"labels.release={service.release}"
            yield f"serviceMonitor.{release}", f"its Prometheus selects by the label release: {service.release}"
            yield f"prometheusRule.{release}", ""
    if service is not None and service.namespace != _MONITORING:
        name = "kubernetes\\.io/metadata\\.name"
        value = f"'networkPolicy.from[0].namespaceSelector.matchLabels.{name}={service.namespace}'"
        yield value, f"{service.namespace} may scrape Ballast"
    if not _serves(evidence, "admissionregistration.k8s.io/v1", "validatingadmissionpolicies"):
        yield "", "no ValidatingAdmissionPolicy is served: RBAC alone bounds what Ballast may change"


def _serves(evidence: Evidence, version: str, resource: str = "") -> bool:
    try:
        served = evidence.cluster.find(f"/apis/{version}")
    except CheckNotPossible:
        return False
    names = [entry.get("name") for entry in part(served, "resources") or ()] if served else []
    return served is not None and (not resource or resource in names)


def installed(evidence: Evidence) -> bool:
    """Whether its Deployment is there."""
    try:
        found: tuple[Document, ...] = evidence.cluster.all(
            f"/apis/apps/v1/namespaces/{evidence.cluster.namespace}/deployments",
            labelSelector="app.kubernetes.io/name=ballast",
        )
    except CheckNotPossible:
        return False
    return bool(found)
