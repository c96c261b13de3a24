"""What `/livez` and `/readyz` check.

Stale data never makes a replica unready: it would take the page away when it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from ballast.cluster.context import Context
from ballast.parts import Part
from ballast.serving.board import Board, Check
from ballast.settings import Mode


class Alive(Protocol):
    """A part with threads of its own; `alive` is False only if one of them died unexpectedly."""

    @property
    def alive(self) -> bool: ...


PATIENCE = {"lease": 120.0, "supervisor": 120.0, "listener": 150.0, "endpoint": 600.0, "watch": 900.0}
"""Seconds that a loop may take to come round, by the first word of its name: a list and a watch take minutes."""


class Health:
    """`overdue` gives the jobs that have not beaten in time, with the seconds since their last beat.

    `beats` gives when each other loop came round last (monotonic), None before its first time.
    """

    def __init__(
        self,
        context: Context,
        board: Board,
        parts: Mapping[str, Alive],
        overdue: Callable[[], Mapping[str, float]],
        beats: Callable[[], Mapping[str, float | None]] = dict,
    ) -> None:
        self._context, self._board, self._parts, self._overdue = context, board, parts, overdue
        self._beats = beats

    def alive(self) -> list[Check]:
        """Whether the loops beat, and no thread they rely on has ended."""
        late = ", ".join(f"{name} has not beaten for {age:.0f} s" for name, age in self._overdue().items())
        dead = ", ".join(name for name, part in self._parts.items() if not part.alive)
        now = self._context.machine_clock.monotonic()
        silent = ", ".join(
            f"{name} has not come round for {now - beat:.0f} s"
            for name, beat in self._beats().items()
            if beat is not None and now - beat > PATIENCE[name.partition(" ")[0]]
        )
        return [
            Check("jobs", not late, late),
            Check("threads", not dead, f"{dead} ended unexpectedly" if dead else ""),
            Check("loops", not silent, silent),
        ]

    def ready(self) -> list[Check]:
        """Whether it can serve: the caches are synced and a first cycle ended, even a failed one.

        Without pods the extender knows less, and nothing else suffers: they are waited for only while they are listed.
        """
        context, cache, settings = self._context, self._context.cache, self._context.settings
        snapshot, cycled = self._board.snapshot, bool(self._board.cycles)
        age = "" if snapshot is None else f"windows end {context.clock.wall() - snapshot.time:.0f} s ago"
        unlisted = cache.problem("pods")
        return [
            Check("nodes", cache.listed("nodes"), cache.problem("nodes") or self._age("nodes")),
            Check("pods", cache.listed("pods") or bool(unlisted), unlisted or self._age("pods")),
            Check("first-cycle", cycled, "" if cycled else "no cycle has ended yet"),
            Check("data", True, age or "nothing measured yet"),
            Check("publishing", True, context.paused(Part.PUBLISHING) or settings.publishing.mode.value),
            Check("eviction", True, self._mode(Part.EVICTION, settings.eviction.mode)),
            Check("batch", True, self._mode(Part.BATCH, settings.batch.mode)),
            Check("lease", True, context.leadership.standing_by() or "this replica leads"),
        ]

    def _mode(self, part: str, mode: Mode) -> str:
        """Why a part is paused, else its mode."""
        return mode.value if mode is Mode.OFF else self._context.switches.paused(part) or mode.value

    def _age(self, kind: str) -> str:
        return f"last heard of {self._context.cache.age(kind):.0f} s ago"
