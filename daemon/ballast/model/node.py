"""A node, as far as Ballast looks at it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Taint(msgspec.Struct, frozen=True, gc=False):
    """A taint of a node."""

    key: str
    effect: str
    value: str = ""


class Node(msgspec.Struct, frozen=True, gc=False):
    """Amounts are cores for cpu, bytes for memory, counts for pods and extended resources; times are Unix seconds.

    `annotations` holds only the keys Ballast reads (its own prefix and foreign opt-outs), not everything on the object.
    """

    name: str
    uid: str = ""
    resource_version: str = ""
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    capacity: Mapping[str, float] = {}
    allocatable: Mapping[str, float] = {}
    addresses: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    created: float = 0.0
    deleting: bool = False

    @property
    def schedulable(self) -> bool:
        """Ready and not cordoned; taints do not matter for statistics."""
        return self.ready and not self.unschedulable
