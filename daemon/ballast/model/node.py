"""A node, as far as Ballast looks at it."""

from collections.abc import Mapping

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from ballast.model.sample import Floats

HARD_EFFECTS = ("NoSchedule", "NoExecute")
"""Effects of a taint that keep pods without a toleration away."""


class Taint(msgspec.Struct, frozen=True, gc=False):
    """A taint of a node."""

    key: str = ""
    effect: str = ""
    value: str = ""

    @property
    def soft(self) -> bool:
        """Whether schedulers go elsewhere if they can."""
        return self.effect == "PreferNoSchedule"

    @property
    def sign(self) -> str:
        """What a standing sign calls it."""
        return f"taint {self.key}={self.value}"


class Node(msgspec.Struct, frozen=True, gc=False):
    """A node, with the fields that Ballast reads. Amounts are cores for cpu, bytes for memory, otherwise counts."""

    name: str
    uid: str = ""
    resource_version: str = ""
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    """Only the keys that Ballast reads: those under its prefix, and opt-outs of other tools."""
    capacity: Mapping[str, float] = {}
    allocatable: Mapping[str, float] = {}
    addresses: tuple[tuple[str, str], ...] = ()
    """(type, address) of each, such as ("InternalIP", "10.0.0.1")."""
    provider_id: str = ""
    """What its cloud calls the machine, such as "aws:///eu-west-1a/i-0123456789abcdef0"."""
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    """Cordoned."""
    ready: bool = True
    """The condition Ready."""
    created: float = 0.0
    """Unix seconds."""
    deleting: bool = False
    """Whether it has a deletion timestamp."""
    ready_since: float = 0.0
    """Unix seconds at which the condition Ready last changed."""
    system: str = ""
    """Its operating system and architecture, such as "linux/amd64"; "" where it tells neither."""
    version: str = ""
    """That of its kubelet."""
    os_image: str = ""
    signs: tuple[str, ...] = ()
    """Conditions, annotations and labels that say that something is wrong with it, or that it is about to go."""
    images: tuple[str, ...] = ()
    """Whole names of images that it has."""

    @property
    def standing_signs(self) -> tuple[str, ...]:
        """`signs` and soft taints."""
        return (*self.signs, *(taint.sign for taint in self.taints if taint.soft))

    @property
    def reserve(self) -> float:
        """The share of its memory that is reserved for huge pages, below 1.

        Whether pods use them or not: the kernel never counts them as available, and allocatable memory has none.
        """
        whole = self.capacity.get("memory", 0.0)
        reserved = sum(amount for name, amount in self.capacity.items() if name.startswith("hugepages-"))
        return reserved / whole if reserved < whole else 0.0

    @property
    def schedulable(self) -> bool:
        """Ready and not cordoned; taints do not matter for statistics."""
        return self.ready and not self.unschedulable


def beside_reserve(used: ArrayLike, reserve: ArrayLike) -> Floats:
    """Shares of capacity that are used beside `reserve`, from shares that hold it; where there is none, as they are."""
    share, kept = np.asarray(used, float), np.asarray(reserve, float)
    return np.where(kept > 0, np.clip(share - kept, 0.0, 1 - kept), share)
