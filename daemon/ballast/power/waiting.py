"""Learns how long a rise should wait, from the feed's own ups and downs and what starting replicas costs.

Each window is followed on paper: falls at once, rises once the window has carried them. What it leaves unused and what
replicas draw until they serve are both joules, so the window with the fewest is the best one (the rent of ski rental,
with the past in place of the future).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from fractions import Fraction
from math import exp

from ballast.power.policy import PowerPolicy

WINDOWS = (0, 15, 30, 60, 120, 300, 600)
"""Seconds that are compared."""

START = 60.0
"""Seconds after which a new replica serves, where that has not been seen."""

MEMORY = 21_600.0
"""Seconds after which a past joule weighs 1 / e."""

LEARNS = 1800.0
"""Seconds of feed before anything follows from them."""

BETTER = 0.9
"""The part of the joules of the window in use that another one has to stay below."""

DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class WindowPrice:
    """What a window for rises would have cost lately."""

    window: float
    """Seconds."""
    actions_per_day: float
    """Rises and falls."""
    unused_share: float
    """Of the feed's energy: not drawn, or drawn by replicas that do not serve yet."""
    chosen: bool


class _Followed:
    """One window, followed on paper."""

    def __init__(self, window: int) -> None:
        self.window = window
        self._lows: deque[tuple[float, float]] = deque()
        self._begun: float | None = None
        self._level = 0.0
        self.joules = self.actions = 0.0

    def follow(self, at: float, watts: float, start: float, band: float) -> None:
        if self._begun is None:
            self._begun, self._level = at, watts
        # The lowest of the window: times and watts both rise, and the value before holds until now.
        while self._lows and self._lows[-1][1] >= watts:
            self._lows.pop()
        self._lows.append((at, watts))
        while len(self._lows) > 1 and self._lows[1][0] <= at - self.window:
            self._lows.popleft()
        low = self._lows[0][1] if at - self._begun >= self.window else 0.0
        if watts < self._level:
            self._level, self.actions = watts, self.actions + 1
        elif low > self._level * (1 + band):
            self.joules += (low - self._level) * start
            self._level, self.actions = low, self.actions + 1

    def hold(self, begin: float, watts: float, end: float, start: float, band: float) -> None:
        """`watts` held from `begin` to `end`; between them the window may have carried what it waited for."""
        carried = min(begin + self.window, end)
        self._leave(carried - begin, watts)
        self.follow(carried, watts, start, band)
        self._leave(end - carried, watts)

    def _leave(self, seconds: float, watts: float) -> None:
        fading = exp(-seconds / MEMORY)
        self.joules = self.joules * fading + max(0.0, watts - self._level) * seconds
        self.actions *= fading


class LearnedWindow:
    """The window of `increase: auto`; the policy's own until enough of the feed is known, and without it."""

    def __init__(self, policy: PowerPolicy) -> None:
        self._auto = policy.increase.auto
        self._window, self._band = policy.increase.window, float(policy.deadband)
        self._followed = [_Followed(window) for window in WINDOWS]
        self._last: tuple[float, float] | None = None
        self._seconds = self._energy = self._known = 0.0
        self._applied: tuple[PowerPolicy, Fraction, PowerPolicy] | None = None

    def measure(self, at: Fraction, watts: Fraction, bound: Fraction | None = None, start: float = START) -> None:
        """At `at` (seconds) `watts` are there, of which `bound` may be used; a replica serves after `start` seconds."""
        if not self._auto:
            return
        watts = watts if bound is None else min(watts, bound)
        now, level = float(at), float(watts)
        if self._last is not None and now > self._last[0]:
            seconds = now - self._last[0]
            fading = exp(-seconds / MEMORY)
            self._known += seconds
            self._seconds = self._seconds * fading + seconds
            self._energy = self._energy * fading + self._last[1] * seconds
            for each in self._followed:
                each.hold(*self._last, now, start, self._band)
        self._last = now, level
        for each in self._followed:
            each.follow(now, level, start, self._band)
        self._choose()

    def prices(self) -> list[WindowPrice]:
        """What each window would have cost; empty until enough is known."""
        if self._known < LEARNS or not self._energy:
            return []
        return [
            WindowPrice(
                each.window,
                each.actions / self._seconds * DAY,
                each.joules / self._energy,
                chosen=each.window == self._window,
            )
            for each in self._followed
        ]

    def applied(self, policy: PowerPolicy) -> PowerPolicy:
        """The policy with the learned window."""
        if not self._auto:
            return policy
        known = self._applied
        if known is None or known[0] is not policy or known[1] != self._window:
            increase = policy.increase.model_copy(update={"window": self._window})
            known = self._applied = policy, self._window, policy.model_copy(update={"increase": increase})
        return known[2]

    def _choose(self) -> None:
        if self._known < LEARNS:
            return
        best = min(reversed(self._followed), key=lambda each: each.joules)
        present = next((each.joules for each in self._followed if each.window == self._window), None)
        if present is None or best.joules < BETTER * present:
            self._window = Fraction(best.window)
