#!/usr/bin/env python3
"""Draws docs/pictures/hotspot.svg from what a demo says: ballast demo --scene hotspot --seconds 120 | this script."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from ballast_lab.experiments.svg import BOTTOM, COLOURS, HEIGHT, LEFT, RIGHT, TOP, WIDTH, line, paper, svg, text

OUT = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "hotspot.svg"
EVERY = 5.0
"""Seconds between two telemetry cycles of the demo."""

SENTENCE = re.compile(r"(\w+) [\d.]+ -> ([\d.]+)")


def figure(spreads: dict[str, list[float]]) -> str:
    """Standard deviations over time, one line for each resource."""
    cycles = max(map(len, spreads.values()))
    highest = 1.1 * max(map(max, spreads.values()))
    across, down = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(cycle: float) -> float:
        return LEFT + across * cycle / max(1, cycles - 1)

    def y(value: float) -> float:
        return TOP + down * (1 - value / highest)

    parts = list(paper("SpreadChange of the load between 200 nodes: evictions move pods off hot ones"))
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        value = share * highest / 1.1
        parts += [line(LEFT, y(value), WIDTH - RIGHT, y(value), "#dddddd")]
        parts += [text(LEFT - 8, y(value) + 4, f"{value:.2f}", "end")]
        seconds = share * (cycles - 1) * EVERY
        parts += [text(x(seconds / EVERY), HEIGHT - BOTTOM + 18, f"{seconds:.0f} s", "middle")]
    for number, (name, values) in enumerate(spreads.items()):
        points = " ".join(f"{x(cycle):.1f},{y(value):.1f}" for cycle, value in enumerate(values))
        parts += [f'<polyline points="{points}" fill="none" stroke="{COLOURS[number]}" stroke-width="3"/>']
        fall = f"{name} {values[0]:.3f} → {values[-1]:.3f} ({100 * (values[-1] / values[0] - 1):+.0f} %)"
        parts += [text(WIDTH - RIGHT, y(values[-1]) - 10, fall, "end", fill=COLOURS[number], size=14)]
    parts.append(text(LEFT, HEIGHT - 10, "standard deviation of the load, share of allocatable", "start"))
    return svg(parts)


def main() -> None:
    """Reads the sentences from standard input."""
    spreads: dict[str, list[float]] = {}
    for sentence in sys.stdin:
        if sentence.startswith("spread: "):
            for name, value in SENTENCE.findall(sentence):
                spreads.setdefault(name, []).append(float(value))
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(figure(spreads), encoding="utf-8")


if __name__ == "__main__":
    main()
