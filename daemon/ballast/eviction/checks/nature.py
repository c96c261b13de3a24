"""Properties of the pod itself: kind, priority, age, labels, namespace, and what it would lose or take along."""

from ballast.eviction.check_input import CheckInput, CheckResult, allow, refuse
from ballast.eviction.gate_rules import LocalStorage
from ballast.model.marks import GANG_ANNOTATIONS, GANG_KINDS, GANG_LABELS, MIRROR, job_kind
from ballast.model.pod import Pod

CRITICAL = 2_000_000_000
_SOURCE = "kubernetes.io/config.source"
# Volumes that may be lost, by name, as cluster-autoscaler reads them; and that all scratch data may.
_MAY_BE_LOST = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
_SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
LONGEST_GRACE = 3600
"""Seconds that a pod may take to end: for as long an effect is waited for."""


def mirror(case: CheckInput) -> CheckResult:
    if MIRROR in case.pod.annotations:
        return refuse("it mirrors a static pod")
    return allow("it is no mirror pod")


def static(case: CheckInput) -> CheckResult:
    source = case.pod.annotations.get(_SOURCE, "api")
    if source != "api" or (case.pod.owner is not None and case.pod.owner.kind == "Node"):
        return refuse("it comes from a file on its node")
    return allow("it comes from the API server")


def terminating(case: CheckInput) -> CheckResult:
    return refuse("it is terminating already") if case.pod.deleting else allow("it is not terminating")


def finished(case: CheckInput) -> CheckResult:
    if case.pod.phase == "Failed" and not case.rules.moves:
        return allow("it has failed, and may be removed")
    return refuse(f"it has {case.pod.phase.lower()}") if case.pod.finished else allow("it has not finished")


def daemonset(case: CheckInput) -> CheckResult:
    if case.pod.owner is not None and case.pod.owner.kind == "DaemonSet":
        return refuse("a DaemonSet would put it back on this node")
    return allow("no DaemonSet owns it")


def critical(case: CheckInput) -> CheckResult:
    if case.pod.namespace == "kube-system":
        return refuse("it is in kube-system")
    if case.pod.priority >= CRITICAL:
        return refuse("its priority is system-critical", priority=case.pod.priority)
    why = case.facts.protected.get(case.workload) if case.workload else None
    if why is not None:
        return refuse(why)
    return allow("it is not critical to the cluster", priority=case.pod.priority)


def priority(case: CheckInput) -> CheckResult:
    below = case.rules.priority_below
    if below is not None and case.pod.priority >= below:
        return refuse("its priority is too high", priority=case.pod.priority, below=below)
    return allow("its priority is low enough", priority=case.pod.priority)


def bare(case: CheckInput) -> CheckResult:
    owner = case.pod.owner
    if owner is None:
        return refuse("no controller would create it again")
    if not owner.controller:
        return refuse(f"{owner.kind} {owner.name} owns it, but not as its controller: nothing would create it again")
    return allow(f"{owner.kind} {owner.name} creates it again")


def job(case: CheckInput) -> CheckResult:
    if case.rules.allow_jobs:
        return allow("pods that run to an end may be evicted")
    owner = case.pod.owner
    if owner is not None and job_kind(owner.kind):
        return refuse(f"it runs to an end for {owner.kind} {owner.name}, which may fail with it")
    if not case.pod.template.restarts:
        return refuse("it runs to an end: its restartPolicy is not Always")
    return allow("it does not run to an end")


def gang(case: CheckInput) -> CheckResult:
    if case.rules.allow_gangs:
        return allow("pods of a group may be evicted")
    mark = _mark(case.pod)
    if mark is not None:
        return refuse(f"it belongs to a group that runs together ({mark}), which would stop without it")
    return allow("it belongs to no group that runs together")


def _mark(pod: Pod) -> str | None:
    labels, notes = GANG_LABELS & pod.labels.keys(), GANG_ANNOTATIONS & pod.annotations.keys()
    if labels or notes:
        return min(labels or notes)
    if pod.owner is not None and pod.owner.kind in GANG_KINDS:
        return f"{pod.owner.kind} {pod.owner.name}"
    return "spec.workloadRef" if pod.template.grouped else None


def min_age(case: CheckInput) -> CheckResult:
    age = case.facts.now - case.pod.created
    if case.pod.created > 0 and age < case.rules.min_pod_age:
        return refuse("it is too young", age=age, at_least=case.rules.min_pod_age)
    return allow("it is old enough", age=age)


def pod_selector(case: CheckInput) -> CheckResult:
    if case.pod.template.opaque:
        return refuse("its object is larger than Ballast keeps of one, or of one namespace: it cannot be judged")
    selector = case.rules.pod_selector
    if selector is not None and not selector.matches(case.pod.labels):
        return refuse("its labels are not selected")
    return allow("its labels are selected")


def namespace(case: CheckInput) -> CheckResult:
    only, without = case.rules.only_namespaces, case.rules.without_namespaces
    if case.pod.namespace in without or (only and case.pod.namespace not in only):
        return refuse(f"namespace {case.pod.namespace} is not selected")
    labels = case.rules.namespace_selector
    there = case.facts.namespaces.get(case.pod.namespace)
    if labels is not None and (there is None or not labels.matches(there.labels)):
        return refuse(f"the labels of namespace {case.pod.namespace} are not selected")
    return allow(f"namespace {case.pod.namespace} is selected")


def local_storage(case: CheckInput) -> CheckResult:
    listed = case.pod.annotations.get(_MAY_BE_LOST, "")
    allowed = {name.strip() for name in listed.split(",")}
    template, may = case.pod.template, case.rules.local_storage
    if case.pod.annotations.get(_SAFE) == "true":
        allowed.update((*template.scratch_volumes, *(name for name, _ in template.ephemeral)))
    owner = case.pod.owner
    # Pods of a ReplicaSet have no identity: each rollout gives them empty volumes, so nothing in them is kept data.
    interchangeable = owner is not None and owner.kind == "ReplicaSet"
    if may is LocalStorage.ALLOW or (may is LocalStorage.SCRATCH and interchangeable):
        allowed.update(template.scratch_volumes)
    elif may is LocalStorage.MEMORY:
        allowed.update(template.memory_volumes)
    lost = [name for name in template.local_volumes if name not in allowed]
    if lost:
        return refuse(f"it would lose its local volumes {', '.join(lost)}", volumes=len(lost))
    if kept := [volume.name for volume in case.facts.kept_on_nodes(case.pod)]:
        return refuse(
            f"the data of {', '.join(kept)} may be on its node alone: no affinity says where, and the source is a "
            "directory or disk of one node, or not known",
            volumes=len(kept),
        )
    return allow("it has no local volume to lose")


def grace_period(case: CheckInput) -> CheckResult:
    given = case.rules.grace_period
    seconds = case.pod.grace if given is None else given
    if seconds > LONGEST_GRACE:
        return refuse(
            "it may take longer to end than an effect is waited for, so its node may stay as loaded as it is",
            seconds=seconds,
            at_most=LONGEST_GRACE,
        )
    return allow("it ends in time", seconds=seconds)


def pvc(case: CheckInput) -> CheckResult:
    if case.rules.refuse_volume_claims and case.pod.template.volume_claims:
        return refuse("it has volume claims")
    without = case.rules.without_storage_classes
    for name in case.facts.storage_classes(case.pod) if without else ():
        if name is None or name in without:
            of = "an unknown StorageClass" if name is None else f"StorageClass {name}"
            return refuse(f"it has a volume claim of {of}")
    return allow("volume claims do not prevent its eviction")


def resource_claims(case: CheckInput) -> CheckResult:
    if case.rules.refuse_resource_claims and case.pod.template.resource_claims:
        return refuse("it has resource claims")
    return allow("resource claims do not prevent its eviction")
