"""Which node a pod lands on: the one of least L, by the dominant-residual criterion as it is configured."""

from dataclasses import replace

import numpy as np

from ballast.model.sample import Floats, Ints
from ballast.placement.layout import PODS, Layout
from ballast.scoring.demand import units
from ballast.scoring.devices.columns import Columns
from ballast.scoring.dominant_residual import COUNT, DominantResidual
from ballast.scoring.profiles import Profile
from ballast.scoring.residual import NOWHERE, steps

OBSERVED = DominantResidual()
"""The criterion as it is without configuration, with the profiles observed."""

_ROUNDING = 1e-9
_PROFILES = 32
"""Most profiles of L when they are observed; the most frequent count."""


class NodeChoice:
    """L of nodes, and how many of the usual pods they have room for.

    Tables of free room are [node, kind], as in the layout. The profiles are those configured, else the distinct
    requests of the layout with their frequencies. A configured resource that no pod asks for counts with what the
    nodes have of it.
    """

    def __init__(self, layout: Layout, criterion: DominantResidual) -> None:
        names = criterion.resources or _resources(layout, criterion)
        self._columns = [layout.kinds.index(name) for name in names if name in layout.kinds]
        others = [name for name in names if name not in layout.kinds]
        self._others: Floats = np.array(
            [[units(name, node.allocatable.get(name, 0)) for name in others] for node in layout.nodes], float
        ).reshape(len(layout.nodes), len(others))
        self._layout = layout
        ordered = [layout.kinds[column] for column in self._columns] + others
        often = criterion.profiles or _observed(layout, _PROFILES)
        every = criterion.profiles or _observed(layout)
        columns = Columns(tuple(ordered), criterion.whole or ())
        whole = self._amounts(layout.total, np.arange(len(layout.nodes)))
        self._criterion = criterion.criterion(often, columns, whole)
        usual = replace(criterion, weigh_by=COUNT).criterion(every, columns, whole)
        self._usual, self._often = usual.profiles[:, : usual.plain], usual.weights

    @property
    def profiles(self) -> int:
        """How many different requests `holds` goes by."""
        return len(self._usual)

    def choose(self, asked: Ints, free: Ints, rows: Ints) -> int:
        """The one of `rows` with the least L for these requests [kind]; of equals the first."""
        room = self._amounts(free[rows], rows)
        whole = self._amounts(self._layout.total[rows], rows)
        request = np.append(asked[self._columns].astype(float), np.zeros(self._others.shape[1]))
        before = self._criterion.fitness(np.maximum(room, 0.0))
        losses, _, _ = self._criterion.losses(whole, room, request, before)
        return int(rows[np.argmin(np.minimum(steps(losses), NOWHERE))])

    def holds(self, free: Ints, rows: Ints) -> Floats:
        """[row]: sum_b w_b min_k floor(free_k / b_k), how many of the usual pods free room [row, kind] takes."""
        loss = np.zeros(len(rows))
        room = np.maximum(self._amounts(free, rows), 0.0)
        for profile, weight in zip(self._usual, self._often, strict=True):
            kinds = np.flatnonzero(profile)
            if len(kinds):
                loss += weight * np.floor((room[:, kinds] / profile[kinds]).min(axis=1) + _ROUNDING)
        return loss

    def _amounts(self, table: Ints, rows: Ints) -> Floats:
        known = table[:, self._columns].astype(float)
        return known if not self._others.shape[1] else np.concatenate([known, self._others[rows]], axis=1)


def _resources(layout: Layout, criterion: DominantResidual) -> tuple[str, ...]:
    configured = {name for profile in criterion.profiles for name in profile.requests}
    return (*layout.kinds[1:], *sorted(configured - {*layout.kinds, PODS}))


def _observed(layout: Layout, most: int | None = None) -> tuple[Profile, ...]:
    """The distinct requests with their frequencies, the `most` frequent ones; a pod without any if there is none."""
    profiles = np.flatnonzero(layout.frequency > 0)
    often = np.sort(profiles[np.argsort(-layout.frequency[profiles], kind="stable")[:most]])
    return tuple(
        Profile(dict(zip(layout.kinds[1:], layout.profiles[row].tolist(), strict=True)), float(layout.frequency[row]))
        for row in often.tolist()
    ) or (Profile({}, 1.0),)
