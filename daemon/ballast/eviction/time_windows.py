"""When evictions may happen: times that are allowed or denied, by planner. Pure: a moment and a planner decide."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import tzinfo
from functools import lru_cache

from ballast.model.cron import Cron

JUMPS = 1000
"""Changes that are looked at for the next opening; beyond them it is not known."""


@dataclass(frozen=True)
class TimeWindow:
    """`duration` seconds after each beginning. Without planners it holds for all of them."""

    denies: bool
    cron: Cron
    duration: float
    zone: tzinfo
    planners: frozenset[str] = frozenset()

    def concerns(self, planner: str) -> bool:
        return not self.planners or planner in self.planners

    def ends(self, now: float) -> float | None:
        """When the window that `now` is in ends; None outside of it."""
        begun = self.cron.last(now, self.zone, self.duration)
        return None if begun is None or begun + self.duration <= now else begun + self.duration


@dataclass(frozen=True)
class Closed:
    """Evictions wait. `until` is Unix seconds, None where no opening is in sight."""

    until: float | None


@lru_cache(maxsize=64)
def closed(windows: tuple[TimeWindow, ...], planner: str, now: float) -> Closed | None:
    """Whether a planner may not evict at `now`; None where it may.

    A denied time wins over an allowed one. A planner that no allowed time concerns may evict always but for those.
    """
    mine = [window for window in windows if window.concerns(planner)]
    denied = [window for window in mine if window.denies]
    allowed = [window for window in mine if not window.denies]
    at = _reopens(denied, allowed, now)
    if at is None:
        return None
    for _ in range(JUMPS):
        later = _reopens(denied, allowed, at)
        if later is None:
            return Closed(at)
        if later == float("inf"):
            break
        at = later
    return Closed(None)


def _reopens(denied: Iterable[TimeWindow], allowed: list[TimeWindow], now: float) -> float | None:
    """The first time at which what closes evictions at `now` may be over; None where nothing does."""
    ends = [end for window in denied if (end := window.ends(now)) is not None]
    if ends:
        return max(ends)
    if not allowed or any(window.ends(now) is not None for window in allowed):
        return None
    begins = [begin for window in allowed if (begin := window.cron.following(now, window.zone)) is not None]
    return min(begins, default=float("inf"))
