"""Whether nodes hold the pods of others: requests, loads now and at the day's peak, also where nodes are lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb

import numpy as np

from ballast.model.sample import Bools, Floats, Ints
from ballast.placement.layout import PODS
from ballast.placement.simulated_placement import SimulatedPlacement

EVERY = 3000
"""Most sets of lost nodes that are all looked at; of more, those of the nodes that are hardest to do without."""

NEAR = 64
"""Nodes with most room that are looked at first."""

_USUAL = (PODS, "cpu", "memory", "ephemeral-storage")


def peaks(placement: SimulatedPlacement, pods: Bools, peak: Floats | None) -> tuple[Floats, Floats, Floats]:
    """Loads at the peak [node, resource], and what pods take along [pod, resource] now and then, in cores and bytes.

    `peak` is NaN where it is unknown, and never below the load. What a node uses beyond its pods, or more at its peak
    than now, goes with its `pods` [pod], by what they use: nothing that is measured is lost when they move.
    """
    layout = placement.layout
    known = np.full_like(placement.load, np.nan) if peak is None else np.where(layout.there, peak, np.nan)
    most = np.fmax(placement.load, known)
    whole = np.where(np.isfinite(layout.whole), layout.whole, 0.0)
    rows = np.flatnonzero(layout.present)
    sums = np.zeros_like(whole)
    np.add.at(sums, layout.on[rows], np.nan_to_num(layout.used[rows]))
    now = _with(placement, pods, np.maximum(np.nan_to_num(placement.load) * whole - sums, 0.0))
    then = _with(placement, pods, np.maximum(np.nan_to_num(most) * whole - sums, 0.0))
    return most, now, then


def _with(placement: SimulatedPlacement, pods: Bools, more: Floats) -> Floats:
    """What pods use, and their part of `more` [node, resource]."""
    layout = placement.layout
    rows = np.flatnonzero(pods & layout.present)
    home, used = layout.on[rows], np.nan_to_num(layout.used[rows])
    sums = np.zeros_like(more)
    np.add.at(sums, home, used)
    counts = np.bincount(home, minlength=len(layout.nodes))[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(sums[home] > 0, used / sums[home], 1 / np.maximum(counts[home], 1))
    peak = layout.used.copy()
    peak[rows] += share * more[home]
    return peak


@dataclass
class RoomLeft:
    """What is left on nodes as pods are put on them in thought: `free` [node, kind], `load` and `peak` by node.

    `used` and `at_peak` [pod, resource] are what pods take along, `ceiling` [resource] is what nodes may reach.
    """

    placement: SimulatedPlacement
    ceiling: Floats
    free: Ints
    load: Floats
    peak: Floats
    used: Floats
    at_peak: Floats

    @classmethod
    def of(cls, placement: SimulatedPlacement, pods: Bools, peak: Floats | None) -> RoomLeft:
        """As things stand, below the ceiling of moves; `pods` are those that may move."""
        most, used, at_peak = peaks(placement, pods, peak)
        return cls(placement, placement.ceiling, placement.free.copy(), placement.load.copy(), most, used, at_peak)

    def copy(self, ceiling: Floats | None = None) -> RoomLeft:
        """Another one, to try something out; below another ceiling where one is given."""
        return replace(
            self,
            ceiling=self.ceiling if ceiling is None else ceiling,
            free=self.free.copy(),
            load=self.load.copy(),
            peak=self.peak.copy(),
        )

    def open_among(self, pod: int, rows: Ints) -> Bools:
        """[row]: its requests and loads fit, now and at the peak; constraints aside."""
        requests = self.placement.layout.asked[pod]
        mask = np.ones(len(rows), bool)
        for kind in np.flatnonzero(requests).tolist():
            mask &= self.free[rows, kind] >= requests[kind]
        whole = self.placement.layout.whole[rows]
        mask &= (self.load[rows] + self.used[pod] / whole <= self.ceiling).all(axis=1)
        mask &= (self.peak[rows] + self.at_peak[pod] / whole <= self.ceiling).all(axis=1)
        return np.asarray(mask)

    def put(self, pod: int, row: int, times: int = 1) -> None:
        """On a node; `times` -1 takes it away."""
        whole = self.placement.layout.whole[row]
        self.free[row] -= times * self.placement.layout.asked[pod]
        self.load[row] += times * np.nan_to_num(self.used[pod] / whole)
        self.peak[row] += times * np.nan_to_num(self.at_peak[pod] / whole)

    def holds(self, nodes: Bools) -> bool:
        """Whether none of `nodes` [node] is above the ceiling now, or asked for more than it has."""
        return bool((self.load[nodes] <= self.ceiling).all() and (self.free[nodes] >= 0).all())


class Reserve:
    """Finds out whether `others` can take over the pods of any `lost` of them, in one pool."""

    def __init__(self, placement: SimulatedPlacement, pods: Bools, lost: int) -> None:
        """`pods` [pod] are those that need another node where theirs is lost."""
        self._placement, self._lost = placement, lost
        layout = placement.layout
        self._pods = pods & layout.present
        often = np.maximum(layout.asked.mean(axis=0), 1e-9) if len(layout.asked) else np.ones(len(layout.kinds))
        self._size: Floats = np.asarray((layout.asked / often).max(axis=1, initial=0.0))
        unusual = [kind for kind, name in enumerate(layout.kinds) if name not in _USUAL]
        self._unusual: Bools = np.asarray((layout.asked[:, unusual] > 0).any(axis=1))
        self._stuck: dict[int, bool] = {}

    def stands(self, room: RoomLeft, others: Bools) -> bool:
        """Whether the pods of any `lost` nodes out of `others` [node] find room on the rest."""
        rows = np.flatnonzero(others)
        if not len(rows) or self._lost >= len(rows):
            return not len(rows) or not self._pods[np.isin(self._placement.on, rows)].any()
        if not self._in_sum(room, rows):
            return False
        sets = self._sets(rows)
        if self._lost > 1:
            return all(self._without(room, rows, gone) for gone in sets)
        hardest = next(sets, None)
        if hardest is None or not self._without(room, rows, hardest):
            return hardest is None
        easy = set(self._spread(room, rows).holds().tolist())
        return all(gone[0] in easy or self._without(room, rows, gone) for gone in sets)

    def on(self, rows: Sequence[int]) -> Ints:
        """The pods on these nodes that need another one, the largest first."""
        pods = np.flatnonzero(self._pods & np.isin(self._placement.on, rows))
        return np.asarray(pods[np.lexsort((pods, -self._size[pods]))])

    def _in_sum(self, room: RoomLeft, rows: Ints) -> bool:
        """The mean load of the rest, where the largest of them are lost."""
        whole = np.where(np.isfinite(room.placement.layout.whole[rows]), room.placement.layout.whole[rows], 0.0)
        for load in (room.load[rows], room.peak[rows]):
            left = np.sort(whole, axis=0)[: len(rows) - self._lost].sum(axis=0)
            if not ((load * whole).sum(axis=0) <= np.where(left > 0, left * room.ceiling, np.inf)).all():
                return False
        return True

    def _sets(self, rows: Ints) -> Iterator[tuple[int, ...]]:
        """The sets of lost nodes, the hardest first."""
        if not self._lost:
            return
        weight = np.zeros(len(self._placement.layout.nodes))
        pods = np.flatnonzero(self._pods & (self._placement.on >= 0))
        np.add.at(weight, self._placement.on[pods], self._size[pods])
        order = rows[np.lexsort((rows, -weight[rows]))].tolist()
        if self._lost == 1 or comb(len(order), self._lost) <= EVERY:
            yield from combinations(order, self._lost)
            return
        for start in range(len(order) - self._lost + 1):
            yield tuple(order[start : start + self._lost])

    def _spread(self, room: RoomLeft, rows: Ints) -> LostNodePlacement:
        """The nodes of `rows` [place] whose pods all can run anywhere that nodes alone allow."""
        layout, on = self._placement.layout, self._placement.on
        pods = np.flatnonzero(self._pods & np.isin(on, rows))
        plain = np.array([self._is_plain(pod) for pod in pods.tolist()], bool)
        pods = pods[~np.isin(on[pods], on[pods[~plain]])]
        pods = pods[np.array([not self._is_stuck(pod) for pod in pods.tolist()], bool)]
        pods = pods[np.lexsort((pods, -self._size[pods], on[pods]))]
        near = rows[np.argsort(-_headroom(room)[rows], kind="stable")[: NEAR + 1]]
        templates = [layout.pods[pod].template for pod in pods.tolist()]
        masks = {id(template): self._placement.sites.allowed(template)[near] for template in templates}
        allowed = np.array([masks[id(template)] for template in templates], bool).reshape(len(pods), len(near))
        return LostNodePlacement(
            room.free,
            room.load,
            room.peak,
            layout.whole,
            room.ceiling,
            near,
            layout.asked[pods],
            room.used[pods],
            room.at_peak[pods],
            allowed,
            on[pods],
        )

    def _without(self, room: RoomLeft, rows: Ints, gone: tuple[int, ...]) -> bool:
        """Whether the pods of `gone` find room on the rest of `rows`; where spreading them fails, packing is tried."""
        rest = rows[~np.isin(rows, gone)]
        pods = [pod for pod in self.on(gone).tolist() if not self._is_stuck(pod)]
        return not pods or any(self._placed(room.copy(), rest, pods, tight) for tight in (False, True))

    def _placed(self, room: RoomLeft, rest: Ints, pods: Sequence[int], tight: bool) -> bool:
        near = rest[np.argsort(-_headroom(room)[rest], kind="stable")[:NEAR]]
        taken: dict[object, list[int]] = {}
        for pod in pods:
            row = None
            for rows in (near, rest) if len(near) < len(rest) else (near,):
                row = self._chosen(room, pod, rows, tight, taken)
                if row is not None:
                    break
            if row is None:
                return False
            room.put(pod, row)
            if self._placement.neighbours.matters(pod):
                taken.setdefault(self._kin(pod), []).append(row)
        return True

    def _chosen(self, room: RoomLeft, pod: int, rows: Ints, tight: bool, taken: dict[object, list[int]]) -> int | None:
        mask = room.open_among(pod, rows) & self._allowed(pod)[rows]
        if taken and self._placement.neighbours.matters(pod):
            mask &= ~np.isin(rows, taken.get(self._kin(pod), []))
        if not mask.any():
            return None
        fullness = np.maximum(room.load[rows], room.peak[rows]).max(axis=1)
        best = np.where(mask, fullness, -np.inf if tight else np.inf)
        return int(rows[np.argmax(best) if tight else np.argmin(best)])

    def _allowed(self, pod: int) -> Bools:
        """[node]: what nodes and other pods are lets it run there; of devices and volumes also the room."""
        template = self._placement.layout.pods[pod].template
        return self._placement.sites.allowed(template) if self._is_plain(pod) else self._placement.feasible(pod)

    def _is_plain(self, pod: int) -> bool:
        """Whether other pods, devices and volumes do not decide where it may run."""
        claims = self._placement.layout.pods[pod].template.volume_claims
        return not (self._unusual[pod] or claims or self._placement.neighbours.matters(pod))

    def _is_stuck(self, pod: int) -> bool:
        """Whether it could run nowhere else even now, whatever is emptied."""
        layout = self._placement.layout
        template, home = layout.pods[pod].template, int(layout.on[pod])
        key = hash((id(template), home))
        if key not in self._stuck:
            mask = self._placement.sites.allowed(template) & (layout.pool == layout.pool[home])
            mask[home] = False
            self._stuck[key] = not mask.any()
        return self._stuck[key]

    def _kin(self, pod: int) -> object:
        moved_pod = self._placement.layout.pods[pod]
        return moved_pod.namespace, moved_pod.owner.uid if moved_pod.owner else moved_pod.name


def _headroom(room: RoomLeft) -> Floats:
    """[node]: how far the fullest resource is below the ceiling."""
    return np.asarray((room.ceiling - np.maximum(room.load, room.peak)).min(axis=1))


TOGETHER = 256
"""Nodes that are looked at in one array."""


@dataclass(frozen=True)
class LostNodePlacement:
    """Room on nodes as in `RoomLeft`, and the `near` nodes, those with most room first, one more than one may use.

    `asked` [pod, kind], `used` and `at_peak` [pod, resource] are what pods take, `allowed` [pod, near] where each of
    `pods` may run. Pods of one node follow one another, the largest first; `home` [pod] ascends.
    """

    free: Ints
    load: Floats
    peak: Floats
    whole: Floats
    ceiling: Floats
    near: Ints
    asked: Ints
    used: Floats
    at_peak: Floats
    allowed: Bools
    home: Ints

    def holds(self) -> Ints:
        """The nodes whose pods all find room, each put where the load is lowest then."""
        homes, starts, counts = np.unique(self.home, return_index=True, return_counts=True)
        parts = [self._of(homes[cut], starts[cut], counts[cut]) for cut in _cuts(len(homes))]
        return np.asarray(homes[np.concatenate([np.zeros(0, bool), *parts])])

    def _of(self, homes: Ints, starts: Ints, counts: Ints) -> Bools:
        """[home]"""
        near, fits = self.near, np.ones(len(homes), bool)
        size = (len(homes), 1, 1)
        free, load, peak = (np.tile(table[near], size) for table in (self.free, self.load, self.peak))
        others: Bools = np.asarray(near != homes[:, None])
        # Without the node itself among them, the last of the near ones is one too many.
        others[others.all(axis=1), -1] = False
        for number in range(int(counts.max(initial=0))):
            rows = np.flatnonzero(fits & (counts > number))
            if not len(rows):
                break
            pods = starts[rows] + number
            requests = self.asked[pods][:, None]
            now, then = (amounts[pods][:, None] / self.whole[near] for amounts in (self.used, self.at_peak))
            mask = others[rows] & self.allowed[pods] & ((free[rows] >= requests) | (requests == 0)).all(axis=2)
            mask &= (load[rows] + now <= self.ceiling).all(axis=2) & (peak[rows] + then <= self.ceiling).all(axis=2)
            fits[rows] = mask.any(axis=1)
            fullness = np.maximum(load[rows], peak[rows]).max(axis=2)
            chosen = np.argmin(np.where(mask, fullness, np.inf), axis=1)
            places = np.arange(len(rows))
            free[rows, chosen] -= requests[:, 0]
            load[rows, chosen] += np.nan_to_num(now[places, chosen])
            peak[rows, chosen] += np.nan_to_num(then[places, chosen])
        return fits


def _cuts(count: int) -> Iterator[slice]:
    return (slice(start, start + TOGETHER) for start in range(0, count, TOGETHER))
