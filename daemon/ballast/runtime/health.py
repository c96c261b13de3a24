"""What `/livez` and `/readyz` check.

Stale data never makes a replica unready: it would take the page away when it is needed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from ballast.base.parts import Part
from ballast.cluster.context import Context
from ballast.serving.board import Board, Check
from ballast.settings import Mode


class Alive(Protocol):
    """A part with threads of its own; `alive` is False only if one of them died unexpectedly."""

    @property
    def alive(self) -> bool: ...


class LoopKind(Enum):
    """What a loop does."""

    LEASE = auto()
    SUPERVISOR = auto()
    LISTENER = auto()
    ENDPOINT = auto()
    WATCH = auto()


PATIENCE = {
    LoopKind.LEASE: 120.0,
    LoopKind.SUPERVISOR: 120.0,
    LoopKind.LISTENER: 150.0,
    LoopKind.ENDPOINT: 600.0,
    LoopKind.WATCH: 900.0,
}
"""Seconds that a loop may take to come round: a list and a watch take minutes."""


@dataclass(frozen=True)
class Loop:
    """A loop of a thread, with the name that `/livez` shows."""

    name: str
    kind: LoopKind
    beat: float | None
    """When it came round last (monotonic seconds); None before its first time."""


class Health:
    """`overdue` gives the jobs that have not beaten in time, with the seconds since their last beat.

    `parts` gives the parts with threads, by name, and `loops` the other loops.
    """

    def __init__(
        self,
        context: Context,
        board: Board,
        parts: Callable[[], Mapping[str, Alive]],
        overdue: Callable[[], Mapping[str, float]],
        loops: Callable[[], Sequence[Loop]] = tuple,
    ) -> None:
        self._context, self._board, self._parts, self._overdue = context, board, parts, overdue
        self._loops = loops

    def alive(self) -> list[Check]:
        """Whether the loops beat, and no thread they rely on has ended."""
        late = ", ".join(f"{name} has not beaten for {age:.0f} s" for name, age in self._overdue().items())
        dead = ", ".join(name for name, part in self._parts().items() if not part.alive)
        now = self._context.machine_clock.monotonic()
        silent = ", ".join(
            f"{loop.name} has not come round for {now - loop.beat:.0f} s"
            for loop in self._loops()
            if loop.beat is not None and now - loop.beat > PATIENCE[loop.kind]
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
