"""The figures of the genetic experiment as SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 760.0, 380.0, 64.0, 48.0, 48.0
_COLOURS = {"default": "#d62728", "paper": "#1f77b4", "ours": "#2ca02c", "repair": "#1f77b4", "penalty": "#d62728"}
_NAMES = {"repair": "check dictionary", "penalty": "penalty", "paper": "genetic-paper"}


def figures(
    curves: Mapping[str, Sequence[float]], bars: Mapping[str, Mapping[str, Sequence[float]]]
) -> Mapping[str, str]:
    """SVG texts by file name; `curves` by generation in percentage points, `bars` by node in percent."""
    drawn = {"figure-2-generations.svg": _lines("Best deviation by generation, points", curves)}
    for name, groups in bars.items():
        drawn[f"{name}.svg"] = _bars(f"{name.replace('-', ' ').capitalize()}, percent by node", groups)
    return drawn


def _lines(title: str, curves: Mapping[str, Sequence[float]]) -> str:
    values = [each for curve in curves.values() for each in curve if math.isfinite(each)]
    # The first generations are far off; the figure begins where most of the curve is.
    top = sorted(values)[int(0.97 * (len(values) - 1))] if values else 1.0
    length = max((len(curve) for curve in curves.values()), default=1)
    parts = _frame(title, top, curves)
    for name, curve in curves.items():
        points = [
            f"{_LEFT + (_WIDTH - _LEFT - 24) * row / max(1, length - 1):.1f},{_y(min(each, top), top):.1f}"
            for row, each in enumerate(curve)
            if math.isfinite(each)
        ]
        style = f'fill="none" stroke="{_COLOURS[name]}" stroke-width="2"'
        parts.append(f'<polyline points="{" ".join(points)}" {style}/>')
    parts.append(_text(_WIDTH / 2, _HEIGHT - 14, f"generation, 1 to {length}", "middle"))
    return _svg(parts)


def _bars(title: str, groups: Mapping[str, Sequence[float]]) -> str:
    top = max((each for values in groups.values() for each in values), default=1.0) * 1.05
    nodes = max((len(values) for values in groups.values()), default=1)
    wide = (_WIDTH - _LEFT - 24) / max(1, nodes)
    bar = 0.8 * wide / max(1, len(groups))
    parts = _frame(title, top, groups)
    for place, (name, values) in enumerate(groups.items()):
        for node, each in enumerate(values):
            left, high = _LEFT + node * wide + 0.1 * wide + place * bar, _y(each, top)
            parts.append(
                f'<rect x="{left:.1f}" y="{high:.1f}" width="{bar:.1f}" height="{_HEIGHT - _BOTTOM - high:.1f}" '
                f'fill="{_COLOURS[name]}"/>'
            )
    for node in range(nodes):
        parts.append(_text(_LEFT + (node + 0.5) * wide, _HEIGHT - _BOTTOM + 18, f"Node{node + 1}", "middle"))
    return _svg(parts)


def _frame(title: str, top: float, names: Mapping[str, object]) -> list[str]:
    parts = [f'<rect width="{_WIDTH:g}" height="{_HEIGHT:g}" fill="white"/>', _text(_LEFT, 22, title, "start")]
    for number, name in enumerate(names):
        parts.append(_text(_LEFT + 150 * number, 40, _NAMES.get(name, name), "start", _COLOURS[name]))
    for share in (0.0, 0.5, 1.0):
        y = _y(share * top, top)
        parts.append(f'<line x1="{_LEFT:g}" y1="{y:.1f}" x2="{_WIDTH - 24:g}" y2="{y:.1f}" stroke="#dddddd"/>')
        parts.append(_text(_LEFT - 8, y + 4, f"{share * top:.3g}", "end"))
    return parts


def _y(value: float, top: float) -> float:
    return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * value / (top or 1.0)


def _text(x: float, y: float, text: str, anchor: str, fill: str = "black") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}" font-size="12">{escape(text)}</text>'


def _svg(parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" font-family="sans-serif">'
    return "\n".join([head, *parts, "</svg>"]) + "\n"
