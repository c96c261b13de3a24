"""The planners by name, the most urgent first.

A planner is added with one file beside this one and one line in `BUILT_IN`, or by another package with an entry point
of group `ballast.planners`, which names an object that fulfils `Planner`.
"""

from collections.abc import Sequence
from functools import cache

from ballast.base.errors import UsageError
from ballast.base.registry import Registry
from ballast.planners.consolidate import Consolidate
from ballast.planners.planner import Planner
from ballast.planners.rebalance import Rebalance
from ballast.planners.redistribute import Redistribute
from ballast.planners.relieve import Relieve
from ballast.planners.repair import Repair
from ballast.planners.tidy import Tidy

BUILT_IN: tuple[Planner, ...] = (Relieve(), Redistribute(), Rebalance(), Repair(), Tidy(), Consolidate())
REGISTRY: Registry[Planner] = Registry("ballast.planners", [planner.name for planner in BUILT_IN], Planner)


@cache
def planners() -> Sequence[Planner]:
    """The built-in planners, then those of entry points. Raises UsageError if one of these cannot be used."""
    return (*BUILT_IN, *REGISTRY.load_all())


def planner(name: str) -> Planner:
    """Raises UsageError if there is no planner of this name."""
    chosen = find(name)
    if chosen is None:
        raise UsageError(
            f"There is no planner {name!r}. Choose one of {', '.join(planner.name for planner in planners())}."
        )
    return chosen


def moves(name: str) -> bool:
    """Whether a planner moves pods from one node to another; so does one that is not installed any more."""
    planner = find(name)
    return planner is None or planner.moves


def find(name: str) -> Planner | None:
    """None if there is no planner of this name: a plan under way may be of one that is not installed any more."""
    return next((planner for planner in planners() if planner.name == name), None)
