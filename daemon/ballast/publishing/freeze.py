"""When much of the cluster is silent, absence would make the others look better: hold everything, then withdraw it.

A freeze begins when the silent are more than `max_unknown` of the known and the silent, and ends when they were at most
half of that in two successive cycles. Nodes whose silence has an explanation (young, down, never measured) do not count
either way. After `forget_after` seconds of freeze nothing that was published can be trusted any more: `forgotten` asks
for its withdrawal. Nothing freezes before a first cycle.
"""

from __future__ import annotations

from dataclasses import dataclass

CALM_CYCLES = 2


@dataclass(frozen=True)
class Freeze:
    """`since` is the monotonic time the freeze began, None without one; `calm` counts cycles below the exit share."""

    max_unknown: float
    forget_after: float
    since: float | None = None
    calm: int = 0

    @property
    def frozen(self) -> bool:
        """Whether writes are held back."""
        return self.since is not None

    def forgotten(self, now: float) -> bool:
        """Whether the freeze has lasted `forget_after` seconds at monotonic time `now`."""
        return self.since is not None and now - self.since >= self.forget_after

    def after(self, share: float, now: float) -> Freeze:
        """The state after a cycle with this silent share at monotonic time `now`."""
        if self.since is None:
            return self._with(now if share > self.max_unknown else None, 0)
        calm = self.calm + 1 if share <= self.max_unknown / 2 else 0
        return self._with(None, 0) if calm >= CALM_CYCLES else self._with(self.since, calm)

    def _with(self, since: float | None, calm: int) -> Freeze:
        return Freeze(self.max_unknown, self.forget_after, since, calm)
