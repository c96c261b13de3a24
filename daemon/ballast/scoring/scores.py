"""The answer of a strategy."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np

from ballast.answers import api
from ballast.model.sample import Bools, Floats, Ints


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

    def document(self, strategy: str, names: Sequence[str]) -> api.Scores:
        """As the API and the command line show them."""
        terms = {term: _numbers(values) for term, values in self.terms.items()}
        return api.Scores(
            strategy=strategy,
            scores=dict(zip(names, self.scores.tolist(), strict=True)),
            raw=dict(zip(names, _numbers(self.raw), strict=True)),
            terms={node: {term: values[row] for term, values in terms.items()} for row, node in enumerate(names)},
            unknown=[node for node, unknown in zip(names, self.unknown.tolist(), strict=True) if unknown],
        )


def _numbers(values: Floats) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values.tolist()]


@overload
def half_away(values: float) -> float: ...
@overload
def half_away(values: Floats) -> Floats: ...
def half_away(values: float | Floats) -> float | Floats:
    """The nearest integer, halves away from zero, as Go's math.Round; NaN stays NaN.

    Python's and numpy's own `round` take halves to the even neighbour, and floor(x + ½) fails just below a half. So the
    number just below ½ is added, which lifts a half, and nothing less, to the next whole number.
    """
    rounded = np.trunc(values + np.copysign(_JUST_BELOW_A_HALF, values))
    return rounded if isinstance(values, np.ndarray) else float(rounded)


def integers(scores: Floats) -> list[int | None]:
    """Scores without a fraction as integers; None where they are NaN, which is unknown."""
    return [None if math.isnan(score) else int(score) for score in scores.tolist()]


_JUST_BELOW_A_HALF = math.nextafter(0.5, 0.0)
