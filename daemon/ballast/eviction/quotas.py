"""Which full ResourceQuotas would count the replacement of a pod.

Source: kubernetes pkg/quota/v1/evaluator/core/pods.go, podMatchesScopeFunc.
"""

from collections.abc import Callable, Iterable, Mapping

from ballast.model.pod import Pod
from ballast.model.selector import Requirement
from ballast.model.workload import Quota, QuotaScope


def in_the_way(quotas: Iterable[Quota], pod: Pod) -> Quota | None:
    """The first of the full quotas whose scopes all hold for the pod, or may: a scope that is not known holds."""
    return next((quota for quota in quotas if all(_holds(scope, pod) for scope in quota.scopes)), None)


def _holds(scope: QuotaScope, pod: Pod) -> bool:
    if scope.name == "PriorityClass":
        name = pod.template.priority_class
        wanted = Requirement("class", scope.operator, scope.values)
        return wanted.matches({"class": name} if name else {})
    known = _PLAIN.get(scope.name)
    return known is None or scope.operator != "Exists" or known(pod)


def _best_effort(pod: Pod) -> bool:
    shape = pod.shape
    parts = (*shape.containers, *shape.init_containers, *((shape.pod_level,) if shape.pod_level else ()))
    return not any(part.requests.get(name) or part.limits.get(name) for part in parts for name in ("cpu", "memory"))


_PLAIN: Mapping[str, Callable[[Pod], bool]] = {
    "BestEffort": _best_effort,
    "NotBestEffort": lambda pod: not _best_effort(pod),
    "Terminating": lambda pod: pod.template.deadline,
    "NotTerminating": lambda pod: not pod.template.deadline,
}
