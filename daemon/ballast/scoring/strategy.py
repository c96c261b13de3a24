"""The strategies by name: those built in, and those that other installed packages bring.

A package brings a strategy by an entry point of the group `ballast.strategies`: the name of the strategy, and a
function that makes it from its keys, as `parse` does here.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TypeAlias

from ballast.base.errors import UsageError
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
from ballast.scoring.protocol import TRAITS, Strategy

GROUP = "ballast.strategies"

Make: TypeAlias = Callable[[str, Mapping[str, object]], Strategy]
"""Makes a strategy by its name and keys."""

_BUILT_IN: dict[str, Callable[[Mapping[str, object]], Strategy]] = {
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
}
NAMES = (*_BUILT_IN, blend.NAME)
"""The strategies that are built in."""


def names() -> tuple[str, ...]:
    """All strategies: those built in, then those of other packages."""
    return (*NAMES, *sorted(_installed().keys() - NAMES))


def strategy(name: str, keys: Mapping[str, object] | None = None, part: Make | None = None) -> Strategy:
    """A strategy with its keys; `part` makes those of a blend, this function where it is None.

    Raises UsageError for an unknown name, for a key or value that is not allowed, and for a strategy of another
    package that does not follow `ballast.scoring.protocol.Strategy`.
    """
    if name == blend.NAME:
        return blend.parse(keys or {}, part or strategy)
    if name in _BUILT_IN:
        return _BUILT_IN[name](keys or {})
    if name in _installed():
        return _made(_installed()[name], keys or {})
    close = difflib.get_close_matches(name, names(), 1)
    hint = f"Did you mean {close[0]}?" if close else f"Choose one of {', '.join(names())}."
    raise UsageError(f"There is no strategy {name!r}. {hint}")


@cache
def _installed() -> Mapping[str, EntryPoint]:
    """The entry points of other packages by name; none of them is imported yet."""
    return {each.name: each for each in entry_points(group=GROUP)}


@cache
def _load(entry: EntryPoint) -> Callable[[Mapping[str, object]], Strategy]:
    try:
        parse = entry.load()
    except Exception as error:
        raise _refused(entry, f"it cannot be imported: {type(error).__name__}: {error}") from error
    if not callable(parse):
        raise _refused(entry, "it is no function that makes a strategy from its keys")
    return parse  # type: ignore[no-any-return]


def _made(entry: EntryPoint, keys: Mapping[str, object]) -> Strategy:
    made = _load(entry)(keys)
    lacking = [each for each in TRAITS if not isinstance(getattr(made, each, None), bool)]
    if not callable(getattr(made, "score", None)):
        lacking.insert(0, "score")
    if lacking:
        raise _refused(entry, f"a {type(made).__name__} lacks {', '.join(lacking)}")
    if not isinstance(read := getattr(made, "reads", ()), tuple) or not all(isinstance(each, str) for each in read):
        raise _refused(entry, f"the reads of a {type(made).__name__} are no tuple of names of resources")
    return made


def _refused(entry: EntryPoint, reason: str) -> UsageError:
    package = entry.dist.name if entry.dist else "unknown"
    return UsageError(
        f"The strategy {entry.name!r} of the package {package} (entry point {entry.name} = {entry.value}) cannot be "
        f"used: {reason}. See ballast.scoring.protocol."
    )
