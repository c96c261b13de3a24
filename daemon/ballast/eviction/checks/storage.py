"""Volumes and devices that the pod would lose or has to take along."""

from __future__ import annotations

from ballast.eviction.check_input import CheckInput, CheckResult, allow, refuse
from ballast.eviction.rules import LocalStorage

# Volumes that may be lost, by name, as cluster-autoscaler reads them.
_MAY_BE_LOST = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"


def local_storage(case: CheckInput) -> CheckResult:
    listed = case.pod.annotations.get(_MAY_BE_LOST, "")
    allowed = {name.strip() for name in listed.split(",")}
    template, may = case.pod.template, case.rules.local_storage
    if may is not LocalStorage.REFUSE:
        allowed.update(template.scratch_volumes if may is LocalStorage.ALLOW else template.memory_volumes)
    lost = [name for name in template.local_volumes if name not in allowed]
    if lost:
        return refuse(f"it would lose its local volumes {', '.join(lost)}", volumes=len(lost))
    return allow("it has no local volume to lose")


def pvc(case: CheckInput) -> CheckResult:
    if case.rules.refuse_volume_claims and case.pod.template.volume_claims:
        return refuse("it has volume claims")
    return allow("volume claims do not prevent its eviction")


def resource_claims(case: CheckInput) -> CheckResult:
    if case.rules.refuse_resource_claims and case.pod.template.resource_claims:
        return refuse("it has resource claims")
    return allow("resource claims do not prevent its eviction")
