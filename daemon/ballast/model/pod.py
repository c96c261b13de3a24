"""A pod, as far as Ballast looks at it. Shapes, labels and owners are shared between pods."""

from collections.abc import Mapping

import msgspec

from ballast.model.marks import RESTARTED_FOR
from ballast.model.shape import Shape
from ballast.model.template import PLAIN, Template

FINISHED = ("Succeeded", "Failed")

ORDINARY_GRACE = 30
"""Seconds that Kubernetes gives a pod to end where its spec does not say."""


NO_DEVICES: Mapping[str, int] = {}
"""Of pods without claims, which share it: an empty mapping of its own would cost each of them 80 bytes."""


class Owner(msgspec.Struct, frozen=True, gc=False):
    """One of the owner references of an object."""

    kind: str
    name: str
    uid: str
    controller: bool = False
    api_version: str = ""


class Pod(msgspec.Struct, frozen=True, gc=False):
    """A pod, with the fields that Ballast reads."""

    namespace: str
    name: str
    uid: str = ""
    node: str = ""
    """The name of its node, empty until it is bound."""
    phase: str = "Pending"
    shape: Shape = Shape()
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    """Only the keys that Ballast reads."""
    owner: Owner | None = None
    """Its controller, else its first owner."""
    scheduler_name: str = "default-scheduler"
    priority: int = 0
    created: float = 0.0
    """Unix seconds."""
    scheduled_at: float | None = None
    """Unix seconds at which the condition PodScheduled turned True."""
    deleting: bool = False
    """Whether it has a deletion timestamp."""
    template: Template = PLAIN
    ready: bool = False
    waiting_since: float | None = None
    """Unix seconds at which the scheduler found no node for it."""
    gates: tuple[str, ...] = ()
    """Its scheduling gates: while there is one, it may not be scheduled."""
    claimed: Mapping[str, int] = {}
    """Whole devices that it asks for by resource claims, where they have been looked up."""
    nominated: str = ""
    """The node that the scheduler makes room on for it (status.nominatedNodeName)."""
    restarts: int = 0
    """Of all its containers, those that prepare it too."""
    grace: int = ORDINARY_GRACE
    """Seconds that it may take to end."""

    @property
    def maker(self) -> str:
        """Whose next pod it is: of the move for which its template was restarted, else the UID of its owner; "" without
        one. Others' namespaces cannot name a move of this one."""
        if self.owner is None:
            return ""
        move = self.annotations.get(RESTARTED_FOR)
        return move_of(self.namespace, move) if move else self.owner.uid

    @property
    def promised(self) -> str:
        """The node that it is nominated to, while it is on none."""
        return "" if self.node or self.finished or self.deleting or self.gated else self.nominated

    @property
    def gated(self) -> bool:
        """Whether it has scheduling gates, so it may not be scheduled yet."""
        return bool(self.gates)

    @property
    def waiting(self) -> bool:
        """Tried by the scheduler, without a node to go to."""
        unbound = self.phase == "Pending" and not self.node
        return unbound and self.waiting_since is not None and not (self.gated or self.deleting)

    @property
    def finished(self) -> bool:
        """Whether all its containers have ended for good."""
        return self.phase in FINISHED


def move_of(namespace: str, uid: str) -> str:
    """The move for which a template is restarted: that of the pod of this UID."""
    return f"{namespace}/{uid}"
