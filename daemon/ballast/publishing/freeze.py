"""When much of the cluster is silent, absence would make the others look better: hold everything, then withdraw it.

A freeze begins when more than `max_unknown` of the selected nodes are unknown, young ones included, and ends when
the share was at most half of that in two successive cycles. After `forget_after` seconds of freeze nothing that was
published can be trusted any more: *forgotten* asks for its withdrawal. Nothing freezes before a first cycle.
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

    def after(self, unknown: int, nodes: int, now: float) -> Freeze:
        """The state after a cycle that found `unknown` of `nodes` unknown at monotonic time `now`."""
        share = unknown / nodes if nodes else 0.0
        if self.since is None:
            return self._with(now if share > self.max_unknown else None, 0)
        calm = self.calm + 1 if share <= self.max_unknown / 2 else 0
        return self._with(None, 0) if calm >= CALM_CYCLES else self._with(self.since, calm)

    def _with(self, since: float | None, calm: int) -> Freeze:
        return Freeze(self.max_unknown, self.forget_after, since, calm)
