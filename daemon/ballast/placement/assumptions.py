"""Decisions that count before the cluster shows them."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

UNSEEN_FOR = 5.0
"""Seconds in which the watch shows a pod that a scheduler asks about, if the pod exists."""

MOST_UNSEEN = 1000
"""Decisions about pods that the watch has not shown; the oldest is forgotten first."""

SPARE = 1000
"""Deadlines of replaced decisions that are kept before they are cleared away."""


@dataclass(frozen=True)
class Decision:
    """`until` is monotonic, in seconds."""

    uid: str
    node: str
    until: float


class UnseenDecisions:
    """Decisions about pods that the watch has not shown. They count for nothing until it does.

    So requests about pods that do not exist take no room, and a scheduler that is ahead of the watch loses nothing.
    """

    def __init__(self) -> None:
        self._decisions: dict[str, Decision] = {}

    def __len__(self) -> int:
        return len(self._decisions)

    def keep(self, uid: str, node: str, now: float) -> None:
        """Replaces what was decided for this pod before."""
        self._decisions.pop(uid, None)
        if len(self._decisions) >= MOST_UNSEEN:
            del self._decisions[next(iter(self._decisions))]
        self._decisions[uid] = Decision(uid, node, now + UNSEEN_FOR)

    def take(self, uid: str, now: float) -> str | None:
        """Removes the decision for this pod and returns its node, unless its time is over."""
        decision = self._decisions.pop(uid, None)
        return decision.node if decision is not None and now < decision.until else None


class Assumptions:
    """At most one decision per pod UID, each for the same time."""

    def __init__(self, assume_for: float) -> None:
        self._assume_for = assume_for
        self._decisions: dict[str, Decision] = {}
        self._deadlines: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._decisions)

    def __contains__(self, uid: str) -> bool:
        return uid in self._decisions

    def get(self, uid: str) -> Decision | None:
        """The decision for this pod, if there is one."""
        return self._decisions.get(uid)

    def assume(self, uid: str, node: str, now: float) -> None:
        """Replaces what was decided for this pod before."""
        decision = self._decisions[uid] = Decision(uid, node, now + self._assume_for)
        heapq.heappush(self._deadlines, (decision.until, uid))
        if len(self._deadlines) > 2 * len(self._decisions) + SPARE:
            self._deadlines = [(each.until, each.uid) for each in self._decisions.values()]
            heapq.heapify(self._deadlines)

    def drop(self, uid: str) -> Decision | None:
        """Removes and returns the decision for this pod, if there is one."""
        return self._decisions.pop(uid, None)

    def expire(self, now: float) -> list[Decision]:
        """Drops and returns the decisions whose time is over."""
        expired = []
        while self._deadlines and self._deadlines[0][0] <= now:
            until, uid = heapq.heappop(self._deadlines)
            decision = self._decisions.get(uid)
            if decision is not None and decision.until == until:
                self.drop(uid)
                expired.append(decision)
        return expired
