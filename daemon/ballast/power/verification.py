"""Whether the measured draw moves as predicted after each action."""

from collections.abc import Mapping
from dataclasses import dataclass

from ballast.power.policy import PowerPolicy

NOTICEABLE = 0.05
"""Smallest predicted change, as a share of the draw, that stands out from noise."""

MOVED = 0.3
"""Share of the predicted change that must be measured."""

SAMPLES = 20
"""Measurements in which it must come."""

LEAST = 60.0
"""Seconds in which it must come, added to twice the range that the meter averages over."""


@dataclass(frozen=True, slots=True)
class MissedEffect:
    """An action whose effect did not come: watts, signed, and the seconds that were waited."""

    at: float
    before: float
    predicted: float
    moved: float
    waited: float

    @property
    def text(self) -> str:
        """What should have happened, and what did."""
        return (
            f"a change of {self.predicted:+.0f} W was predicted, {self.moved:+.0f} W were measured after "
            f"{self.waited / 60:.0f} min; check consumption and wattsPerReplica"
        )

    @property
    def stops(self) -> bool:
        """Whether nothing more is done: more reductions would take away replicas and save nothing."""
        return self.predicted < 0


@dataclass(slots=True)
class _Pending:
    at: float
    before: float
    predicted: float
    since: float
    """Seconds from which on nothing keeps the effect from coming."""
    samples: int = 0


class Verification:
    """Judges every action whose predicted change is large enough to be seen, `averaged` seconds being the meter's.

    What does not come is `missed` until it comes after all, another action has its effect, or `reset`. A change by
    someone else ends a judgement, since it can no longer be told whose effect is seen.
    """

    def __init__(self, averaged: float = 0.0) -> None:
        self._patience = LEAST + 2 * averaged
        self._pending: list[_Pending] = []
        self._newest: float | None = None
        self.missed: MissedEffect | None = None
        """The newest action without an effect."""

    def reset(self) -> None:
        """Nothing is expected any more."""
        self._pending.clear()
        self.missed = None

    def acted(self, at: float, predicted: float) -> None:
        """Replicas were changed at `at` (seconds) so that the draw should move by `predicted` watts."""
        self._pending = [pending for pending in self._pending if pending.predicted * predicted > 0]
        if self._newest is not None and abs(predicted) >= NOTICEABLE * self._newest and predicted:
            self._pending.append(_Pending(at, self._newest, predicted, at))

    def disturbed(self) -> None:
        """Someone else changed what runs."""
        self._pending.clear()

    def measure(self, at: float, consumption: float, *, ending: bool = False) -> None:
        """`consumption` watts were measured at `at` (seconds); `ending`: removed pods have not ended and still draw."""
        self._newest = consumption
        if self.missed is not None and _came(self.missed.before, self.missed.predicted, consumption):
            self.missed = None
        left = []
        for pending in self._pending:
            pending.samples += 1
            if ending and pending.predicted < 0:
                pending.samples, pending.since = 0, at
            if _came(pending.before, pending.predicted, consumption):
                self.missed = None
            elif pending.samples > SAMPLES and at - pending.since >= self._patience:
                moved = consumption - pending.before
                self.missed = MissedEffect(pending.at, pending.before, pending.predicted, moved, at - pending.at)
            else:
                left.append(pending)
        self._pending = left


def predicted_change(policy: PowerPolicy, changes: Mapping[str, int]) -> float:
    """Watts by which these changes of replicas, by namespace/name, move the draw."""
    return float(sum(policy.places[name].member.watts * count for name, count in changes.items()))


def _came(before: float, predicted: float, consumption: float) -> bool:
    moved = consumption - before
    return moved * predicted > 0 and abs(moved) >= MOVED * abs(predicted)
