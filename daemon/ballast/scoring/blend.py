"""blend: the mean of the scores of several strategies, by weights.

A strategy that knows none of the nodes is left out for all. Where it knows some, it counts for the others as the worst
of its known scores, and as 0 for those whose load was known and is not any more: losing sight gains nobody points. A
node is unknown when a strategy that counts does not know it, and all are when none knows any; they then score 0.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ballast.model.pod import Pod
from ballast.model.sample import Bools, Floats, Ints
from ballast.scoring.fleet import Fleet
from ballast.scoring.keys import LARGEST_WEIGHT, StrategyKeys
from ballast.scoring.protocol import Strategy, reads
from ballast.scoring.scores import Scores

NAME = "blend"
WEIGHTS = {"dominant-residual": 0.7, "load-variation": 0.3}


@dataclass(frozen=True)
class Blend:
    """Pairs of name, strategy and weight."""

    needs_load: ClassVar[bool] = True
    needs_pods: ClassVar[bool] = True
    needs_pod: ClassVar[bool] = True
    warms: ClassVar[bool] = False

    parts: tuple[tuple[str, Strategy, float], ...]

    @property
    def reads(self) -> tuple[str, ...]:
        """What its strategies read."""
        return tuple(name for _, strategy, _ in self.parts for name in reads(strategy))

    def score(self, fleet: Fleet, pod: Pod | None = None) -> Scores:
        """The mean of the whole scores; `terms` are the scores of each strategy, NaN where unknown."""
        parts = [strategy.score(fleet, pod) for _, strategy, _ in self.parts]
        terms = {
            name: np.where(part.unknown, np.nan, part.scores)
            for (name, _, _), part in zip(self.parts, parts, strict=True)
        }
        return self._mean(fleet, [(part.scores, part.unknown) for part in parts], terms)

    def finer(self, fleet: Fleet, pod: Pod | None = None) -> Scores:
        """The mean of the scores before rounding, which orders nodes more finely; without terms."""
        parts = [finest(strategy, fleet, pod) for _, strategy, _ in self.parts]
        return self._mean(fleet, [(part.exact, part.unknown) for part in parts], {})

    def _mean(self, fleet: Fleet, found: Sequence[tuple[Floats | Ints, Bools]], terms: Mapping[str, Floats]) -> Scores:
        """Of the scores of each strategy and where they are unknown."""
        nodes = len(fleet.nodes)
        total, divisor, unknown = np.zeros(nodes), 0.0, np.zeros(nodes, bool)
        for (scores, hidden), (_, _, weight) in zip(found, self.parts, strict=True):
            some = bool(hidden.any())
            if some and hidden.all():
                continue
            total += weight * (np.where(hidden, _instead(fleet, scores[~hidden].min()), scores) if some else scores)
            divisor += weight
            if some:
                unknown |= hidden
        if not divisor:
            return Scores(total, total + np.nan, np.ones(nodes, bool), terms)
        mean = total / divisor
        return Scores(mean, mean, unknown, terms)


def finest(strategy: Strategy, fleet: Fleet, pod: Pod | None) -> Scores:
    """The scores before rounding, without terms, where a strategy has them."""
    finer = getattr(strategy, "finer", strategy.score)
    scores: Scores = finer(fleet, pod)
    return scores


def _instead(fleet: Fleet, worst: float) -> Floats | float:
    """[node]: what counts where a strategy does not know the node."""
    return worst if fleet.lapsed is None else np.where(fleet.lapsed, 0.0, worst)


def parse(given: Mapping[str, object], make: Callable[[str, Mapping[str, object]], Strategy]) -> Blend:
    """`make` builds a strategy by its name and keys."""
    keys = StrategyKeys(NAME, given)
    weights = keys.mapping("weights") or WEIGHTS
    for name, value in weights.items():
        if name == NAME:
            raise keys.error("weights", dict(weights), "a blend cannot contain itself")
        keys.as_number(f"the weight of {name}", value, 0.0, LARGEST_WEIGHT)
    chosen = {name: keys.as_number(name, value) for name, value in weights.items()}
    if not sum(chosen.values()):
        raise keys.error("weights", dict(weights), "they sum to 0; give at least one strategy a weight above 0")
    in_flight = keys.in_flight()
    keys.finish()
    parts = tuple((name, make(name, {"in_flight": in_flight}), weight) for name, weight in chosen.items() if weight)
    return Blend(parts)
