"""What room is worth: how many of the pods that are to come would find none any more."""

import numpy as np

from ballast.model.sample import Floats, Ints
from ballast.placement.simulated_placement import SimulatedPlacement
from ballast.planners.node_choice import NodeChoice

WORTH = 0.2
"""Later pods whose room one waiting pod may cost: an eviction is sure, what it costs them is a mean."""


class RoomPrice:
    """With A expected arrivals and room for N of the usual pods, what takes away the room of d of them costs
    min(A, N) - min(A, N - d): nothing while all that will come find room, and d where more come than there is room for.
    """

    def __init__(self, arrivals: float, choice: NodeChoice, placement: SimulatedPlacement) -> None:
        self._arrivals, self._choice, self._placement = arrivals, choice, placement
        self._held: float | None = None

    def of(self, before: Ints, after: Ints, rows: Ints) -> Floats:
        """[row]: the price where free room [row, kind] of the node `rows` becomes `after`."""
        if self._arrivals <= 0:
            return np.zeros(len(rows))
        return self._price(self._choice.holds(before, rows) - self._choice.holds(after, rows))

    def sum(self, before: Ints, after: Ints, rows: Ints) -> float:
        """The price of all rows together."""
        if self._arrivals <= 0:
            return 0.0
        lost = self._choice.holds(before, rows) - self._choice.holds(after, rows)
        return float(self._price(lost.sum()))

    @property
    def scarce(self) -> bool:
        """Whether more pods are expected than there is room for."""
        return self._arrivals > 0 and self._arrivals >= self._room()

    def forget(self) -> None:
        """A step was made: N is counted again."""
        self._held = None

    def _price(self, lost: Floats) -> Floats:
        held = self._room()
        return np.asarray(np.maximum(0.0, min(self._arrivals, held) - np.minimum(self._arrivals, held - lost)))

    def _room(self) -> float:
        if self._held is None:
            free = self._placement.free
            self._held = float(self._choice.holds(free, np.arange(len(free))).sum())
        return self._held
