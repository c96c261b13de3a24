"""Rounding as Go does it, and scores as integers."""

from __future__ import annotations

import math
from typing import overload

import numpy as np

from ballast.model.sample import Floats


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
