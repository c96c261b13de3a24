"""The strategies by name: those built in, and those that other installed packages bring.

A package brings a strategy by an entry point of the group `ballast.strategies`: the name of the strategy, and a
function that makes it from its keys, as `parse` does here.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from ballast.base.errors import UsageError
from ballast.base.registry import Registry, violation
from ballast.base.text import nearest
from ballast.scoring import (
    balanced,
    blend,
    dominant_residual,
    dynamic,
    least_allocated,
    load_aware,
    load_variation,
    low_risk,
    most_allocated,
    peaks,
    requested_to_capacity,
    target_load,
)
from ballast.scoring.protocol import Strategy

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
NAMES = (*_BUILT_IN, blend.NAME, load_aware.NAME)
"""The strategies that are built in."""

REGISTRY: Registry[Callable[[Mapping[str, object]], Strategy]] = Registry("ballast.strategies", NAMES, Callable)


def names() -> tuple[str, ...]:
    """All strategies: those built in, then those of other packages."""
    return (*NAMES, *REGISTRY.others())


def strategy(name: str, keys: Mapping[str, object] | None = None, part: Make | None = None) -> Strategy:
    """A strategy with its keys; `part` makes those that it consists of, this function where it is None.

    Raises UsageError for an unknown name, for a key or value that is not allowed, and for a strategy of another
    package that does not follow `ballast.scoring.protocol.Strategy`.
    """
    if name == blend.NAME:
        return blend.parse(keys or {}, part or strategy)
    if name == load_aware.NAME:
        return load_aware.parse(keys or {}, part or strategy)
    if name in _BUILT_IN:
        return _BUILT_IN[name](keys or {})
    if (parse := REGISTRY.get(name)) is not None:
        return _make(parse, name, keys or {})
    hint = nearest(name, names(), f"Choose one of {', '.join(names())}.")
    raise UsageError(f"There is no strategy {name!r}. {hint}")


def _make(parse: Callable[[Mapping[str, object]], Strategy], name: str, keys: Mapping[str, object]) -> Strategy:
    try:
        strategy_object = parse(keys)
    except UsageError:
        raise
    except Exception as error:
        raise REGISTRY.refusal(name, f"making it failed: {type(error).__name__}: {error}") from error
    problem = violation(strategy_object, Strategy)
    read = getattr(strategy_object, "reads", ())
    if not problem and not (isinstance(read, tuple) and all(isinstance(resource, str) for resource in read)):
        problem = f"the reads of a {type(strategy_object).__name__} are no tuple of names of resources"
    if problem:
        raise REGISTRY.refusal(name, problem)
    return strategy_object
