"""Waiting and running pods that are alike, so that one search answers for all of them."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ballast.model.sample import Bools, Ints
from ballast.placement.simulated_placement import SimulatedPlacement
from ballast.planners.frontier import fit_elsewhere

_FEW = 128


class AlikePods:
    """Pods by what decides where they may go: the nodes that they may run on, their requests, their kin."""

    def __init__(self, placement: SimulatedPlacement) -> None:
        self._placement = placement
        self._class, self._masks = self._classes()
        self._shape = np.unique(placement.layout.asked, axis=0, return_inverse=True)[1].reshape(-1)

    def may_run(self, pod: int) -> Bools:
        """[node]: whether the pod may run there at all."""
        return self._masks[int(self._class[pod])]

    def candidates(self, movable: Bools, by_kin: bool) -> tuple[Ints, Groups]:
        """Pods with another way to go, one row for each (node, requests, class, kin), and who else is like it."""
        on, requests = self._placement.on, self._placement.layout.asked
        pods = np.flatnonzero(movable & (on >= 0))
        kept = np.zeros(len(pods), bool)
        for number, mask in enumerate(self._masks):
            mine = np.flatnonzero(self._class[pods] == number)
            rows = np.flatnonzero(mask & self._placement.targets)
            if len(mine) and len(rows):
                kept[mine] = self._another(pods[mine], requests, on, rows)
        pods = pods[kept]
        key = (on[pods] * (self._shape.max(initial=0) + 1) + self._shape[pods]) * len(self._masks) + self._class[pods]
        if by_kin:
            key = key * (self.kin.max(initial=0) + 1) + self.kin[pods]
        order = np.argsort(key, kind="stable")
        first = np.flatnonzero(np.diff(key[order], prepend=-1))
        return pods[order[first]], Groups(pods[order], np.append(first, len(order)))

    def _another(self, pods: Ints, asked: Ints, on: Ints, rows: Ints) -> Bools:
        """[pod]: whether one of `rows` other than its own has room."""
        shapes, which = np.unique(self._shape[pods], return_inverse=True)
        free = self._placement.free
        if len(shapes) > _FEW:
            # What is not requested may be overcommitted.
            return fit_elsewhere(asked[pods], on[pods], np.maximum(free, 0), rows)
        alike = np.zeros(len(pods), bool)
        listed = np.zeros(len(free), bool)
        listed[rows] = True
        for number in range(len(shapes)):
            mine = np.flatnonzero(which == number)
            request = asked[pods[mine[0]]]
            fits = ((free >= request) | (request == 0)).all(axis=1) & listed
            alike[mine] = np.count_nonzero(fits) - fits[on[pods[mine]]] > 0
        return alike

    @cached_property
    def kin(self) -> Ints:
        """[pod]: a number that pods share which look at the same pods, and are looked at by the same."""
        numbers: dict[tuple[str, int, int], int] = {}
        keys = ((pod.namespace, id(pod.labels), id(pod.template)) for pod in self._placement.layout.pods)
        return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)

    def _classes(self) -> tuple[Ints, list[Bools]]:
        """Pods by the nodes that they may run on at all."""
        numbers: dict[bytes, int] = {}
        by_id: dict[int, int] = {}
        masks: list[Bools] = []
        classes = np.zeros(len(self._placement.layout.pods), np.int64)
        for row, pod in enumerate(self._placement.layout.pods):
            number = by_id.get(id(pod.template))
            if number is None:
                mask = self._placement.sites.allowed(pod.template)
                number = numbers.setdefault(mask.tobytes(), len(masks))
                if number == len(masks):
                    masks.append(mask)
                by_id[id(pod.template)] = number
            classes[row] = number
        return classes, masks


class Groups:
    """Pods that are alike, by the number of their group, in the order of their names."""

    def __init__(self, pods: Ints, starts: Ints) -> None:
        self._pods, self._starts = pods, starts

    def __getitem__(self, group: int) -> Ints:
        return self._pods[self._starts[group] : self._starts[group + 1]]
