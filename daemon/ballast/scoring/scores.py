"""The answer of a strategy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
