"""Check of who may reach the extender."""

from collections.abc import Iterator
from ipaddress import ip_address

from ballast.doctor.cluster_view import CheckNotPossible, ClusterView, Document, part, text
from ballast.doctor.evidence import Evidence
from ballast.doctor.finding import Finding
from ballast.settings import HttpSettings, Settings

_POLICY = (
    "networkPolicy: {enabled: true, from: [{namespaceSelector: {matchLabels: "
    "{kubernetes.io/metadata.name: kube-system}}}]}"
)


def extender_open(evidence: Evidence) -> Iterator[Finding]:
    """Whether strangers can reach an extender that asks nobody who they are.

    Found: it listens on every address, no certificate of the caller is asked for, and no NetworkPolicy says who may
    call.
    Fix: `BALLAST_HTTP__CLIENT_CA_FILE=/etc/ballast/ca.crt`, `BALLAST_EXTENDER__TOKEN_FILE=/etc/ballast/token`,
    `BALLAST_HTTP__HOST=127.0.0.1`, `networkPolicy: {...}`
    """
    settings = evidence.settings
    serving = settings.http.of_extender() or settings.http
    if _is_local(serving.host) or _asks_who(settings, serving):
        return
    cluster, subject = evidence.cluster, f"{serving.host}:{serving.port}"
    pods = cluster.own_pods
    if not pods:
        if not {"host", "extender_bind"} & settings.http.model_fields_set:
            raise CheckNotPossible(f"no pod of Ballast runs in namespace {cluster.namespace}")
        yield _open(subject, "it listens on every address, and no NetworkPolicy can hold for it outside of a pod")
        return
    exposed = [text(pod, "metadata", "name") for pod in pods if not _is_guarded(cluster, pod, serving.port)]
    if exposed:
        yield _open(subject, f"no NetworkPolicy of namespace {cluster.namespace} says who may call {exposed[0]}")


def _open(subject: str, why: str) -> Finding:
    asking = ("BALLAST_HTTP__CLIENT_CA_FILE=/etc/ballast/ca.crt", "BALLAST_EXTENDER__TOKEN_FILE=/etc/ballast/token")
    fix = (*asking, "BALLAST_HTTP__HOST=127.0.0.1", _POLICY)
    return Finding("extender-open", "warn", subject, f"{why}, and it asks nobody who they are", fix)


def _is_local(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _asks_who(settings: Settings, serving: HttpSettings) -> bool:
    """By certificate or token, whichever settings there are."""
    names = ("client_ca_file", "token_file")
    return any(getattr(part, name, None) is not None for part in (serving, settings.extender) for name in names)


def _is_guarded(cluster: ClusterView, pod: Document, port: int) -> bool:
    """Whether policies select it, and none of them lets everybody call this port."""
    policies = cluster.all(f"/apis/networking.k8s.io/v1/namespaces/{cluster.namespace}/networkpolicies")
    chosen = [policy for policy in policies if _selects(policy, pod)]
    rules = [rule for policy in chosen for rule in part(policy, "spec", "ingress") or ()]
    return bool(chosen) and not any(not rule.get("from") and _covers(rule, pod, port) for rule in rules)


def _selects(policy: Document, pod: Document) -> bool:
    types = part(policy, "spec", "policyTypes") or ["Ingress"]
    selector = part(policy, "spec", "podSelector") or {}
    labels = part(pod, "metadata", "labels") or {}
    matched = all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())
    return (
        "Ingress" in types
        and matched
        and all(_meets(expression, labels) for expression in selector.get("matchExpressions", ()))
    )


def _meets(expression: Document, labels: Document) -> bool:
    key, operator, values = (expression.get(name) for name in ("key", "operator", "values"))
    if operator in ("Exists", "DoesNotExist"):
        return (key in labels) is (operator == "Exists")
    return (labels.get(str(key)) in (values or ())) is (operator == "In")


def _covers(rule: Document, pod: Document, port: int) -> bool:
    """Whether a rule is about this port, by number, range or the name that the pod gives it."""
    ports = rule.get("ports") or ()
    named = {
        entry.get("name")
        for container in part(pod, "spec", "containers") or ()
        for entry in container.get("ports") or ()
        if entry.get("containerPort") == port
    }
    for entry in ports:
        value = entry.get("port")
        if value is None or value == port or value in named - {None}:
            return True
        if isinstance(value, int) and value <= port <= (entry.get("endPort") or value):
            return True
    return not ports
