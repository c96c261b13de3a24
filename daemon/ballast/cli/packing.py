"""The options of `ballast profile bin-packing`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ballast.base.errors import UsageError
from ballast.publishing.scheduler_profiles import MOST_ALLOCATED, RATIO, STRATEGIES
from ballast.scoring import most_allocated, requested_to_capacity
from ballast.scoring.keys import StrategyKeys
from ballast.scoring.requested_to_capacity import parse_shape
from ballast.scoring.requests_strategy import parse_weights


@dataclass(frozen=True)
class Packing:
    """`resources` have weights; `shape` has points of percent and score, and is empty for MostAllocated."""

    strategy: str
    resources: Mapping[str, int]
    shape: Sequence[tuple[int, int]]


def packing(strategy: str | None, resources: str | None, shape: str | None) -> Packing:
    """The options as they were given, None for the defaults. Raises UsageError with the option and what is allowed."""
    strategy = strategy or MOST_ALLOCATED
    if strategy not in STRATEGIES:
        raise UsageError(f"--strategy {strategy}: choose {' or '.join(STRATEGIES)}.")
    name = most_allocated.NAME if strategy == MOST_ALLOCATED else requested_to_capacity.NAME
    if shape is not None and strategy != RATIO:
        raise UsageError(f"--shape {shape}: {strategy} has no shape. Add --strategy {RATIO}.")
    keys = StrategyKeys(name, {"resources": resources, "shape": None if shape is None else _points(shape)})
    try:
        weights = parse_weights(keys)
    except UsageError as error:
        raise UsageError(f"--resources {resources}: {error}") from None
    try:
        points = parse_shape(keys) if strategy == RATIO else ()
    except UsageError as error:
        raise UsageError(f"--shape {shape}: {error} Write them as 0:0,100:10.") from None
    return Packing(strategy, weights, points)


def _points(shape: str) -> list[list[str]]:
    """ "0:0,100:10" as pairs."""
    return [[part.strip() for part in point.split(":")] for point in shape.split(",")]
