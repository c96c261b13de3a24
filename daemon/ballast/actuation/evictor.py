"""Evicts what a plan says, step by step: judged again, written down first, followed until its effect is seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ballast.actuation.landing import Landing
from ballast.clock import Clock
from ballast.cluster.events import Events
from ballast.cluster.state import State
from ballast.cluster.writer import Writer
from ballast.eviction.gate import Gate
from ballast.eviction.history import History
from ballast.eviction.plan import Plan
from ballast.metrics import Metrics
from ballast.model.pod import Pod
from ballast.model.snapshot import Snapshot


@dataclass(frozen=True)
class Attempt:
    """One step that was tried. `status` is recorded (its outcome is not known yet), evicted, refused or failed; `why`
    a sentence unless it was evicted, `check` the gate's check that refused it."""

    pod: str
    status: str
    why: str = ""
    check: str = ""


class Evictor:
    """Not for several threads at once, but for `document`."""

    def __init__(
        self,
        *,
        writer: Writer,
        state: State,
        clock: Clock,
        metrics: Metrics,
        events: Events,
        landing: Landing,
        prefix: str,
        window: float,
        grace_period: float | None = None,
        ready_within: float = 300.0,
        nominate: bool = False,
    ) -> None:
        """`window` is the seconds after which an effect shows, the longest window; `grace_period` replaces the pods'
        own; `ready_within` the seconds a replacement may take; `nominate` sets nominatedNodeName of waiting pods."""

    def resume(self) -> str | None:
        """After leadership was gained: knows again what the leader before had begun, and holds its reservations.

        A sentence if there was any. Raises ClusterError when `ballast-state` cannot be read; then nothing is evicted
        until it could be.
        """
        raise NotImplementedError

    def history(self) -> History:
        """What earlier evictions mean for the gate. The caller adds what it knows itself: acting, leader, paused,
        confirmed, planned, overloaded. During `carry_out` the steps of that plan are in the gate's tally instead."""
        raise NotImplementedError

    def stopped(self, kind: str) -> str | None:
        """Why plans of a kind (relieve, rebalance, redistribute) are not carried out now, or None."""
        raise NotImplementedError

    def carry_out(
        self, plan: Plan, gate: Callable[[], Gate], find: Callable[[str], Pod | None], snapshot: Snapshot
    ) -> list[Attempt]:
        """Evicts as many steps as the gate permits, one after the other.

        `gate` makes one of the facts of this moment, with `history()` and `acting`; it is asked anew before each step.
        `find` gives a pod by namespace/name as the watch shows it. `snapshot` is the one the plan was made from.
        """
        raise NotImplementedError

    def follow_up(self, pods: Iterable[Pod], snapshot: Snapshot) -> str | None:
        """Once a cycle: where replacements are, when they were Ready, what came of it. A sentence if anything ended or
        stopped."""
        raise NotImplementedError

    def document(self, limits: Mapping[str, Any] | None = None, breaker: str | None = None) -> dict[str, Any]:
        """`/api/v1/evictions`."""
        raise NotImplementedError
