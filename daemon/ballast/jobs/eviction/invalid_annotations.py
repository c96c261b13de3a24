"""Reports annotations with an invalid value: those that exclude, and names that `evict-lifts` cannot lift."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from ballast.cluster.write import WriteTarget
from ballast.eviction.annotations import strange, unknown_lifts
from ballast.eviction.gate import LIFTED_BY_NAME
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
            for why in self._wrong(each.annotations):
                found.add((WriteTarget(each.kind, each.name, each.namespace, each.uid, each.api_version), why))
        for namespace in namespaces:
            for why in self._wrong(namespace.annotations):
                found.add((WriteTarget("Namespace", namespace.name), why))
        for pod in pods:
            for why in self._wrong(pod.annotations):
                found.add((WriteTarget("Pod", pod.name, pod.namespace, pod.uid), why))
        for target, why in sorted(found - self._told, key=str):
            self._tell(target, why)
        self._told = found

    def _wrong(self, annotations: Mapping[str, str]) -> Iterator[str]:
        if not annotations:
            return
        if (why := strange(annotations, self._prefix)) is not None:
            yield f"left alone by evictions: it {why}"
        if (why := unknown_lifts(annotations, self._prefix, LIFTED_BY_NAME)) is not None:
            yield why
