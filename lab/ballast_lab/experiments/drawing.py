"""The two figures of a sweep, as SVG: the best number of pods for each lambda, and the heat map over lambda and C."""

from __future__ import annotations

from collections.abc import Sequence

from ballast_lab.experiments.dominant_residual import Sweep
from ballast_lab.experiments.svg import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, line, paper, svg, text

_STOCK, _METHOD = "#d62728", "#1f77b4"
_FEW, _MANY = (247, 251, 255), (8, 48, 107)


def best_by_lambda(sweep: Sweep) -> str:
    """A line chart: for each lambda the most placed pods over all C, and kube-scheduler's as a line."""
    best = sweep.counts.max(axis=1).tolist()
    low, high = _bounds([*best, sweep.base])
    across = WIDTH - LEFT - RIGHT
    first, last = sweep.lambdas[0], sweep.lambdas[-1]

    def x(lambda_: float) -> float:
        return LEFT + 20 + (lambda_ - first) / ((last - first) or 1.0) * (across - 40)

    def y(count: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - count) / (high - low)

    points = [(x(lambda_), y(count)) for lambda_, count in zip(sweep.lambdas, best, strict=True)]
    parts = [*paper(f"Pods placed, best C for each lambda: {_where(sweep)}")]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        value = low + share * (high - low)
        parts.append(line(LEFT, y(value), WIDTH - RIGHT, y(value), "#dddddd"))
        parts.append(text(LEFT - 8, y(value) + 4, f"{value:.0f}", "end"))
    parts.append(line(LEFT, y(sweep.base), WIDTH - RIGHT, y(sweep.base), _STOCK, ' stroke-dasharray="6 4"'))
    parts.append(text(WIDTH - RIGHT, y(sweep.base) - 6, f"kube-scheduler {sweep.base:.0f}", "end", fill=_STOCK))
    path = " ".join(f"{across:.1f},{down:.1f}" for across, down in points)
    parts.append(f'<polyline points="{path}" fill="none" stroke="{_METHOD}" stroke-width="2"/>')
    for (across, down), lambda_, count in zip(points, sweep.lambdas, best, strict=True):
        parts.append(f'<circle cx="{across:.1f}" cy="{down:.1f}" r="4" fill="{_METHOD}"/>')
        parts.append(text(across, down - 10, f"{count:.0f}", "middle"))
        parts.append(text(across, HEIGHT - BOTTOM + 20, f"{lambda_:g}", "middle"))
    parts.append(text(WIDTH / 2, HEIGHT - 12, "lambda", "middle"))
    return svg(parts)


def heat_map(sweep: Sweep) -> str:
    """A heat map: the placed pods for each lambda and C."""
    counts = sweep.counts
    low, high = float(counts.min()), float(counts.max())
    width = (WIDTH - LEFT - RIGHT) / len(sweep.cs)
    height = (HEIGHT - TOP - BOTTOM) / len(sweep.lambdas)
    parts = [*paper(f"Pods placed; kube-scheduler {sweep.base:.0f}: {_where(sweep)}")]
    for row, lambda_ in enumerate(sweep.lambdas):
        top = TOP + (len(sweep.lambdas) - 1 - row) * height
        parts.append(text(LEFT - 8, top + height / 2 + 4, f"{lambda_:g}", "end"))
        for column in range(len(sweep.cs)):
            count = float(counts[row, column])
            share = (count - low) / ((high - low) or 1.0)
            left = LEFT + column * width
            parts.append(
                f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{_shade(share)}"/>'
            )
            ink = "white" if share > 0.5 else "black"
            parts.append(text(left + width / 2, top + height / 2 + 4, f"{count:.0f}", "middle", fill=ink))
    for column, c in enumerate(sweep.cs):
        parts.append(text(LEFT + (column + 0.5) * width, HEIGHT - BOTTOM + 20, f"{c:g}", "middle"))
    parts.append(text(WIDTH / 2, HEIGHT - 12, "C", "middle"))
    parts.append(text(16, TOP - 8, "lambda", "start"))
    return svg(parts)


def _where(sweep: Sweep) -> str:
    names = ", ".join(dict.fromkeys(place.world for place in sweep.places))
    seeds = len({place.seed for place in sweep.places})
    return f"{names}, seed {sweep.places[0].seed}" if seeds == 1 else f"{names}, mean of {seeds} lists of pods"


def _bounds(values: Sequence[float]) -> tuple[float, float]:
    """The axis from a multiple of 20 at or below all values to one above them."""
    return 20.0 * (min(values) // 20), 20.0 * (max(values) // 20 + 2)


def _shade(share: float) -> str:
    return "#" + "".join(f"{round(few + share * (many - few)):02x}" for few, many in zip(_FEW, _MANY, strict=True))
