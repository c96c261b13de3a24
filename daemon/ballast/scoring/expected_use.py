"""What pods use that the window does not show yet, and what it still shows of pods that are gone.

A window of W seconds shows a pod that came a seconds ago by a/W of what it uses. A burst that is judged by the window
alone therefore piles up on the nodes that were idle before it, for a quarter of an hour. Here the rest, 1 - a/W, is
added by what the pod is expected to use; what a departed pod still adds to the window is taken away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from ballast.model.sample import Floats, Ints
from ballast.model.shape import Shape
from ballast.scoring.demand import demand, units

RESOURCES = ("cpu", "memory")

LEAST, MOST = 0.02, 10.0
"""Bounds of the ratio of use to requests: beyond them one of the two is no measure of the other."""

EVIDENT = 0.02
"""The least share of a node that the window has to show as requested: below it other processes are what it measures."""

SHOWN = 0.5
"""The least share of the requests that the window has to show for a ratio to be learned."""

Siblings = Mapping[str, Mapping[str, float]]


class NodeAmounts(NamedTuple):
    """[node] of one resource, milli-cores or bytes: the use where it is known, else 0; requests now; allocatable."""

    used: Floats
    requested: Ints
    allocatable: Ints


class Presence(NamedTuple):
    """A pod on a node since one Unix time until another, inf while it is there; its owner's UID."""

    row: int
    shape: Shape
    owner: str
    since: float
    until: float = np.inf


class ExpectedUse(Protocol):
    """What strategies read."""

    @property
    def ratios(self) -> Mapping[str, float]:
        """What the cluster uses of its requests, by resource."""
        ...

    def unseen(self, resource: str) -> Floats:
        """[node]: what to add to the window's use, milli-cores or bytes; it may change in place with the pods."""
        ...

    def of(self, shape: Shape, owner: str, resource: str) -> float:
        """What a pod is expected to use (milli-cores, bytes).

        That is the measured mean of its siblings; else its request (kube-scheduler's default without one) times what
        the cluster uses of its requests, at most its limit.
        """
        ...


class RecentPods:
    """Of the pods of one snapshot, whose window ends at `end` (Unix seconds) and is `seconds` long.

    `siblings` are means of measured use (cores, bytes) of the pods of one owner, by its UID.
    """

    def __init__(
        self,
        nodes: int,
        end: float,
        seconds: float,
        siblings: Siblings | None = None,
        ratios: Mapping[str, float] | None = None,
    ) -> None:
        """`ratios` are those of the snapshot before, without one 1: as much use as requests."""
        self.end, self.seconds = end, seconds
        self._ratios: dict[str, float] = dict.fromkeys(RESOURCES, 1.0) | dict(ratios or {})
        self._siblings = siblings or {}
        self._sums: dict[str, Floats] = {name: np.zeros(nodes) for name in RESOURCES}
        self._uses: dict[tuple[int, str], tuple[Shape, tuple[float, float]]] = {}

    @property
    def ratios(self) -> Mapping[str, float]:
        """By resource; those of the snapshot before where this one does not tell."""
        return self._ratios

    def unseen(self, resource: str) -> Floats:
        """[node]: milli-cores or bytes; the array changes in place with the pods."""
        return self._sums[resource]

    def of(self, shape: Shape, owner: str, resource: str) -> float:
        """Milli-cores or bytes."""
        return self._of(shape, owner)[RESOURCES.index(resource)]

    def measure(self, amounts: Mapping[str, NodeAmounts], pods: Iterable[Presence]) -> None:
        """Learns the ratios from `amounts` by resource, then counts `pods`: those that came or went within the window.

        The window does not show all requests of now, and it shows those of departed pods. Only nodes count where it
        shows some of what the node has, and of these together most of what they are requested: elsewhere what is
        used may be anybody's, and the ratio before stays.
        """
        pods = list(pods)  # As arrays: schedulers wait meanwhile, and after a burst there are thousands.
        rows = np.array([pod.row for pod in pods], np.int64)
        shares = self._unseen([pod.since for pod in pods], [pod.until for pod in pods])
        placed = {key: demand(shape).placed for key, shape in {id(pod.shape): pod.shape for pod in pods}.items()}
        for name, (used, requested, allocatable) in amounts.items():
            asked = np.array([placed[id(pod.shape)].get(name, 0) for pod in pods], float)
            shown = requested - np.bincount(rows, shares * asked, len(requested))
            evident = (used > 0) & (shown > EVIDENT * allocatable)
            total = float(shown[evident].sum())
            if total > SHOWN * float(requested[evident].sum()):
                self._ratios[name] = min(max(float(used[evident].sum()) / total, LEAST), MOST)
        uses = np.array([self._of(pod.shape, pod.owner) for pod in pods]).reshape(-1, len(RESOURCES))
        for name, use in zip(RESOURCES, uses.T, strict=True):
            sums = self._sums[name]
            sums += np.bincount(rows, shares * use, len(sums))

    def recent(self, pod: Presence) -> bool:
        """Whether the window does not show exactly what a pod uses now; later it always will."""
        begin = self.end - self.seconds
        return pod.since > begin if pod.until == np.inf else pod.until > begin

    def count(self, pod: Presence, sign: int = 1) -> None:
        """Adds a pod; with sign -1 takes it back."""
        share = sign * float(self._unseen(pod.since, pod.until))
        if share:
            for name, use in zip(RESOURCES, self._of(pod.shape, pod.owner), strict=True):
                self._sums[name][pod.row] += share * use

    def _unseen(self, since: ArrayLike, until: ArrayLike) -> Floats:
        """The share of its use to add: what runs now less what the window shows, from -1 to 1."""
        stays = np.equal(until, np.inf)
        if not self.seconds:
            return np.asarray(stays & np.greater_equal(since, self.end), float)
        shown = np.minimum(until, self.end) - np.maximum(since, self.end - self.seconds)
        return np.asarray(stays - np.maximum(shown, 0.0) / self.seconds)

    def _of(self, shape: Shape, owner: str) -> tuple[float, float]:
        measured = self._siblings.get(owner)
        key = (id(shape), owner if measured else "")
        # The shape is kept beside the numbers, so that its id stays its own.
        entry = self._uses.get(key)
        if entry is None:
            cpu, memory = (self._predict(shape, name, (measured or {}).get(name)) for name in RESOURCES)
            entry = self._uses[key] = (shape, (cpu, memory))
        return entry[1]

    def _predict(self, shape: Shape, resource: str, measured: float | None) -> float:
        if measured is not None:
            return float(units(resource, measured))
        requests = demand(shape)
        use = requests.placed.get(resource, 0) * self._ratios[resource]
        limits = [container.limits.get(resource) for container in shape.containers]
        if limits and None not in limits:
            use = min(use, float(sum(units(resource, limit) for limit in limits if limit is not None)))
        return use


class PartOfUse:
    """The expected use of the nodes at some rows, taken when it is read."""

    def __init__(self, whole: ExpectedUse, index: Ints) -> None:
        self._whole, self._index = whole, index

    @property
    def ratios(self) -> Mapping[str, float]:
        """As the whole has them."""
        return self._whole.ratios

    def unseen(self, resource: str) -> Floats:
        """[node]: a copy."""
        return self._whole.unseen(resource).take(self._index)

    def of(self, shape: Shape, owner: str, resource: str) -> float:
        """As the whole has it."""
        return self._whole.of(shape, owner, resource)
