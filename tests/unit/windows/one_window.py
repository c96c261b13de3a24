"""One window where a test needs no more."""

from ballast.model.sample import Floats, Ints
from ballast.model.snapshot import Window
from ballast.windows.ring import Ring
from ballast.windows.statistics import WindowRules, summarise_all


def summarise(
    ring: Ring, columns: Ints, *, name: str, seconds: float, end: float, rules: WindowRules, scale: Floats | float = 1.0
) -> Window:
    """One window of `seconds` before `end`; see `summarise_all`."""
    return summarise_all(ring, columns, lengths={name: seconds}, end=end, rules=rules, scale=scale)[name]
