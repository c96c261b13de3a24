"""Policies that choose a node and devices for each arriving pod: Ballast's own criterion, and published ones.

The published ones follow github.com/hkust-adsl/kubernetes-scheduler-simulator, pkg/simulator/plugin. All of them break
ties by the order of the nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from ballast.extender.decisions import OFTEN
from ballast.model.devices import MILLI, SHARE_COUNT, SHARE_MILLI
from ballast.model.sample import Floats, Ints
from ballast.scoring.devices.columns import Columns, vectors
from ballast.scoring.dominant_residual import DominantResidual
from ballast.scoring.profiles import Arrivals, Profile
from ballast.scoring.residual import NOWHERE, steps
from ballast_lab.experiments.openb.nodes import OpenbNodes
from ballast_lab.experiments.openb.trace import TraceWorkload

MIB = 2**20


class PlacementPolicy(Protocol):
    """Follows the nodes of a run."""

    def choose(self, kind: int) -> int | None:
        """The row of the best node, None if the pod fits on none."""

    def device(self, kind: int, row: int) -> int:
        """The device of that node on which a pod that asks for a part of one goes."""

    def changed(self, row: int) -> None:
        """A pod was placed there."""


class ResidualPolicy:
    """The dominant-residual criterion as the daemon has it, with the frequencies of the list as weights of profiles."""

    def __init__(self, work: TraceWorkload, nodes: OpenbNodes, random: np.random.Generator) -> None:
        self._nodes, self._allowed = nodes, work.allowed[:, nodes.order]
        self._columns = Columns(("cpu", "memory"), (), nodes.free.shape[1])
        self._asked = [
            {
                "cpu": kind.cpu,
                "memory": kind.memory * MIB,
                **({SHARE_COUNT: kind.count, SHARE_MILLI: kind.milli} if kind.count else {}),
            }
            for kind in work.kinds
        ]
        self._whole = self._amounts(np.arange(len(nodes.cpu)))
        # Kinds that differ in the models they accept alone ask for the same, and are one profile.
        self._requests, self._request = np.unique(vectors(self._columns, self._asked), axis=0, return_inverse=True)
        self._losses = np.full((len(self._requests), len(self._whole)), NOWHERE)
        # Nodes with as much free are in one state, and have the same L, as lambda is 0 with devices.
        self._numbers: dict[bytes, int] = {}
        self._states = np.empty_like(self._whole)
        self._state = np.array([self._number(row) for row in range(len(self._whole))])
        self._begin(work)

    def _begin(self, work: TraceWorkload) -> None:
        counts = np.bincount(self._request, np.bincount(work.pods, minlength=len(work.kinds)))
        shown = dict(zip(self._request.tolist(), self._asked, strict=True))
        self._weigh([Profile(shown[row], count) for row, count in enumerate(counts.tolist())])

    def _weigh(self, profiles: Sequence[Profile]) -> None:
        """L is by these profiles from now on, and is computed for a request when a pod asks for it."""
        self._criterion = DominantResidual().criterion(profiles, self._columns, self._whole)
        self._known = np.zeros(len(self._requests), bool)
        self._kept: dict[int, Ints] = {}
        self._fitness = np.full(len(self._states), np.nan)

    def choose(self, kind: int) -> int | None:
        """The least L."""
        request = self._request[kind]
        if not self._known[request]:
            self._know(request)
        losses = np.where(self._allowed[kind], self._losses[request], NOWHERE)
        row = int(losses.argmin())
        return None if losses[row] == NOWHERE else row

    def _know(self, request: int) -> None:
        numbers, state = np.unique(self._state, return_inverse=True)
        self._losses[request] = self._of(numbers, self._requests[[request]])[state, 0]
        self._known[request] = True
        self._kept.clear()

    def device(self, kind: int, row: int) -> int:
        """The fullest that has room, as the criterion assumes."""
        return self._nodes.fullest(kind, row)

    def changed(self, row: int) -> None:
        """L of this node alone is computed again."""
        number = self._state[row] = self._number(row)
        losses = self._kept.get(number)
        if losses is None:
            losses = self._kept[number] = self._of(np.array([number]), self._requests[self._known])[0]
        self._losses[self._known, row] = losses

    def _of(self, numbers: Ints, requests: Floats) -> Ints:
        """[state, request]: L in steps, NOWHERE where a request does not fit."""
        left, fitting = self._criterion.after(self._states[numbers, None], requests)
        fresh = numbers[np.isnan(self._fitness[numbers])]
        if len(fresh):
            self._fitness[fresh] = self._criterion.fitness(self._states[fresh])
        before = np.broadcast_to(self._fitness[numbers, None], fitting.shape)[fitting]
        losses = np.full(fitting.shape, NOWHERE)
        losses[fitting] = steps(before - self._criterion.fitness(np.maximum(left[fitting], 0.0)))
        return losses

    def _number(self, row: int) -> int:
        """That of the state of a node: what is free, devices in ascending order."""
        free = self._amounts(np.array([row]))[0]
        free[self._columns.plain :].sort()
        number = self._numbers.setdefault(free.tobytes(), len(self._numbers))
        if number == len(self._states):
            self._states = np.concatenate([self._states, np.empty_like(self._states)])
            self._fitness = np.concatenate([self._fitness, np.full(number, np.nan)])
        self._states[number] = free
        return number

    def _amounts(self, rows: Ints) -> Floats:
        nodes = self._nodes
        return np.column_stack(
            [nodes.cpu[rows], nodes.memory[rows] * MIB, nodes.free[rows].sum(axis=1), nodes.free[rows]]
        )


class LearnedResidual(ResidualPolicy):
    """Likewise, with profiles learned from nothing as the extender learns them from the pods that arrive."""

    def _begin(self, work: TraceWorkload) -> None:
        self._arrivals, self._renew_at = Arrivals(), 1

    def choose(self, kind: int) -> int | None:
        """The least L by the profiles of the pods so far, this one included."""
        self._arrivals.learn(self._asked[kind])
        if self._arrivals.count >= self._renew_at:
            self._renew_at += min(self._arrivals.count, OFTEN)
            self._weigh(self._arrivals.profiles())
        return super().choose(kind)


class LargeFirst(ResidualPolicy):
    """Likewise, of pods that are all known: those first that ask most of the devices, as batches do by `fullest`."""


class BestFit:
    """The least left of cpu and devices together (best_fit_score.go), on a scale of 0..100 between the candidates."""

    _CPU, _DEVICES = 128_000, 8_000

    def __init__(self, work: TraceWorkload, nodes: OpenbNodes, random: np.random.Generator) -> None:
        self._nodes = nodes

    def choose(self, kind: int) -> int | None:
        """The highest score."""
        rows = self._nodes.candidates(kind)
        if not len(rows):
            return None
        nodes, asked = self._nodes, self._nodes.work.kinds[kind]
        left = (nodes.cpu[rows] - asked.cpu) / self._CPU * 0.5
        left += (nodes.free[rows].sum(axis=1) - asked.volume) / self._DEVICES * 0.5
        scores = np.trunc((1 - left) * 100).astype(np.int64)
        low, high = int(scores.min()), int(scores.max())
        normal = (scores - low) * 100 // (high - low) if high > low else np.zeros(len(rows), np.int64)
        return int(rows[normal.argmax()])

    def device(self, kind: int, row: int) -> int:
        """The fullest that has room."""
        return self._nodes.fullest(kind, row)

    def changed(self, row: int) -> None:
        """Nothing is kept."""


class Random:
    """Any node, and any device, that has room."""

    def __init__(self, work: TraceWorkload, nodes: OpenbNodes, random: np.random.Generator) -> None:
        self._nodes, self._random = nodes, random

    def choose(self, kind: int) -> int | None:
        """One of the candidates."""
        rows = self._nodes.candidates(kind)
        return int(self._random.choice(rows)) if len(rows) else None

    def device(self, kind: int, row: int) -> int:
        """One of those that have room."""
        return int(self._random.choice(np.flatnonzero(self._nodes.free[row] >= self._nodes.work.kinds[kind].milli)))

    def changed(self, row: int) -> None:
        """Nothing is kept."""


class FragmentationGradient:
    """The least growth of fragments: devices' parts that typical pods cannot use (fgd_score.go, pkg/utils/frag.go)."""

    _TYPICAL = 0.95

    def __init__(self, work: TraceWorkload, nodes: OpenbNodes, random: np.random.Generator) -> None:
        self._nodes, self._work = nodes, work
        self._typical()
        asked = [(kind.cpu, kind.count, kind.milli) for kind in work.kinds]
        self._sizes = sorted({each[1:] for each in asked})
        self._size = np.array([self._sizes.index(each[1:]) for each in asked])
        self._cpu = np.array([each[0] for each in asked], float)
        self._scores = np.full((len(work.kinds), len(nodes.cpu)), -1, np.int64)
        self._devices = np.zeros((len(work.kinds), len(nodes.cpu)), np.int8)
        self._kept: dict[tuple[float, bytes, str], tuple[Ints, Ints]] = {}
        for row in range(len(nodes.cpu)):
            self.changed(row)

    def _typical(self) -> None:
        """The most frequent requests that make up 95 % of the pods; memory plays no part."""
        counts: dict[tuple[int, int, int, tuple[str, ...]], int] = {}
        for kind, count in zip(self._work.kinds, np.bincount(self._work.pods).tolist(), strict=True):
            key = (kind.cpu, kind.milli, kind.count, kind.models)
            counts[key] = counts.get(key, 0) + count
        ordered = sorted(counts, key=lambda key: (counts[key], key[:3], "|".join(key[3])), reverse=True)
        total, chosen, reached = sum(counts.values()), [], 0
        for key in ordered:
            if reached >= self._TYPICAL * total:
                break
            chosen.append(key)
            reached += counts[key]
        self._typical_cpu = np.array([key[0] for key in chosen], float)
        self._typical_milli = np.array([key[1] for key in chosen], float)
        self._typical_count = np.array([key[2] for key in chosen], float)
        self._share = np.array([counts[key] / total / (reached / total) for key in chosen])
        self._open = {
            model: np.array([not key[3] or model in key[3] for key in chosen]) for model in set(self._work.models)
        }

    def choose(self, kind: int) -> int | None:
        """The highest score."""
        rows = self._nodes.candidates(kind)
        return int(rows[self._scores[kind, rows].argmax()]) if len(rows) else None

    def device(self, kind: int, row: int) -> int:
        """That of the highest score."""
        return int(self._devices[kind, row])

    def changed(self, row: int) -> None:
        """Scores of this node alone are computed again; nodes that are alike share them."""
        nodes = self._nodes
        free = nodes.free[row, : nodes.devices[row]]
        key = (float(nodes.cpu[row]), free.tobytes(), nodes.models[row])
        found = self._kept.get(key)
        if found is None:
            if len(self._kept) > 20_000:
                self._kept.clear()
            found = self._kept[key] = self._of(float(nodes.cpu[row]), free, nodes.models[row])
        self._scores[:, row], self._devices[:, row] = found

    def _of(self, cpu: float, free: Floats, model: str) -> tuple[Ints, Ints]:
        """[kind]: scores, and the device for kinds that ask for a part of one."""
        options, start, devices = [free], [], []
        for count, milli in self._sizes:
            start.append(len(options))
            for device, left in _ways(free, count, milli):
                options.append(left)
                devices.append(device)
        start.append(len(options))
        first, last = np.array(start)[self._size], np.array(start)[self._size + 1]
        fitting = np.flatnonzero((last > first) & (self._cpu <= cpu))
        number = (last - first)[fitting]
        kind = np.repeat(fitting, number)
        option = (
            np.arange(number.sum()) - np.repeat(np.cumsum(number) - number, number) + np.repeat(first[fitting], number)
        )
        fragments = self._fragments(
            np.array(options), model, np.append(0, option), np.append(cpu, cpu - self._cpu[kind])
        )
        fall = (fragments[0] - fragments[1:]) / MILLI
        points = np.trunc(100 / (1 + np.exp(-fall))).astype(np.int64)
        scores = np.full(len(self._cpu), -1, np.int64)
        where = np.zeros(len(self._cpu), np.int64)
        # Backwards, so that the first of equal devices stays.
        np.maximum.at(scores, kind, points)
        best = np.flatnonzero(points == scores[kind])[::-1]
        where[kind[best]] = np.array(devices, np.int64)[option[best] - 1] if len(best) else 0
        return scores, where

    def _fragments(self, options: Floats, model: str, option: Ints, cpu: Floats) -> Floats:
        """Thousandths that typical pods cannot use, weighted by their shares, for free devices and cpu left."""
        milli = self._typical_milli[:, None, None]
        total = options.sum(axis=1)
        there = (options >= milli).sum(axis=2) >= self._typical_count[:, None]
        usable = (self._open[model] & (self._typical_milli > 0))[:, None] & there
        lost = np.where(options < milli, options, 0.0).sum(axis=2)
        fits = usable[:, option] & (cpu >= self._typical_cpu[:, None])
        return np.asarray((self._share[:, None] * np.where(fits, lost[:, option], total[option])).sum(axis=0))


def _ways(free: Floats, count: int, milli: int) -> list[tuple[int, Floats]]:
    """(device, what is left) of each way to take the devices; whole ones are all alike."""
    if not count:
        return [(0, free)]
    left = free.copy()
    if milli == MILLI:
        whole = np.flatnonzero(free == MILLI)[:count]
        left[whole] = 0
        return [(0, left)] if len(whole) == count else []
    if count > 1:
        roomy = np.flatnonzero(free >= milli)[:count]
        left[roomy] -= milli
        return [(0, left)] if len(roomy) == count else []
    found, seen = [], set()
    for device in np.flatnonzero(free >= milli).tolist():
        if free[device] not in seen:
            seen.add(free[device])
            left = free.copy()
            left[device] -= milli
            found.append((device, left))
    return found


POLICIES: Mapping[str, Callable[[TraceWorkload, OpenbNodes, np.random.Generator], PlacementPolicy]] = {
    "residual": ResidualPolicy,
    "residual-learned": LearnedResidual,
    "residual-large-first": LargeFirst,
    "fgd": FragmentationGradient,
    "best-fit": BestFit,
    "random": Random,
}
KNOWN_BEFOREHAND = ("residual-large-first",)
"""Those for pods that are all known."""
ONLINE = tuple(name for name in POLICIES if name not in KNOWN_BEFOREHAND)
"""Those that place pods as they come."""
