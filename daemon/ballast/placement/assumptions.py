"""Decisions that count before the cluster shows them."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

UNSEEN_FOR = 5.0
MOST_UNSEEN = 1000


@dataclass(frozen=True)
class Decision:
    """`seen`: the watch has shown the pod waiting. `until` is monotonic, in seconds."""

    uid: str
    node: str
    seen: bool
    until: float


class Assumptions:
    """At most one decision per pod UID. A pod the watch has not shown yet counts for `UNSEEN_FOR` seconds only, and at
    most `MOST_UNSEEN` of them are taken, so that requests about pods that do not exist cannot fill it.
    """

    def __init__(self, assume_for: float) -> None:
        self._assume_for = assume_for
        self._decisions: dict[str, Decision] = {}
        self._deadlines: list[tuple[float, str]] = []
        self._unseen = 0

    def __len__(self) -> int:
        return len(self._decisions)

    def __contains__(self, uid: str) -> bool:
        return uid in self._decisions

    def get(self, uid: str) -> Decision | None:
        """The decision for this pod, if there is one."""
        return self._decisions.get(uid)

    def assume(self, uid: str, node: str, now: float, *, seen: bool) -> bool:
        """Replaces what was decided for this pod before. Without room nothing is decided, and False returned."""
        self.drop(uid)
        if not seen and self._unseen >= MOST_UNSEEN:
            return False
        self._enter(Decision(uid, node, seen, now + (self._assume_for if seen else min(UNSEEN_FOR, self._assume_for))))
        return True

    def saw(self, uid: str, now: float) -> None:
        """The watch shows the pod waiting: its decision counts as long as any other."""
        decision = self._decisions.get(uid)
        if decision is not None and not decision.seen:
            self.drop(uid)
            self._enter(Decision(uid, decision.node, True, now + self._assume_for))

    def drop(self, uid: str) -> Decision | None:
        """Removes and returns the decision for this pod, if there is one."""
        decision = self._decisions.pop(uid, None)
        if decision is not None and not decision.seen:
            self._unseen -= 1
        return decision

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

    def _enter(self, decision: Decision) -> None:
        self._decisions[decision.uid] = decision
        self._unseen += not decision.seen
        heapq.heappush(self._deadlines, (decision.until, decision.uid))
        if len(self._deadlines) > 2 * len(self._decisions) + MOST_UNSEEN:
            self._deadlines = [(each.until, each.uid) for each in self._decisions.values()]
            heapq.heapify(self._deadlines)
