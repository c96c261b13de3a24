"""What the planners aim for, as the settings say it."""

from collections.abc import Mapping
from dataclasses import dataclass

from ballast.model.load_limits import Limit, by_resource
from ballast.planners.node_choice import OBSERVED
from ballast.planners.tidy_rules import NOTHING, TidyRules
from ballast.scoring.dominant_residual import DominantResidual


@dataclass(frozen=True)
class Aims:
    """What the planners aim for. Loads are fractions of allocatable, one number for cpu and memory or by resource."""

    high: Limit = 0.8
    """Load above which a node is hot."""
    low: Limit = 0.6
    """Load at which relief of a hot node ends."""
    target_high: Limit = 0.7
    """Load that a move may bring its target to; `relieve` keeps below `high` too."""
    deviation: float | None = None
    """Load above the mean of the pool from which a node is hot; replaces `high` and `low`."""
    min_gain: float = 0.0
    """Least gain of a step, in the planner's own measure."""
    max_moves: int | None = None
    """Most steps of a plan; None: no limit."""
    priced: bool = True
    """Whether `redistribute` counts the room that it takes from pods to come; else it goes by the published rule."""
    wait_for: float = 120.0
    """Seconds that a pod has to wait before room is made for it."""
    confidence: float = 0.0
    """Standard errors by which the gain of a move must exceed zero."""
    price: float = 0.0
    """Price of an ordinary eviction; 0: every gain pays."""
    criterion: DominantResidual = OBSERVED
    """By which moved and waiting pods land in `redistribute`."""
    nodes_reserve: int = 1
    """Nodes that may be lost after `consolidate` has emptied others."""
    consolidate_nodes: int = 1
    """Nodes that `consolidate` empties at a time."""
    no_peak: bool = False
    """Whether `consolidate` begins nodes where the load of a day is not known."""
    packed: bool = False
    """Whether `consolidate` runs too: `rebalance` moves pods off nodes above the ceiling of targets alone."""

    tidy: TidyRules = NOTHING
    """What `tidy` removes."""

    @property
    def ceiling(self) -> Limit:
        """`target_high`, and `high` of resources that it says nothing of: no move makes a node hot."""
        if not isinstance(self.high, Mapping) and not isinstance(self.target_high, Mapping):
            return self.target_high
        return {**by_resource(self.high), **by_resource(self.target_high)}
