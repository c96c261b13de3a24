"""Draws a replay: watts, reference and dead band above, replicas below, open windows shaded."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from ballast.power.controller_state import ControllerMode
from ballast.power.policy import PowerPolicy
from ballast.power.replay import Replay, Tick

_WIDTH, _PANEL, _LEFT, _RIGHT, _TOP, _GAP, _BOTTOM = 960.0, 220.0, 64.0, 20.0, 40.0, 36.0, 48.0
_HEIGHT = _TOP + 2 * _PANEL + _GAP + _BOTTOM
_COLOURS = {"watts": "#1f77b4", "reference": "#d62728", "replicas": "#2ca02c", "window open": "#bbbbbb"}


@dataclass(frozen=True, slots=True)
class _Panel:
    """Maps a time and a value to coordinates; both axes start at 0."""

    top: float
    end: float
    highest: float
    unit: str

    def x(self, t: float) -> float:
        """The coordinate of a time in seconds."""
        return _LEFT + t / self.end * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        """The coordinate of a value in the unit of the panel."""
        return self.top + _PANEL * (1 - value / self.highest)

    def axis(self) -> Iterator[str]:
        """The grid lines with their labels, and the unit."""
        for share in (0.0, 0.25, 0.5, 0.75, 1.0):
            value, y = share * self.highest, self.y(share * self.highest)
            yield f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>'
            yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.4g}</text>'
        yield f'<text x="{_LEFT}" y="{self.top - 6:.1f}">{self.unit}</text>'


def drawing(replay: Replay, policy: PowerPolicy) -> str:
    """The chart of a replay as an SVG document."""
    ticks = [tick for tick in replay.ticks if tick.t is not None and tick.t >= 0]
    end = max((_t(tick) for tick in ticks), default=0.0) or 1.0
    power = [float(value) for tick in ticks for value in (tick.watts, tick.reference) if value is not None]
    upper = _Panel(_TOP, end, 1.1 * max(power, default=0.0) or 1.0, "watts")
    most = max((float(tick.total) for tick in ticks), default=0.0)
    lower = _Panel(_TOP + _PANEL + _GAP, end, 1.1 * most or 1.0, "replicas")
    reference = [(_t(tick), None if tick.reference is None else float(tick.reference)) for tick in ticks]
    watts = [(_t(tick), None if tick.watts is None else float(tick.watts)) for tick in ticks]
    base, band = float(policy.base_power), float(policy.deadband)
    edges = [
        _steps([(t, None if value is None else base + (value - base) * factor) for t, value in reference])
        for factor in (1 + band, 1 - band)
    ]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{_WIDTH:g}" height="{_HEIGHT:g}" fill="white"/>',
        f'<text x="{_LEFT}" y="18" font-size="14">{escape(_title(replay, policy))}</text>',
        *_windows(ticks, upper),
        *upper.axis(),
        *lower.axis(),
        *(_path(upper, edge, "reference", dashed=True) for edge in edges),
        _path(upper, _steps(reference), "reference"),
        _path(upper, watts, "watts"),
        _path(lower, _steps([(_t(tick), float(tick.total)) for tick in ticks]), "replicas"),
        *_legend(),
        f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 12}" text-anchor="end">{end:g} s</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _title(replay: Replay, policy: PowerPolicy) -> str:
    after = " (as published)" if policy.paper else ""
    return f"{policy.name}{after}: {replay.actions} actions, {replay.cancels} cancels"


def _windows(ticks: Sequence[Tick], panel: _Panel) -> Iterator[str]:
    """One shaded area per window, from the tick that opens it to the tick that closes it."""
    opened: float | None = None
    for tick in ticks:
        if tick.state is not ControllerMode.STABLE and opened is None:
            opened = _t(tick)
        elif tick.state is ControllerMode.STABLE and opened is not None:
            yield _shade(panel, opened, _t(tick))
            opened = None
    if opened is not None:
        yield _shade(panel, opened, panel.end)


def _shade(panel: _Panel, start: float, end: float) -> str:
    x, width = panel.x(start), panel.x(end) - panel.x(start)
    height = 2 * _PANEL + _GAP
    colour = _COLOURS["window open"]
    return f'<rect x="{x:.1f}" y="{_TOP}" width="{width:.1f}" height="{height}" fill="{colour}" fill-opacity="0.35"/>'


def _path(panel: _Panel, points: Sequence[tuple[float, float | None]], what: str, *, dashed: bool = False) -> str:
    """A line, with gaps where there is no value."""
    commands, pen = [], "M"
    for t, value in points:
        if value is None:
            pen = "M"
        else:
            commands.append(f"{pen}{panel.x(t):.1f} {panel.y(value):.1f}")
            pen = "L"
    style = 'stroke-width="0.7" stroke-dasharray="3 3"' if dashed else 'stroke-width="1.5"'
    return f'<path d="{"".join(commands)}" fill="none" stroke="{_COLOURS[what]}" {style}/>'


def _steps(points: Sequence[tuple[float, float | None]]) -> list[tuple[float, float | None]]:
    """The points of a step function: each value holds until the next."""
    corners: list[tuple[float, float | None]] = []
    for t, value in points:
        if corners:
            corners.append((t, corners[-1][1]))
        corners.append((t, value))
    return corners


def _legend() -> Iterator[str]:
    for index, (what, colour) in enumerate(_COLOURS.items()):
        x, y = _LEFT + 130 * index, _HEIGHT - 12
        yield f'<rect x="{x}" y="{y - 9}" width="12" height="9" fill="{colour}"/>'
        yield f'<text x="{x + 18}" y="{y}">{what}</text>'


def _t(tick: Tick) -> float:
    return float(tick.t or 0)
