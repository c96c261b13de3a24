"""Reports annotations with an invalid value. They exclude the object, perhaps unintentionally."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ballast.cluster.write import WriteTarget
from ballast.eviction.annotations import strange
from ballast.model.pod import Pod
from ballast.model.workload import Namespace, Workload


class InvalidAnnotations:
    """`tell` hears of each value of each object once, as long as it stands."""

    def __init__(self, prefix: str, tell: Callable[[WriteTarget, str], None]) -> None:
        self._prefix, self._tell = prefix, tell
        self._told: set[tuple[WriteTarget, str]] = set()

    def observe(self, workloads: Iterable[Workload], namespaces: Iterable[Namespace], pods: Iterable[Pod]) -> None:
        found: set[tuple[WriteTarget, str]] = set()
        for each in workloads:
            if why := strange(each.annotations, self._prefix):
                found.add((WriteTarget(each.kind, each.name, each.namespace, each.uid, each.api_version), why))
        for namespace in namespaces:
            if why := strange(namespace.annotations, self._prefix):
                found.add((WriteTarget("Namespace", namespace.name), why))
        for pod in pods:
            if pod.annotations and (why := strange(pod.annotations, self._prefix)):
                found.add((WriteTarget("Pod", pod.name, pod.namespace, pod.uid), why))
        for target, why in sorted(found - self._told, key=str):
            self._tell(target, f"left alone by evictions: it {why}")
        self._told = found
