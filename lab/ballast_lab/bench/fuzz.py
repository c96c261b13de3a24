"""Mutated input for every decoder and parser: what escapes as another error than the one that is promised."""

from __future__ import annotations

from ballast_lab.bench.rows import Row, all_equal
from ballast_lab.fuzz.running import escapes
from ballast_lab.fuzz.targets import TARGETS

QUICK = {"cases": 20_000}


def measure(cases: int = 1_000_000, seed: int = 77) -> list[Row]:
    found = sum(1 for _ in escapes(cases, seed, list(TARGETS)))
    return [
        {
            "what": "mutated input: errors that escape",
            "at": f"{cases:,} cases, {len(TARGETS)} decoders and parsers, seed {seed}",
            "reach": "0 in 1,000,000",
            "measured": str(found),
            "verdict": all_equal([found], 0),
        }
    ]
