"""Parts of figures in SVG, and a chart of grouped bars."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760.0, 420.0
LEFT, RIGHT, TOP, BOTTOM = 72.0, 24.0, 48.0, 56.0
COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f")


def paper(title: str, height: float = HEIGHT) -> Iterator[str]:
    """A white ground with a title."""
    yield f'<rect width="{WIDTH:g}" height="{height:g}" fill="white"/>'
    yield text(LEFT, 22, title, "start", size=14)


def line(x1: float, y1: float, x2: float, y2: float, colour: str, style: str = "") -> str:
    """A straight line."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"{style}/>'


def text(x: float, y: float, words: str, anchor: str, *, fill: str = "black", size: int = 12) -> str:
    """Words at a place; `anchor` is start, middle or end."""
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}" font-size="{size}"'
    return f"<text {place}>{escape(words)}</text>"


def svg(parts: Sequence[str], height: float = HEIGHT) -> str:
    """The whole figure."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {height:g}" font-family="sans-serif">'
    return "\n".join([head, *parts, "</svg>"]) + "\n"


def dots(title: str, values: Mapping[str, Mapping[str, float]], axis: tuple[float, float]) -> str:
    """One line of dots for each key of `values`, one colour for each key below; `axis` is the range shown."""
    low, high = axis
    series = list(dict.fromkeys(name for each in values.values() for name in each))
    left, across = 190.0, WIDTH - 190.0 - RIGHT
    height = TOP + 24 + 22 * len(values) + BOTTOM

    def x(value: float) -> float:
        return left + across * (min(max(value, low), high) - low) / ((high - low) or 1.0)

    parts = list(paper(title, height))
    for number, name in enumerate(series):
        parts.append(text(left + 130 * number, TOP, f"● {name}", "start", fill=COLOURS[number % len(COLOURS)]))
    bottom = TOP + 24 + 22 * len(values)
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        value = low + share * (high - low)
        parts.append(line(x(value), TOP + 12, x(value), bottom, "#dddddd"))
        parts.append(text(x(value), bottom + 16, f"{value:.2f}", "middle"))
    for row, (label, each) in enumerate(values.items()):
        y = TOP + 30 + 22 * row
        parts.append(text(left - 8, y + 4, label, "end"))
        for number, name in enumerate(series):
            if name in each:
                colour = COLOURS[number % len(COLOURS)]
                parts.append(f'<circle cx="{x(each[name]):.1f}" cy="{y:.1f}" r="5" fill="{colour}"/>')
    return svg(parts, height)
