"""blend: the mean of the scores of several strategies, by weights.

A strategy that knows none of the nodes is left out for all. Where it knows some, it counts for the others as the worst
of its known scores. A node is unknown when a strategy that counts does not know it, and all are when none knows any;
they then score 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ballast.model.pod import Pod
from ballast.model.sample import Floats, Ints
from ballast.scoring.fleet import Fleet
from ballast.scoring.in_flight import mode
from ballast.scoring.keys import LARGEST_WEIGHT, Keys
from ballast.scoring.rounding import half_away
from ballast.scoring.scores import Scores

NAME = "blend"
WEIGHTS = {"dominant-residual": 0.7, "load-variation": 0.3}


class Strategy(Protocol):
    """A pure function over all nodes; the pod is None where nodes are scored by themselves, as for labels."""

    def score(self, fleet: Fleet, pod: Pod | None = None) -> Scores: ...


@dataclass(frozen=True)
class Blend:
    """Pairs of name, strategy and weight."""

    parts: tuple[tuple[str, Strategy, float], ...]

    def score(self, fleet: Fleet, pod: Pod | None = None) -> Scores:
        count = len(fleet.nodes)
        total, exact, divisor = np.zeros(count), np.zeros(count), 0.0
        unknown = np.zeros(count, bool)
        terms: dict[str, Floats] = {}
        for name, strategy, weight in self.parts:
            found = strategy.score(fleet, pod)
            some = bool(found.unknown.any())
            terms[name] = np.where(found.unknown, np.nan, found.scores) if some else found.scores.astype(float)
            if some and found.unknown.all():
                continue
            total += weight * (_filled(found.scores, found.unknown) if some else found.scores)
            exact += weight * (_filled(found.exact, found.unknown) if some else found.exact)
            divisor += weight
            unknown |= found.unknown
        if not divisor:
            nothing = np.zeros(count)
            return Scores(nothing.astype(np.int64), nothing, nothing + np.nan, np.ones(count, bool), terms)
        raw = total / divisor
        return Scores(half_away(raw).astype(np.int64), exact / divisor, raw, unknown, terms)


def _filled(scores: Floats | Ints, unknown: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Floats:
    return np.where(unknown, scores[~unknown].min(), scores)


def parse(given: Mapping[str, object], make: Callable[[str, Mapping[str, object]], Strategy]) -> Blend:
    """`make` builds a strategy by its name and keys."""
    keys = Keys(NAME, given)
    weights = keys.mapping("weights") or WEIGHTS
    for name, value in weights.items():
        if name == NAME:
            raise keys.error("weights", dict(weights), "a blend cannot contain itself")
        keys.as_number(f"the weight of {name}", value, 0.0, LARGEST_WEIGHT)
    chosen = {name: keys.as_number(name, value) for name, value in weights.items()}
    if not sum(chosen.values()):
        raise keys.error("weights", dict(weights), "they sum to 0; give at least one strategy a weight above 0")
    in_flight = mode(keys)
    keys.finish()
    parts = tuple((name, make(name, {"in_flight": in_flight}), weight) for name, weight in chosen.items() if weight)
    return Blend(parts)
