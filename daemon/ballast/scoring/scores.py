"""The answer of a strategy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ballast.model.sample import Bools, Floats, Ints
from ballast.scoring.rounding import half_away


@dataclass(frozen=True)
class Scores:
    """Arrays over the nodes of the fleet.

    `exact` is 0..100, higher is better, and never NaN; unknown nodes hold the strategy's documented answer. `raw` is
    the strategy's own figure, NaN where undefined. `terms` are the figures a score was made of, by name, NaN where
    undefined.
    """

    exact: Floats
    raw: Floats
    unknown: Bools
    terms: Mapping[str, Floats]

    @cached_property
    def scores(self) -> Ints:
        """`exact` as whole numbers."""
        return half_away(self.exact).astype(np.int64)

    def document(self, strategy: str, names: Sequence[str]) -> dict[str, object]:
        """For JSON, by node; null where undefined."""
        terms = {term: _numbers(values) for term, values in self.terms.items()}
        return {
            "strategy": strategy,
            "scores": dict(zip(names, self.scores.tolist(), strict=True)),
            "raw": dict(zip(names, _numbers(self.raw), strict=True)),
            "terms": {node: {term: values[row] for term, values in terms.items()} for row, node in enumerate(names)},
            "unknown": [node for node, unknown in zip(names, self.unknown.tolist(), strict=True) if unknown],
        }


def _numbers(values: Floats) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values.tolist()]
