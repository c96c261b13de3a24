"""load-aware: the load decides while the pods to come find room; as room runs out, dominant-residual weighs more.

With P the chance that the next hour's arrivals do not all fit (`residual.Criterion.scarcity`), the score is

    (1 - w) * load-variation + w * dominant-residual,      w = min(max(P, 0.15), 0.3).

The deviation of cpu is that of the pods' uses. Where pods ask for devices it is the window's, and w has no upper bound:
room for devices runs out first.

The least weight costs no hot minutes, and a burst into an empty cluster finds a quarter more room: by the time room is
scarce, it is too late to have placed well. A larger fixed weight (`blend`) pays for room that nobody needs.
measurements/experiments.md, "schedule", compares them on recorded load.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, cast

import numpy as np

from ballast.model.pod import Pod
from ballast.scoring import dominant_residual, load_variation
from ballast.scoring.blend import Blend
from ballast.scoring.fleet import Fleet
from ballast.scoring.keys import StrategyKeys
from ballast.scoring.protocol import Strategy, reads
from ballast.scoring.scores import Scores

NAME = "load-aware"
LEAST = 0.15
"""The least weight of dominant-residual."""
MOST = 0.3
"""The greatest, but where pods ask for devices: no fewer are turned away beyond it, and hot minutes rise."""


class Residual(Strategy, Protocol):
    """The dominant-residual criterion, and how scarce room is."""

    def scarcity(self, fleet: Fleet) -> float:
        """A chance."""
        ...

    def for_devices(self, fleet: Fleet) -> bool:
        """Whether pods that ask for devices are expected."""
        ...


@dataclass(frozen=True)
class LoadAware:
    """`load` and `residual` score with their own keys."""

    needs_load: ClassVar[bool] = True
    needs_pods: ClassVar[bool] = True
    needs_pod: ClassVar[bool] = True
    warms: ClassVar[bool] = False

    load: load_variation.LoadVariation
    residual: Residual

    @property
    def parts(self) -> tuple[tuple[str, Strategy, float], ...]:
        """Both, as a blend has them."""
        return (load_variation.NAME, self.load, 1.0), (dominant_residual.NAME, self.residual, 1.0)

    @property
    def reads(self) -> tuple[str, ...]:
        """What the load is read of."""
        return reads(self.load)

    def score(self, fleet: Fleet, pod: Pod | None = None) -> Scores:
        """The mean; `terms` are the scores of both, NaN where unknown or of no weight, and `scarcity`, which is P."""
        scarcity = self.residual.scarcity(fleet)
        scores = self._blend(scarcity, fleet).score(fleet, pod)
        nothing = np.full(len(fleet.nodes), np.nan)
        terms = {name: scores.terms.get(name, nothing) for name, _, _ in self.parts}
        return replace(scores, terms=terms | {"scarcity": np.full(len(fleet.nodes), scarcity)})

    def finer(self, fleet: Fleet, pod: Pod | None = None) -> Scores:
        """The mean of the scores before rounding; without terms."""
        return self._blend(self.residual.scarcity(fleet), fleet).finer(fleet, pod)

    def _blend(self, scarcity: float, fleet: Fleet) -> Blend:
        load, weight = self.load, max(scarcity, LEAST)
        if self.residual.for_devices(fleet):
            load = replace(load, deviation_of_pods=False)
        else:
            weight = min(weight, MOST)
        return Blend(((load_variation.NAME, load, 1 - weight), (dominant_residual.NAME, self.residual, weight)))


def parse(given: Mapping[str, object], make: Callable[[str, Mapping[str, object]], Strategy]) -> LoadAware:
    """`make` builds a strategy by its name and keys."""
    keys = StrategyKeys(NAME, given)
    in_flight = keys.in_flight()
    keys.finish()
    load, residual = (make(name, {"in_flight": in_flight}) for name in (load_variation.NAME, dominant_residual.NAME))
    return LoadAware(
        replace(cast(load_variation.LoadVariation, load), deviation_of_pods=True), cast(Residual, residual)
    )
