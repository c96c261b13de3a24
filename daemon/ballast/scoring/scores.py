"""The answer of a strategy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ballast.model.sample import Bools, Floats, Ints


@dataclass(frozen=True)
class Scores:
    """Arrays over the nodes of the fleet.

    `scores` are whole numbers, 0..100, higher is better; unknown nodes hold the strategy's documented answer.
    `exact` orders nodes more finely, on the same scale and never NaN; `raw` is the strategy's own figure, NaN where
    undefined. `terms` are the figures a score was made of, by name, NaN where undefined.
    """

    scores: Ints
    exact: Floats
    raw: Floats
    unknown: Bools
    terms: Mapping[str, Floats]
