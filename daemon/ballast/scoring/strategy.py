"""The strategies by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping

from ballast.errors import UsageError
from ballast.scoring import (
    balanced,
    blend,
    dominant_residual,
    dynamic,
    least_allocated,
    load_variation,
    low_risk,
    most_allocated,
    peaks,
    requested_to_capacity,
    target_load,
)
from ballast.scoring.blend import Strategy

_PARSERS: dict[str, Callable[[Mapping[str, object]], Strategy]] = {
    load_variation.NAME: load_variation.parse,
    target_load.NAME: target_load.parse,
    low_risk.NAME: low_risk.parse,
    peaks.NAME: peaks.parse,
    least_allocated.NAME: least_allocated.parse,
    most_allocated.NAME: most_allocated.parse,
    requested_to_capacity.NAME: requested_to_capacity.parse,
    balanced.NAME: balanced.parse,
    dynamic.NAME: dynamic.parse,
    dominant_residual.NAME: dominant_residual.parse,
    blend.NAME: lambda given: blend.parse(given, strategy),
}
NAMES = tuple(_PARSERS)


def strategy(name: str, keys: Mapping[str, object] | None = None) -> Strategy:
    """A strategy with its keys. Raises UsageError naming what is unknown or not allowed, and what is."""
    parser = _PARSERS.get(name)
    if parser is None:
        close = difflib.get_close_matches(name, NAMES, 1)
        hint = f"Did you mean {close[0]}?" if close else f"Choose one of {', '.join(NAMES)}."
        raise UsageError(f"There is no strategy {name!r}. {hint}")
    return parser(keys or {})
