"""What each attack of lab/ballast_lab/hostile costs the daemon: the time of others' requests, and memory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from ballast_lab.bench.rows import Row
from ballast_lab.hostile.attacks import ATTACKS
from ballast_lab.hostile.measuring import LIVEZ, P99, Outcome, attacked_by
from ballast_lab.hostile.victim import cluster

REACH = "alive; prioritize p99 ≤ 250 ms; `/livez` ≤ 1 s; at most 512 MiB; memory within 10 % a minute later"
QUICK = {"names": ("none, for comparison", "many headers", "unfinished bodies", "many nodes")}


def measure(names: Iterable[str] = tuple(ATTACKS)) -> list[Row]:
    """A daemon of its own for each attack, beside an embedded cluster of 200 nodes."""
    with tempfile.TemporaryDirectory(prefix="ballast-hostile-") as folder, cluster(Path(folder)) as environment:
        return [_row(name, attacked_by(ATTACKS[name], environment, Path(folder))) for name in names]


def _row(name: str, found: Outcome) -> Row:
    missed = [
        said
        for said, fits in (
            ("p99", found.p99 <= P99),
            ("livez", found.livez <= LIVEZ),
            ("512 MiB", found.bounded),
            ("memory", found.given_back),
            (f"{len(found.failed)} answers", not found.failed),
        )
        if not fits
    ]
    return {
        "what": f"attack: {name}",
        "at": "200 nodes, as long as 4 s",
        "reach": REACH,
        "measured": f"{found}; load average {os.getloadavg()[0]:.1f}",
        "verdict": f"not: {', '.join(missed)}" if missed else "met",
    }
