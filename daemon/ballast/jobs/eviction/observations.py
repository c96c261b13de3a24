"""What only several looks at the cluster show: hot nodes, changed replicas, new wrong annotations."""

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec
import numpy as np

from ballast.cluster.write import WriteTarget
from ballast.eviction.annotations import strange, unknown_lifts
from ballast.eviction.facts import WorkloadKey
from ballast.eviction.gate import LIFTED_BY_NAME
from ballast.model.load_limits import EQUAL, Weights, limits
from ballast.model.pod import Pod
from ballast.model.sample import Bools, Floats
from ballast.model.snapshot import Snapshot
from ballast.model.workload import Autoscaler, Namespace, Workload
from ballast.planners.aims import Aims
from ballast.planners.thresholds import Thresholds, hot
from ballast.planning.moment import loads, of_nodes, watched_of
from ballast.windows.node_lives import NodeKey, node_keys

OVERLOADED = 0.9
"""Load in the shortest window, of a resource with a limit, from which a node is relieved at once, and even if its
pods' landing is not steered."""

OVERLOADED_FOR = 2
"""Shortest windows in a row after which a node counts as overloaded."""

GAP = 2.5
"""Intervals between two windows that still follow one another."""


class HotNodes:
    """`confirmed` counts windows in a row above the threshold of relief, by node; a node whose load is unknown in
    between starts again at zero."""

    def __init__(self, aims: Aims, interval: float, weights: Weights = EQUAL) -> None:
        self._aims, self._interval, self._weights = aims, interval, weights
        self._time = -np.inf
        self._keys: frozenset[NodeKey] = frozenset()
        self._overloaded: Mapping[str, int] = {}
        self.confirmed: Mapping[str, int] = {}
        self.causes: Mapping[str, frozenset[str]] = {}
        """The resources of which a node was too loaded in its last window."""

    @property
    def overloaded(self) -> frozenset[str]:
        """Those at 0.9 or above for 2 of the shortest windows in a row."""
        return frozenset(name for name, windows in self._overloaded.items() if windows >= OVERLOADED_FOR)

    def observe(self, snapshot: Snapshot) -> None:
        """A new snapshot; the same one again changes nothing."""
        passed = snapshot.time - self._time
        if passed == 0:
            return
        follows = 0 < passed <= GAP * self._interval
        self._time = snapshot.time
        watched = watched_of(snapshot, self._aims, self._weights)
        load = loads(snapshot, watched)
        counted = np.array([node.schedulable for node in snapshot.nodes], bool)
        too_loaded = hot(load, counted, self._thresholds(snapshot, load, counted, watched))
        too_hot: Bools = np.asarray(too_loaded.any(axis=1))
        limited = np.isfinite(limits(self._aims.high, watched))
        clearly = (of_nodes(snapshot.shortest.mean, snapshot, watched) >= OVERLOADED) & limited & counted[:, None]
        too_loaded |= clearly
        self.causes = {
            snapshot.nodes[row].name: frozenset(np.array(watched)[too_loaded[row]].tolist())
            for row in np.flatnonzero(too_loaded.any(axis=1)).tolist()
        }
        self._forget_others(snapshot)
        self.confirmed = _counted(snapshot, too_hot, self.confirmed if follows else {})
        self._overloaded = _counted(snapshot, clearly.any(axis=1), self._overloaded if follows else {})

    def _forget_others(self, snapshot: Snapshot) -> None:
        """A node created again under an old name was not hot yet."""
        keys = frozenset(node_keys(snapshot.nodes))
        new = {name for name, _ in keys - self._keys}
        self.confirmed, self._overloaded = (
            {name: count for name, count in counts.items() if name not in new}
            for counts in (self.confirmed, self._overloaded)
        )
        self._keys = keys

    def _thresholds(self, snapshot: Snapshot, load: Floats, counted: Bools, watched: tuple[str, ...]) -> Thresholds:
        aims = self._aims
        if aims.deviation is None:
            return Thresholds.absolute(load, aims.high, aims.low, watched)
        numbers: dict[str, int] = {}
        pools = [numbers.setdefault(snapshot.pool(row), len(numbers)) for row in range(len(snapshot.nodes))]
        return Thresholds.deviation(load, counted, np.array(pools, np.int64), aims.deviation)


def _counted(snapshot: Snapshot, marked: Bools, before: Mapping[str, int]) -> dict[str, int]:
    names = [snapshot.nodes[row].name for row in np.flatnonzero(marked).tolist()]
    return {name: before.get(name, 0) + 1 for name in names}


class RecentScaling:
    """What is seen the first time has not changed; a change is as old as the observation that found it."""

    def __init__(self) -> None:
        self._replicas: dict[WorkloadKey, int | None] = {}
        self._changed: dict[WorkloadKey, float] = {}

    def observe(self, workloads: Iterable[Workload], now: float) -> None:
        replicas = {workload.key: workload.replicas for workload in workloads}
        before = self._replicas
        changed = [key for key, number in replicas.items() if key in before and before[key] != number]
        kept = {key: at for key, at in self._changed.items() if key in replicas}
        self._changed = kept | dict.fromkeys(changed, now)
        self._replicas = replicas

    def beside(self, autoscalers: Iterable[Autoscaler]) -> tuple[Autoscaler, ...]:
        """The autoscalers with the last change of what they scale, and everybody else's changes as those of an
        autoscaler without a kind."""
        scaled = []
        latest = dict(self._changed)
        for autoscaler in autoscalers:
            at = latest.pop(autoscaler.key, None)
            later = max((time for time in (at, autoscaler.scaled_at) if time is not None), default=None)
            scaled.append(msgspec.structs.replace(autoscaler, scaled_at=later))
        return (*scaled, *(Autoscaler(*key, scaled_at=at, own_kind="") for key, at in latest.items()))


class InvalidAnnotations:
    """`tell` hears of each value of each object once, as long as it stands."""

    def __init__(self, prefix: str, tell: Callable[[WriteTarget, str], None]) -> None:
        self._prefix, self._tell = prefix, tell
        self._told: set[tuple[WriteTarget, str]] = set()

    def observe(self, workloads: Iterable[Workload], namespaces: Iterable[Namespace], pods: Iterable[Pod]) -> None:
        wrong: set[tuple[WriteTarget, str]] = set()
        for workload in workloads:
            for why in self._wrong(workload.annotations):
                wrong.add(
                    (
                        WriteTarget(
                            workload.kind, workload.name, workload.namespace, workload.uid, workload.api_version
                        ),
                        why,
                    )
                )
        for namespace in namespaces:
            for why in self._wrong(namespace.annotations):
                wrong.add((WriteTarget("Namespace", namespace.name), why))
        for pod in pods:
            if not pod.annotations:  # Most have none, and they are many.
                continue
            for why in self._wrong(pod.annotations, pod=True):
                wrong.add((WriteTarget("Pod", pod.name, pod.namespace, pod.uid), why))
        for target, why in sorted(wrong - self._told, key=str):
            self._tell(target, why)
        self._told = wrong

    def _wrong(self, annotations: Mapping[str, str], *, pod: bool = False) -> Iterator[str]:
        if not annotations:
            return
        if (why := strange(annotations, self._prefix, pod=pod)) is not None:
            yield f"left alone by evictions: it {why}"
        if (why := unknown_lifts(annotations, self._prefix, LIFTED_BY_NAME)) is not None:
            yield why
