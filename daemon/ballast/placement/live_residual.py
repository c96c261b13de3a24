"""dominant-residual over a fleet that changes pod by pod: only the node that changed is computed again."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ballast.model.devices import parts_of
from ballast.model.pod import Pod
from ballast.model.sample import Floats, Ints
from ballast.model.shape import Shape
from ballast.placement.candidates import Candidates
from ballast.placement.fleet_model import FleetModel
from ballast.scoring.demand import NOTHING, Units
from ballast.scoring.devices.columns import Columns
from ballast.scoring.dominant_residual import DominantResidual, exact_scores, shares_of
from ballast.scoring.fleet import Fleet
from ballast.scoring.profiles import Profile, asked_by
from ballast.scoring.residual import NOWHERE, Residuals
from ballast.scoring.scores import Scores

LATEST = 32
"""Kinds of pods for which an answer is prepared before one arrives."""


@dataclass(frozen=True)
class Prepared:
    """Everything that takes time, made from copies."""

    columns: Columns
    free: Floats
    residuals: Residuals
    profiles: tuple[Profile, ...]
    scarcity: float
    for_devices: bool


class LiveResidual:
    """Scores as `DominantResidual` does with the profiles it was last renewed with; without any, exactly as that."""

    needs_load: ClassVar[bool] = DominantResidual.needs_load
    needs_pods: ClassVar[bool] = DominantResidual.needs_pods
    needs_pod: ClassVar[bool] = DominantResidual.needs_pod
    warms: ClassVar[bool] = DominantResidual.warms

    def __init__(self, model: FleetModel, plain: DominantResidual) -> None:
        self._model = model
        self._plain = plain
        self._names = model.fleet.resources
        self._prepared: Prepared | None = None
        self._upto = 0
        self._requests: dict[tuple[Hashable, ...], tuple[Shape | None, Units, Floats]] = {}

    def copied(self, profiles: Sequence[Profile]) -> tuple[Columns, Floats, Floats]:
        """(columns, what nodes have, what is free) as they are now."""
        profiles = self._plain.profiles or profiles
        names = self._names.union(*(profile.requests for profile in profiles)) - {"pods"}
        chosen = self._plain.resources or tuple(sorted(names))
        columns = self._plain.columns(chosen, self._model.fleet)
        return (columns, *columns.matrices(self._model.fleet))

    def asked(self) -> list[Units]:
        """The requests of pods it was asked for since it was renewed, the latest of them."""
        return [requests for _, requests, _ in list(self._requests.values())[-LATEST:]]

    def prepare(
        self,
        profiles: Sequence[Profile],
        copied: tuple[Columns, Floats, Floats],
        requests: Iterable[Units] = (),
        arrivals: float = 0.0,
        departures: float = 0.0,
    ) -> Prepared:
        """May run beside everything else. Profiles that were given beat those that were learned; what is prepared for
        pods of these `requests` is at hand when the next one arrives. `arrivals` and `departures` are the last hour's.
        """
        columns, whole, free = copied
        profiles = self._plain.profiles or _possible(profiles, columns, whole)
        criterion = self._plain.criterion(profiles, columns, whole)
        residuals = Residuals(criterion, whole, free)
        for request in requests:
            residuals.steps(columns.vector(request))
        scarcity = criterion.scarcity(free, shares_of(profiles), arrivals, departures)
        return Prepared(columns, free, residuals, tuple(profiles), scarcity, criterion.for_devices)

    def install(self, prepared: Prepared) -> None:
        """Scores with these profiles from now on, after applying what changed since the copies were made."""
        self._prepared = prepared
        self._requests = {}
        self._upto = self._model.changes.count
        # The copies are older than the changes that `_upto` skips: the nodes that differ are computed here.
        _, free = prepared.columns.matrices(self._model.fleet)
        self._follow(prepared, np.flatnonzero((free != prepared.free).any(axis=1)))

    def scarcity(self, fleet: Fleet) -> float:
        """As `DominantResidual.scarcity`, when it was renewed last."""
        return self._plain.scarcity(fleet) if self._prepared is None else self._prepared.scarcity

    def for_devices(self, fleet: Fleet) -> bool:
        """As `DominantResidual.for_devices`, when it was renewed last."""
        return self._plain.for_devices(fleet) if self._prepared is None else self._prepared.for_devices

    def score(self, fleet: Fleet, pod: Pod | None = None) -> Scores:
        """Without the figures it consists of, for which there is `explained`; `raw` is the score."""
        prepared = self._prepared
        if prepared is None or not prepared.columns.names:
            return self._plain.score(fleet, pod)
        self.settle()
        column = prepared.residuals.steps(self._request(pod, prepared.columns))
        # Candidates are a part of the fleet's nodes; the kept table has a row for each of them.
        if isinstance(fleet, Candidates) and fleet.index is not None:
            column = column[fleet.index]
        room = column != NOWHERE
        exact = exact_scores(column, room)
        return Scores(exact, exact, np.zeros(len(exact), bool), {})

    def settle(self) -> None:
        """Computes again what changed. A node that changed several times since the last time is computed once."""
        changes, prepared = self._model.changes, self._prepared
        if prepared is not None and self._upto < changes.count:
            self._follow(prepared, changes.since(self._upto))
            self._upto = changes.count

    def explained(self, pod: Pod | None) -> Scores:
        """The scores of all nodes with their terms, computed without the kept table."""
        profiles = self._prepared.profiles if self._prepared else ()
        return replace(self._plain, profiles=self._plain.profiles or profiles).score(self._model.fleet, pod)

    def _follow(self, prepared: Prepared, rows: Ints) -> None:
        prepared.residuals.settle(rows, prepared.columns.free(self._model.fleet, rows))

    def _request(self, pod: Pod | None, columns: Columns) -> Floats:
        shape, parts, claimed = (pod.shape, parts_of(pod), pod.claimed) if pod else (None, {}, {})
        key = (id(shape), tuple(parts.values()), tuple(claimed.items()))
        entry = self._requests.get(key)
        if entry is None:
            if len(self._requests) > 10_000:
                self._requests.clear()
            requests = asked_by(pod) if pod else NOTHING.reserved
            # The shape is kept beside its request, so that its id never becomes that of another one.
            entry = self._requests[key] = (shape, requests, columns.vector(requests))
        return entry[2]


def _possible(profiles: Sequence[Profile], columns: Columns, whole: Floats) -> Sequence[Profile]:
    """Those that some node has room for while it is empty: no other pod ever starts. All of them, if that is none."""
    plain = columns.plain
    kept = [one for one in profiles if (columns.vector(one.requests)[:plain] <= whole[:, :plain]).all(axis=1).any()]
    return kept or profiles
