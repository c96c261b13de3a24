"""What a planner is: the protocol, and what most planners have in common."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias, runtime_checkable

from ballast.model.load_limits import Limit
from ballast.model.sample import Bools, Floats, Ints
from ballast.placement.simulated_placement import Preferences, SimulatedPlacement
from ballast.planners.aims import Aims
from ballast.planners.plan_input import PlanInput
from ballast.planners.step import Admit, PlannedMove


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

    def considers(self, inputs: PlanInput) -> Bools:
        """[pod]: those that the plan may move, apart from what the gate refuses."""
        ...

    def ceiling(self, aims: Aims) -> Limit:
        """The load that a move may bring its target to."""
        ...

    def steps(
        self, inputs: PlanInput, placement: SimulatedPlacement, movable: Bools, admit: Admit, spare: Spare
    ) -> Iterator[PlannedMove]:
        """Steps that are already made in `placement`; `movable` [pod] is what the gate has left."""
        ...

    def reason(self, inputs: PlanInput, step: PlannedMove, load: Floats) -> str:
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
    optional = False
    """Whether its moves can wait until an upgrade of nodes is over."""

    def idle(self, demand: PlanningDemand) -> str | None:
        """A plan may be needed at any time."""
        return None

    def considers(self, inputs: PlanInput) -> Bools:
        """All pods on nodes."""
        return inputs.layout.placed

    def ceiling(self, aims: Aims) -> Limit:
        """As for every move."""
        return aims.ceiling


def loads_in_words(load: Floats, resources: tuple[str, ...]) -> str:
    """ "85.0% cpu and 40.0% memory", without what is unknown."""
    shares = zip(load.tolist(), resources, strict=True)
    return " and ".join(f"{share:.1%} {name}" for share, name in shares if share == share)
