#!/usr/bin/env python3
"""Draws docs/pictures/hotspot.svg and hotspot-dark.svg from what a demo says.

ballast demo --scene hotspot --seconds 120 | this script
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from ballast_lab.experiments.figures import Sheet

OUT = Path(__file__).resolve().parents[1] / "docs" / "pictures"
EVERY = 5.0
"""Seconds between two telemetry cycles of the demo."""

SENTENCE = re.compile(r"(\w+) [\d.]+ -> ([\d.]+)")


def figure(found: dict[str, list[float]], *, dark: bool = False) -> str:
    """Standard deviations over time, one line for each resource."""
    sheet = Sheet("Evictions move pods off the hot ones of 200 nodes", dark=dark)
    for name, values in found.items():
        fall = f"{name} {values[0]:.3f} → {values[-1]:.3f} ({100 * (values[-1] / values[0] - 1):+.0f} %)"
        sheet.axes.plot([EVERY * cycle for cycle in range(len(values))], values, linewidth=3, label=fall)
    sheet.axes.set_ylim(0)
    sheet.axes.set_xlabel("seconds")
    sheet.axes.set_ylabel("standard deviation of the load")
    sheet.name_series(2)
    return sheet.svg()


def main() -> None:
    """Reads the sentences from standard input."""
    spreads: dict[str, list[float]] = {}
    for sentence in sys.stdin:
        if sentence.startswith("spread: "):
            for name, value in SENTENCE.findall(sentence):
                spreads.setdefault(name, []).append(float(value))
    for name in ("hotspot", "hotspot-dark"):
        (OUT / f"{name}.svg").write_text(figure(spreads, dark=name.endswith("dark")), encoding="utf-8")


if __name__ == "__main__":
    main()
