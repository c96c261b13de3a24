"""How far telemetry has come, and what keeps this replica from acting on it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from ballast.base.text import duration
from ballast.cluster.context import Context
from ballast.model.snapshot import Snapshot
from ballast.publishing.freeze import Freeze
from ballast.telemetry.node_names import NodeNames

LEADER_SETTLES = 2
"""Complete cycles after which a new leader acts."""


class HoldKind(StrEnum):
    """Why nothing may be acted upon now."""

    NOTHING_KNOWN = "nothing-known"
    STANDING_BY = "standing-by"
    NEW_LEADER = "new-leader"
    OLD_DATA = "old-data"


@dataclass(frozen=True)
class Hold:
    """`text` is for people; `kind` is what code decides by."""

    kind: HoldKind
    text: str

    def sentence(self, otherwise: str) -> str:
        """The sentence of a cycle that did nothing: `otherwise` says what it did not do."""
        return self.text if self.kind is HoldKind.STANDING_BY else f"{otherwise}: {self.text}"


@dataclass(frozen=True)
class Known:
    """What the last complete cycle of telemetry found."""

    snapshot: Snapshot
    scores: Mapping[str, int | None]
    """0..100 by node; None where unknown."""
    label_scores: Mapping[str, float | None]
    """What labels are made from, likewise."""
    freeze: Freeze
    names: NodeNames


class Progress:
    """Replaced by the telemetry job, read by the jobs that act."""

    def __init__(self, context: Context, stale_after: float) -> None:
        """`stale_after`: age in seconds from which a snapshot is no reason to act."""
        self._context = context
        self._stale_after = stale_after
        self._led_since: int | None = None
        self.known: Known | None = None
        self.cycles = 0

    def gained(self) -> None:
        """This replica leads from now on."""
        self._led_since = self.cycles

    def lost(self) -> None:
        """Another replica may lead from now on."""
        self._led_since = None

    def finished(self, known: Known) -> None:
        """A cycle of telemetry ended."""
        self.known = known
        self.cycles += 1

    def actionable(self) -> Known | Hold:
        """What may be acted upon now, or why nothing may."""
        if self.known is None:
            return Hold(HoldKind.NOTHING_KNOWN, "no cycle of telemetry has ended yet")
        if (standing_by := self._context.leadership.standing_by()) is not None:
            return Hold(HoldKind.STANDING_BY, standing_by)
        if (waiting := settling(0 if self._led_since is None else self.cycles - self._led_since)) is not None:
            return Hold(HoldKind.NEW_LEADER, waiting)
        age = self._context.clock.wall() - self.known.snapshot.time
        if age > self._stale_after:
            return Hold(HoldKind.OLD_DATA, f"the newest cycle of telemetry is {duration(age)} old")
        return self.known


def settling(cycles: int) -> str | None:
    """Why a leader of so many complete cycles does not act yet; None once it may."""
    if cycles >= LEADER_SETTLES:
        return None
    return f"a new leader acts after {LEADER_SETTLES} complete cycles, {cycles} ended"
