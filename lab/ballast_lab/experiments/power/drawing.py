"""The figure of a cloudy day: what the sun gives, and what runs."""

from __future__ import annotations

from collections.abc import Sequence

from ballast_lab.experiments.power.contestants import CONTESTANTS
from ballast_lab.experiments.power.signals import Signal
from ballast_lab.experiments.svg import BOTTOM, COLOURS, HEIGHT, LEFT, RIGHT, TOP, WIDTH, line, paper, svg, text

SHOWN = ("published", "absolute")
EVERY = 4
"""Rows from one point of a line to the next."""


def cloudy_figure(signal: Signal) -> str:
    """Watts of the feed as an area, and of the replicas as lines."""
    end = signal.rows[-1][0]
    highest = 1.1 * max(watts for _, watts in signal.rows)

    def x(at: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * at / end

    def y(watts: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - min(watts, highest) / highest)

    def points(watts: Sequence[float]) -> str:
        rows = list(zip(signal.rows, watts, strict=True))[::EVERY]
        return " ".join(f"{x(at):.1f},{y(value):.1f}" for (at, _), value in rows)

    feed = points([watts for _, watts in signal.rows])
    parts = [*paper("Twelve hours of sun with clouds: watts available, and watts of what runs")]
    parts.append(f'<polygon points="{x(0):.1f},{y(0):.1f} {feed} {x(end):.1f},{y(0):.1f}" fill="#fff0c0"/>')
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        value = share * highest
        parts.append(line(LEFT, y(value), WIDTH - RIGHT, y(value), "#dddddd"))
        parts.append(text(LEFT - 8, y(value) + 4, f"{value / 1000:.1f} kW", "end"))
    hours = range(0, round(end / 3600) + 1, 2)
    parts += [text(x(3600 * hour), HEIGHT - BOTTOM + 20, f"{hour} h", "middle") for hour in hours]
    for number, name in enumerate(SHOWN):
        drawn = [count * signal.each for count in CONTESTANTS[name](signal).totals]
        colour = COLOURS[3 if name == "published" else 0]
        parts.append(f'<polyline points="{points(drawn)}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts.append(text(LEFT + 12 + 150 * number, TOP + 4, f"— {name}", "start", fill=colour))
    parts.append(text(LEFT + 12 + 300, TOP + 4, "■ available", "start", fill="#c09000"))
    return svg(parts)
