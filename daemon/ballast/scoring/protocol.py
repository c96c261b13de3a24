"""What a strategy is: a score of nodes, and traits by which the daemon knows what the score depends on."""

from typing import ClassVar, Protocol

from ballast.model.pod import Pod
from ballast.scoring.fleet import Fleet
from ballast.scoring.scores import Scores


class Strategy(Protocol):
    """A pure function over all nodes, with its traits as class attributes.

    It may also have `reads`, a tuple: the measured resources beside cpu and memory whose load it reads.
    """

    needs_load: ClassVar[bool]
    """It reads measured load. The extender answers neutrally while the load is unknown or old."""

    needs_pods: ClassVar[bool]
    """It reads the pods that are placed on nodes, such as what they request. No node has a score while the watch of
    pods is silent. `needs_pod` is about the one pod to place."""

    needs_pod: ClassVar[bool]
    """It scores nodes for the pod to place: without one, all nodes score alike, or nearly. A label is then for a pod of
    100m and 200Mi. `needs_pods` is about the pods that are placed."""

    warms: ClassVar[bool]
    """It caches arrays over nodes, so the extender scores each new snapshot once before schedulers see it."""

    def score(self, fleet: Fleet, pod: Pod | None = None) -> Scores:
        """The scores of all nodes, for a pod to place or, without one, for the nodes by themselves."""
        ...


def reads(strategy: Strategy) -> tuple[str, ...]:
    """The measured resources that a strategy reads, as its optional trait `reads` says."""
    return tuple(getattr(strategy, "reads", ()))
