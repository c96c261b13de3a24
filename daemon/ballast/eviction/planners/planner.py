"""What a planner is: the protocol, and what it is cluster."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias, runtime_checkable

from ballast.eviction.tidy_rules import NOTHING, TidyRules
from ballast.eviction.waiting import PlannedPods, pod_name
from ballast.model.limits import Limit, by_resource
from ballast.model.sample import Bools, Floats, Ints
from ballast.placement.planners.layout import Layout
from ballast.placement.planners.node_choice import OBSERVED
from ballast.placement.planners.relieve import Thresholds
from ballast.placement.planners.simulated_placement import Preferences, SimulatedPlacement
from ballast.placement.planners.step import Admit, PlannedMove, Worth
from ballast.scoring.dominant_residual import DominantResidual

__all__ = [
    "Aims",
    "BasePlanner",
    "Effect",
    "PlanInput",
    "Planner",
    "PlanningDemand",
    "Spare",
    "loads_in_words",
    "pod_name",
]


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


class Effect(Enum):
    """What the gain of a plan counts, and by what its outcome is judged."""

    LOAD = "load"
    """Loads change as predicted."""
    STARTS = "starts"
    """Waiting pods start."""
    NONE = "none"
    """Nothing is predicted."""


@dataclass(frozen=True)
class PlanningDemand:
    """What planners could be needed for at this moment."""

    hot: bool
    """Whether any node was too loaded in its last window."""
    waiting: bool
    """Whether any pod waits for a node."""
    removes: bool = True
    """Whether the settings say what `tidy` removes."""


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
    """One cluster to plan for."""

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


Spare: TypeAlias = Callable[[Ints], None]
"""Called with the pods (rows of the layout) whose move would cost more than it gains."""


@runtime_checkable
class Planner(Protocol):
    """Proposes evictions; the gate decides on each of them. Planners keep no state between plans."""

    name: str
    """As in `BALLAST_EVICTION__PLANNERS`, metrics and sentences."""
    needs_landing: bool
    """Whether moves are useless unless the extender steers where replacements go."""
    needs_confirmation: bool
    """Whether pods only leave nodes that were too loaded in several windows in a row."""
    one_at_a_time: bool
    """Whether a new plan is made after each eviction."""
    whole_nodes: bool
    """Whether it empties nodes: `PlanInput.whole_nodes` is set, and the nodes that it hands over are marked."""
    spans_cycles: bool
    """Whether a plan is carried out over many cycles: the limits of a cycle hold back its steps, not the plan."""
    moves: bool
    """Whether it wants pods on other nodes; else they may come back where they were, and its steps have target -1."""
    preferences: Preferences
    """Whether pods go to nodes that they like less."""
    by_the_hour: bool
    """Whether victims and targets are chosen by what pods used over the last hour, where that is known."""
    effect: Effect

    def idle(self, demand: PlanningDemand) -> str | None:
        """Why no plan is needed now, or None."""
        ...

    def considers(self, cluster: PlanInput) -> Bools:
        """[pod]: those that the plan may move, apart from what the gate refuses."""
        ...

    def ceiling(self, aims: Aims) -> Limit:
        """The load that a move may bring its target to."""
        ...

    def steps(
        self, cluster: PlanInput, placement: SimulatedPlacement, movable: Bools, admit: Admit, spare: Spare
    ) -> Iterator[PlannedMove]:
        """Steps that are already made in `placement`; `movable` [pod] is what the gate has left."""
        ...

    def reason(self, cluster: PlanInput, step: PlannedMove, load: Floats) -> str:
        """Why this step is made; `load` [node, resource] is that before it."""
        ...


class BasePlanner:
    """What most planners have in common: any pod may move, for its load, to a node below the ceiling."""

    needs_landing = True
    needs_confirmation = False
    one_at_a_time = False
    whole_nodes = False
    spans_cycles = False
    moves = True
    preferences = Preferences.SECOND
    by_the_hour = False
    effect = Effect.LOAD

    def idle(self, demand: PlanningDemand) -> str | None:
        """A plan may be needed at any time."""
        return None

    def considers(self, cluster: PlanInput) -> Bools:
        """All pods on nodes."""
        return cluster.layout.placed

    def ceiling(self, aims: Aims) -> Limit:
        """As for every move."""
        return aims.ceiling


def loads_in_words(load: Floats, resources: tuple[str, ...]) -> str:
    """ "85.0% cpu and 40.0% memory", without what is unknown."""
    shares = zip(load.tolist(), resources, strict=True)
    return " and ".join(f"{share:.1%} {name}" for share, name in shares if share == share)
