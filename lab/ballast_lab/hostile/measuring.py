"""One attack on one daemon: whether it lives, how fast it answers meanwhile, what memory it keeps."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ballast_lab.harness.waiting import eventually
from ballast_lab.hostile.attacks import Attack
from ballast_lab.hostile.victim import LIMIT, Victim, victim

P99 = 250.0
LIVEZ = 1000.0
"""Milliseconds."""
SLACK = 4
"""A busy machine may take that many times as long."""
LASTS = 4.0
"""Seconds; an attack that is over sooner is repeated."""
NOISE = 24 * 2**20
"""Bytes that a young daemon may grow by itself meanwhile."""


@dataclass(frozen=True)
class Outcome:
    """Milliseconds, bytes resident, and the sums of the scores that a genuine pod is told before and after."""

    p99: float
    livez: float
    small: int
    peak: int
    kept: int
    failed: tuple[str, ...]
    before: int
    after: int

    @property
    def given_back(self) -> bool:
        """Within a minute, but for a tenth."""
        return self.kept <= self.small + max(0.1 * self.small, NOISE)

    @property
    def bounded(self) -> bool:
        """What was never resident cannot be killed for it."""
        return self.peak <= LIMIT

    def __str__(self) -> str:
        first, most, then = (f"{size / 2**20:.0f}" for size in (self.small, self.peak, self.kept))
        return f"p99 {self.p99:.0f} ms, livez {self.livez:.0f} ms, MiB {first}, {most} at most, then {then}"


def attacked_by(attack: Attack, environment: Mapping[str, str], folder: Path, **settings: str) -> Outcome:
    """Raises AssertionError where the daemon does not live through it."""
    with victim(folder, environment, **settings) as attacked:
        before = eventually("all nodes are known", lambda: _scored(attacked), every=0.2)
        _, small = attacked.resident()
        with attacked.watched() as seen:
            until = time.monotonic() + LASTS
            while time.monotonic() < until and attacked.alive:
                attack(attacked)
        assert attacked.alive
        peak, _ = attacked.resident()
        with contextlib.suppress(AssertionError):
            eventually(
                "the memory is given back", lambda: attacked.resident()[1] <= small + max(0.1 * small, NOISE), every=0.5
            )
        after, (_, kept) = attacked.scores(), attacked.resident()
    return Outcome(
        seen.p99, max(seen.livez), small, peak, kept, tuple(seen.failed), sum(before.values()), sum(after.values())
    )


def _scored(of: Victim) -> dict[str, int]:
    found = of.scores()
    assert len(set(found.values())) > 1, "no node is known yet"
    return found
