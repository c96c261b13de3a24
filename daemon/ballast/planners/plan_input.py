"""What a plan is made from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ballast.model.sample import Bools, Floats
from ballast.placement.layout import Layout
from ballast.planners.aims import Aims
from ballast.planners.planned_pods import PlannedPods
from ballast.planners.step import Admit, Worth
from ballast.planners.thresholds import Thresholds


@dataclass(frozen=True)
class WholeNodes:
    """What planners that empty whole nodes go by. Masks are [node] or [pod]."""

    begun: Bools
    """Nodes that are handed over or being emptied."""
    may_empty: Bools
    """Nodes that could be chosen now."""
    stays: Bools
    """Pods that end with their node."""
    later: Bools
    """Pods that the gate refuses now, but not for good."""
    never: Bools
    """Those of them for which nobody knows when it ends: their nodes are not begun."""
    together: Callable[[Sequence[int]], bool]
    """Whether the gate permits to move all of these pods; then they count as moved."""
    hand_over: Callable[[int], None]
    """Called with each node that is empty or becomes so."""
    peak: Floats | None = None
    """[node, resource]: the load at the day's p95, NaN where unknown."""


@dataclass(frozen=True)
class PlanInput:
    """What a plan is made from: where the pods are, and what is aimed for."""

    layout: Layout
    aims: Aims
    counted: Bools
    """[node]: whether its load counts for means and variances."""
    thresholds: Thresholds
    hot: Bools
    """[node]: what is above the thresholds now, also what is not schedulable."""
    pods: PlannedPods
    worth: Worth | None = None
    """What evictions cost, and how certain the loads are; None: every gain pays."""
    whole_nodes: WholeNodes | None = None
    """Set for `steps` of planners that empty whole nodes."""
    overloaded: Bools | None = None
    """[node]: those that are relieved in one round; None: none."""
    came: Callable[[], Bools] | None = None
    """[pod]: those that came for one that Ballast evicted; None: none."""
    rehearse: Callable[[], Admit] | None = None
    """Set for `steps`: makes an `admit` that answers the same and remembers nothing, for drafts."""
