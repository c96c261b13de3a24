"""The planners by name, the most urgent first.

A planner is added with one file beside this one and one line in `BUILT_IN`, or by another package with an entry point
of group `ballast.planners`, which names an object that fulfils `Planner`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from ballast.base.errors import UsageError
from ballast.base.extensions import extensions
from ballast.eviction.planners.consolidate import Consolidate
from ballast.eviction.planners.planner import Effect, Planner
from ballast.eviction.planners.rebalance import Rebalance
from ballast.eviction.planners.redistribute import Redistribute
from ballast.eviction.planners.relieve import Relieve
from ballast.eviction.planners.repair import Repair

GROUP = "ballast.planners"
BUILT_IN: tuple[Planner, ...] = (Relieve(), Redistribute(), Rebalance(), Repair(), Consolidate())

_FLAGS = ("needs_landing", "needs_confirmation", "one_at_a_time", "whole_nodes", "spans_cycles")
_METHODS = ("idle", "considers", "ceiling", "steps", "reason")


@cache
def planners() -> Sequence[Planner]:
    """The built-in planners, then those of entry points. Raises UsageError if one of these cannot be used."""
    return (*BUILT_IN, *extensions(GROUP, _checked, (planner.name for planner in BUILT_IN)))


def planner(name: str) -> Planner:
    """Raises UsageError if there is no planner of this name."""
    found = find(name)
    if found is None:
        raise UsageError(f"There is no planner {name!r}. Choose one of {', '.join(each.name for each in planners())}.")
    return found


def find(name: str) -> Planner | None:
    """None if there is no planner of this name: a plan under way may be of one that is not installed any more."""
    return next((each for each in planners() if each.name == name), None)


def _checked(loaded: object) -> Planner | str:
    lacking = [flag for flag in _FLAGS if not isinstance(getattr(loaded, flag, None), bool)]
    lacking += [method for method in _METHODS if not callable(getattr(loaded, method, None))]
    if not isinstance(getattr(loaded, "effect", None), Effect):
        lacking.insert(0, "effect")
    name = getattr(loaded, "name", None)
    if not isinstance(name, str) or not name:
        lacking.insert(0, "name")
    if lacking or isinstance(loaded, type):
        what = ", ".join(lacking) or "an instance (it is a class)"
        return f"a planner needs {what}"
    assert isinstance(loaded, Planner)
    return loaded
