"""Which rights the parts need that run, and whether they are granted."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from ballast.base.errors import ClusterError, NotFound
from ballast.cluster import state
from ballast.cluster.workload_cache import STATEFUL_SETS, plural_of
from ballast.doctor.cluster_view import CheckNotPossible, document, part, text
from ballast.doctor.evidence import Evidence
from ballast.doctor.finding import Finding
from ballast.doctor.kubernetes import acts
from ballast.jobs.power.build_power import findings
from ballast.planners.built_in import planner
from ballast.power.policy import PowerPolicy
from ballast.settings import Mode, Settings

_WATCHED = ("list", "watch")
_READ = ("get", *_WATCHED)
_ASKED_AT_ONCE = 8
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class Right(NamedTuple):
    """`verbs` on a resource (`plural` or `plural/subresource`), in a namespace or, if that is empty, everywhere."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    namespace: str = ""
    name: str = ""


def rbac(evidence: Evidence) -> Iterator[Finding]:
    """Whether every right is granted that the parts need which are on or in dry-run.

    Found: a verb on a resource is not granted to who runs the check: run it as Ballast's service account.
    Fix: `kubectl create clusterrole ballast-patch-nodes --verb=patch --resource=nodes` and the binding, or
    `helm upgrade ballast ... --reset-then-reuse-values --set rbac.create=true`
    """
    evidence.cluster.require_answer()
    settings, namespace = evidence.settings, evidence.cluster.namespace
    for right, refused in _find_refused(evidence, needed(settings, findings(settings).policies, namespace)):
        where = f" in namespace {right.namespace}" if right.namespace else ""
        named = f" {right.name}" if right.name else ""
        subject = f"{right.resource}.{right.group}" if right.group else right.resource
        message = f"{', '.join(refused)} on {subject}{named} is not allowed{where}"
        yield Finding("rbac", "fail", subject, message, _grant(right, refused, namespace))


def needed(settings: Settings, policies: Sequence[PowerPolicy], namespace: str) -> tuple[Right, ...]:
    """The rights that the chart's roles give for these settings; `namespace` is Ballast's own."""
    return tuple(_needed_rights(settings, policies, namespace))


def _needed_rights(settings: Settings, policies: Sequence[PowerPolicy], namespace: str) -> Iterator[Right]:
    eviction, power, batch = settings.eviction.mode, settings.power.mode, settings.batch.mode
    targets = policies if power is not Mode.OFF else ()
    yield from _ALWAYS
    if eviction is not Mode.OFF:
        yield from _PLANNING
    if eviction is not Mode.OFF or targets:
        yield Right("autoscaling", "horizontalpodautoscalers", _WATCHED)
        yield Right("", "services", ("get",))
    if eviction is not Mode.OFF or targets or batch is not Mode.OFF:
        yield Right("", "namespaces", _WATCHED)
    if settings.publishing.mode is Mode.ON:
        yield Right("", "nodes", ("patch",))
    if settings.eviction.acting:
        yield from _of_evictions(settings)
    if batch is Mode.ON:
        yield Right("", "pods", ("patch",))
    if Mode.ON in (settings.publishing.mode, power, eviction, batch):
        yield Right("", "events", ("create",))
    if settings.http.reviewed:
        yield Right("authentication.k8s.io", "tokenreviews", ("create",))
        yield Right("authorization.k8s.io", "subjectaccessreviews", ("create",))
    if acts(settings):
        yield from _own(settings, namespace)
    yield from _of_power(targets, writes=power is Mode.ON)


_ALWAYS = (
    Right("", "nodes", _READ),
    Right("", "pods", _WATCHED),
    *(Right("resource.k8s.io", plural, _WATCHED) for plural in ("resourceclaims", "resourceslices")),
    Right("metrics.k8s.io", "nodes", ("list",)),
)
_PLANNING = (
    Right("metrics.k8s.io", "pods", ("list",)),
    *(Right("apps", plural, _WATCHED) for plural in ("daemonsets", "deployments", "replicasets", "statefulsets")),
    Right("policy", "poddisruptionbudgets", _WATCHED),
    *(
        Right("", plural, _WATCHED)
        for plural in ("events", "persistentvolumeclaims", "persistentvolumes", "resourcequotas")
    ),
    *(Right("storage.k8s.io", plural, _WATCHED) for plural in ("csinodes", "storageclasses")),
    Right("karpenter.sh", "nodeclaims", _WATCHED),
    Right("autoscaling.k8s.io", "verticalpodautoscalers", _WATCHED),
    Right("*", "*/scale", ("get",)),
)
"""What planning evictions reads."""


def _of_evictions(settings: Settings) -> Iterator[Right]:
    """What evicting writes."""
    eviction = settings.eviction
    yield Right("", "pods/eviction", ("create",))
    taints = eviction.landing == "taint" or any(planner(name).whole_nodes for name in eviction.acting)
    if taints and settings.publishing.mode is not Mode.ON:
        yield Right("", "nodes", ("patch",))
    if eviction.single == "restart":
        yield Right("apps", "deployments", ("get", "patch"))
    if eviction.surge:
        yield Right("apps", "deployments", ("get",))
        yield Right("apps", "deployments/scale", ("get", "patch"))
        yield Right("", "pods", ("patch",))
    if eviction.nominate:
        yield Right("", "pods/status", ("patch",))


def _own(settings: Settings, namespace: str) -> Iterator[Right]:
    """Its state, its switches and its Lease."""
    yield Right("", "configmaps", ("create",), namespace)
    for name in state.NAMES:
        yield Right("", "configmaps", ("get", "update"), namespace, name)
    yield Right("", "configmaps", _READ, namespace, "ballast-switches")
    if settings.lease.enabled:
        home = settings.lease.namespace or namespace
        yield Right("coordination.k8s.io", "leases", ("create",), home)
        yield Right("coordination.k8s.io", "leases", ("get", "update"), home, settings.lease.name)


def _of_power(policies: Sequence[PowerPolicy], *, writes: bool) -> Iterator[Right]:
    if policies:
        yield Right("keda.sh", "scaledobjects", _READ)
        yield Right("autoscaling", "horizontalpodautoscalers", ("get",))
    kinds: set[tuple[str, str]] = set()
    namespaces: set[str] = set()
    for policy in policies:
        for place in policy.places.values():
            namespace, _, name = place.member.name.partition("/")
            plural, _, group = plural_of(place.member.kind).partition(".")
            group = group or "apps"
            if group != "apps" and ("apps", STATEFUL_SETS) not in kinds:
                kinds.add(("apps", STATEFUL_SETS))
                yield Right("apps", STATEFUL_SETS, _READ)
            if (group, plural) not in kinds:
                kinds.add((group, plural))
                yield Right(group, plural, _READ)
                if group != "apps":
                    yield Right(group, f"{plural}/scale", ("get",))
            if writes:
                yield Right(group, f"{plural}/scale", ("get", "patch"), namespace, name)
            if writes and namespace not in namespaces:
                namespaces.add(namespace)
                yield Right("autoscaling", "horizontalpodautoscalers", ("patch",), namespace)
                yield Right("keda.sh", "scaledobjects", ("patch",), namespace)


def _find_refused(evidence: Evidence, rights: Sequence[Right]) -> Iterator[tuple[Right, list[str]]]:
    questions = [(right, verb) for right in rights for verb in right.verbs]
    with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
        answers = list(pool.map(lambda question: _allowed(evidence, *question), questions))
    for right in rights:
        answered = zip(questions, answers, strict=True)
        refused = [verb for (needed, verb), allowed in answered if needed is right and not allowed]
        if refused:
            yield right, refused


def _allowed(evidence: Evidence, right: Right, verb: str) -> bool:
    """By a SelfSubjectAccessReview, which is never stored."""
    plural, _, subresource = right.resource.partition("/")
    attributes = {"verb": verb, "group": right.group, "resource": plural}
    optional = {"subresource": subresource, "namespace": right.namespace, "name": right.name}
    attributes |= {key: value for key, value in optional.items() if value}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    api = evidence.cluster.api
    try:
        answer = document(api, api.request("POST", _REVIEWS, body=body))
    except NotFound as error:
        raise CheckNotPossible("this API server has no authorization.k8s.io/v1: rights cannot be asked for") from error
    except ClusterError as error:
        raise CheckNotPossible(f"rights cannot be asked for: {error}") from error
    if part(answer, "status", "allowed") is None:
        raise CheckNotPossible(f"the answer to a SelfSubjectAccessReview has no status: {text(answer, 'kind')}")
    return bool(part(answer, "status", "allowed"))


def _grant(right: Right, verbs: Sequence[str], own: str) -> tuple[str, ...]:
    plural, _, subresource = right.resource.partition("/")
    group = f".{right.group}" if right.group else ""
    resource = f"{plural}{group}{'/' + subresource if subresource else ''}"
    kind = "role" if right.namespace else "clusterrole"
    where = f" -n {right.namespace}" if right.namespace else ""
    only = f" --resource-name={right.name}" if right.name else ""
    name = f"ballast-{'-'.join(verbs)}-{resource.replace('/', '-')}"
    return (
        f"kubectl create {kind} {name}{where} --verb={','.join(verbs)} --resource={resource}{only}",
        f"kubectl create {kind}binding {name}{where} --{kind}={name} --serviceaccount={own}:ballast",
        f"helm upgrade ballast charts/ballast -n {own} --reset-then-reuse-values --set rbac.create=true",
    )
