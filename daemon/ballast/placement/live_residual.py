"""dominant-residual over a fleet that changes pod by pod: only the node that changed is computed again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ballast.model.pod import Pod
from ballast.model.sample import Floats, Ints
from ballast.model.shape import Shape
from ballast.placement.candidates import Candidates
from ballast.placement.fleet_model import FleetModel
from ballast.scoring.demand import NOTHING, demand
from ballast.scoring.dominant_residual import DominantResidual, exact_scores, matrices
from ballast.scoring.fleet import Fleet
from ballast.scoring.profiles import Profile
from ballast.scoring.residual import NOWHERE, Residuals
from ballast.scoring.scores import Scores

LATEST = 32
"""Kinds of pods for which an answer is prepared before one arrives."""


@dataclass(frozen=True)
class Prepared:
    """Everything that takes time, made from copies."""

    names: tuple[str, ...]
    free: Floats
    residuals: Residuals
    profiles: tuple[Profile, ...]


class LiveResidual:
    """Scores as `DominantResidual` does with the profiles it was last renewed with; without any, exactly as that."""

    needs_load: ClassVar[bool] = DominantResidual.needs_load
    needs_pods: ClassVar[bool] = DominantResidual.needs_pods
    needs_pod: ClassVar[bool] = DominantResidual.needs_pod
    warms: ClassVar[bool] = DominantResidual.warms

    def __init__(self, model: FleetModel, plain: DominantResidual) -> None:
        self._model = model
        self._plain = plain
        self._names = {name for node in model.fleet.nodes for name, amount in node.allocatable.items() if amount}
        self._prepared: Prepared | None = None
        self._upto = 0
        self._requests: dict[int, tuple[Shape, Floats]] = {}

    def copied(self, profiles: Sequence[Profile]) -> tuple[tuple[str, ...], Floats, Floats]:
        """(names, allocatable, free) as they are now."""
        profiles = self._plain.profiles or profiles
        names = self._names.union(*(profile.requests for profile in profiles)) - {"pods"}
        chosen = self._plain.resources or tuple(sorted(names))
        return (chosen, *matrices(self._model.fleet, chosen))

    def asked(self) -> list[Shape]:
        """The pods it was asked for since it was renewed, the latest of them."""
        return [shape for shape, _ in list(self._requests.values())[-LATEST:]]

    def prepare(
        self,
        profiles: Sequence[Profile],
        copied: tuple[tuple[str, ...], Floats, Floats],
        shapes: Iterable[Shape] = (),
    ) -> Prepared:
        """May run beside everything else. Profiles that were given beat those that were learned; what is prepared for
        pods of these `shapes` is at hand when the next one arrives.
        """
        profiles = self._plain.profiles or profiles
        names, whole, free = copied
        residuals = Residuals(self._plain.criterion(profiles, names), whole, free)
        for shape in shapes:
            residuals.steps(_vector(shape, names))
        return Prepared(names, free, residuals, tuple(profiles))

    def install(self, prepared: Prepared) -> None:
        """Scores with these profiles from now on, after applying what changed since the copies were made."""
        self._prepared = prepared
        self._requests = {}
        self._upto = len(self._model.changes)
        _, free = matrices(self._model.fleet, prepared.names)
        self._follow(prepared, np.flatnonzero((free != prepared.free).any(axis=1)))

    def score(self, fleet: Fleet, pod: Pod | None = None) -> Scores:
        """Without the figures it consists of, for which there is `explained`; `raw` is the score."""
        prepared = self._prepared
        if prepared is None or not prepared.names:
            return self._plain.score(fleet, pod)
        changes = self._model.changes
        if self._upto < len(changes):
            self._follow(prepared, np.array(list(set(changes[self._upto :]))))
            self._upto = len(changes)
        column = prepared.residuals.steps(self._request(pod, prepared.names))
        if isinstance(fleet, Candidates) and fleet.index is not None:
            column = column[fleet.index]
        room = column != NOWHERE
        exact = exact_scores(column, room)
        return Scores(exact, exact, np.zeros(len(exact), bool), {})

    def explained(self, pod: Pod | None) -> Scores:
        """The scores of all nodes with their terms, computed without the kept table."""
        profiles = self._prepared.profiles if self._prepared else ()
        return replace(self._plain, profiles=self._plain.profiles or profiles).score(self._model.fleet, pod)

    def _follow(self, prepared: Prepared, rows: Ints) -> None:
        placed, whole = self._model.placed, self._model.fleet.allocatable
        free = np.array([whole(name)[rows] - placed.reserved(name)[rows] for name in prepared.names], float).T
        prepared.residuals.settle(rows, free)

    def _request(self, pod: Pod | None, names: tuple[str, ...]) -> Floats:
        shape = pod.shape if pod else None
        found = self._requests.get(id(shape))
        if found is None:
            if len(self._requests) > 10_000:
                self._requests.clear()
            found = self._requests[id(shape)] = (shape or Shape(), _vector(shape, names))
        return found[1]


def _vector(shape: Shape | None, names: Sequence[str]) -> Floats:
    asked = (demand(shape) if shape else NOTHING).reserved
    return np.array([asked.get(name, 0) for name in names], float)
