"""Rounding as Go does it."""

from __future__ import annotations

from typing import overload

import numpy as np

from ballast.model.sample import Floats


@overload
def half_away(values: float) -> float: ...
@overload
def half_away(values: Floats) -> Floats: ...
def half_away(values: float | Floats) -> float | Floats:
    """The nearest integer, halves away from zero, as Go's math.Round; NaN stays NaN.

    Python's and numpy's own `round` take halves to the even neighbour, and floor(x + ½) fails just below a half.
    """
    whole = np.trunc(values)
    rounded = whole + np.copysign(np.abs(np.subtract(values, whole)) >= 0.5, values)
    return rounded if isinstance(values, np.ndarray) else float(rounded)
