"""The two figures of a sweep, as SVG: the best number of pods for each lambda, and the heat map over lambda and C."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from ballast.experiments.dominant_residual import Sweep

_WIDTH, _HEIGHT = 760.0, 420.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 72.0, 24.0, 48.0, 56.0
_STOCK, _METHOD = "#d62728", "#1f77b4"
_FEW, _MANY = (247, 251, 255), (8, 48, 107)


def best_by_lambda(sweep: Sweep) -> str:
    """A line chart: for each lambda the most placed pods over all C, and kube-scheduler's as a line."""
    best = sweep.counts.max(axis=1).tolist()
    low, high = _bounds([*best, sweep.base])
    across = _WIDTH - _LEFT - _RIGHT
    first, last = sweep.lambdas[0], sweep.lambdas[-1]

    def x(lambda_: float) -> float:
        return _LEFT + 20 + (lambda_ - first) / ((last - first) or 1.0) * (across - 40)

    def y(count: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (high - count) / (high - low)

    points = [(x(lambda_), y(count)) for lambda_, count in zip(sweep.lambdas, best, strict=True)]
    parts = [*_paper(f"Pods placed, best C for each lambda: {_where(sweep)}")]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        value = low + share * (high - low)
        parts.append(_line(_LEFT, y(value), _WIDTH - _RIGHT, y(value), "#dddddd"))
        parts.append(_text(_LEFT - 8, y(value) + 4, f"{value:.0f}", "end"))
    parts.append(_line(_LEFT, y(sweep.base), _WIDTH - _RIGHT, y(sweep.base), _STOCK, ' stroke-dasharray="6 4"'))
    parts.append(_text(_WIDTH - _RIGHT, y(sweep.base) - 6, f"kube-scheduler {sweep.base:.0f}", "end", fill=_STOCK))
    path = " ".join(f"{across:.1f},{down:.1f}" for across, down in points)
    parts.append(f'<polyline points="{path}" fill="none" stroke="{_METHOD}" stroke-width="2"/>')
    for (across, down), lambda_, count in zip(points, sweep.lambdas, best, strict=True):
        parts.append(f'<circle cx="{across:.1f}" cy="{down:.1f}" r="4" fill="{_METHOD}"/>')
        parts.append(_text(across, down - 10, f"{count:.0f}", "middle"))
        parts.append(_text(across, _HEIGHT - _BOTTOM + 20, f"{lambda_:g}", "middle"))
    parts.append(_text(_WIDTH / 2, _HEIGHT - 12, "lambda", "middle"))
    return _svg(parts)


def heat_map(sweep: Sweep) -> str:
    """A heat map: the placed pods for each lambda and C."""
    counts = sweep.counts
    low, high = float(counts.min()), float(counts.max())
    width = (_WIDTH - _LEFT - _RIGHT) / len(sweep.cs)
    height = (_HEIGHT - _TOP - _BOTTOM) / len(sweep.lambdas)
    parts = [*_paper(f"Pods placed; kube-scheduler {sweep.base:.0f}: {_where(sweep)}")]
    for row, lambda_ in enumerate(sweep.lambdas):
        top = _TOP + (len(sweep.lambdas) - 1 - row) * height
        parts.append(_text(_LEFT - 8, top + height / 2 + 4, f"{lambda_:g}", "end"))
        for column in range(len(sweep.cs)):
            count = float(counts[row, column])
            share = (count - low) / ((high - low) or 1.0)
            left = _LEFT + column * width
            parts.append(
                f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{_shade(share)}"/>'
            )
            ink = "white" if share > 0.5 else "black"
            parts.append(_text(left + width / 2, top + height / 2 + 4, f"{count:.0f}", "middle", fill=ink))
    for column, c in enumerate(sweep.cs):
        parts.append(_text(_LEFT + (column + 0.5) * width, _HEIGHT - _BOTTOM + 20, f"{c:g}", "middle"))
    parts.append(_text(_WIDTH / 2, _HEIGHT - 12, "C", "middle"))
    parts.append(_text(16, _TOP - 8, "lambda", "start"))
    return _svg(parts)


def _where(sweep: Sweep) -> str:
    names = ", ".join(dict.fromkeys(place.world for place in sweep.places))
    seeds = len({place.seed for place in sweep.places})
    return f"{names}, seed {sweep.places[0].seed}" if seeds == 1 else f"{names}, mean of {seeds} lists of pods"


def _bounds(values: Sequence[float]) -> tuple[float, float]:
    """The axis from a multiple of 20 at or below all values to one above them."""
    return 20.0 * (min(values) // 20), 20.0 * (max(values) // 20 + 2)


def _shade(share: float) -> str:
    return "#" + "".join(f"{round(few + share * (many - few)):02x}" for few, many in zip(_FEW, _MANY, strict=True))


def _paper(title: str) -> Iterator[str]:
    yield f'<rect width="{_WIDTH:g}" height="{_HEIGHT:g}" fill="white"/>'
    yield _text(_LEFT, 22, title, "start", size=14)


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, style: str = "") -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"{style}/>'


def _text(x: float, y: float, text: str, anchor: str, *, fill: str = "black", size: int = 12) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}" font-size="{size}">{escape(text)}</text>'
    )


def _svg(parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" font-family="sans-serif">'
    return "\n".join([head, *parts, "</svg>"]) + "\n"
