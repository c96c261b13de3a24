"""The falls of one policy: what was allowed, how long it took to comply, and the watt-hours over."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import structlog
from msgspec.structs import replace

from ballast.answers.api import FALLS_KEPT, PowerFall
from ballast.jobs.power.report import TickReport

HOUR = 3600.0
_audit = structlog.get_logger("audit")


@dataclass(frozen=True)
class _Level:
    """The tick before: Unix time, watts allowed and drawn."""

    at: float
    allowed: float
    drawn: float


class Falls:
    """A fall begins at a tick that allows less than what the tick before drew. It ends when what was allowed before it
    is allowed again, or when the next one begins.
    """

    def __init__(self, policy: str) -> None:
        self._policy = policy
        self._number = 0
        self._last: _Level | None = None
        self._open: PowerFall | None = None
        self._ended: deque[PowerFall] = deque(maxlen=FALLS_KEPT)

    @property
    def newest_first(self) -> list[PowerFall]:
        """The open one, if any, and those that have ended."""
        falls = [*self._ended] if self._open is None else [*self._ended, self._open]
        return falls[: -FALLS_KEPT - 1 : -1]

    def add(self, report: TickReport) -> None:
        """Takes the report of a tick; one that does not know the watts is passed over."""
        if report.allowed is None or report.drawn is None:
            return
        metered = report.inputs.watts.consumed is not None
        now = _Level(report.inputs.now.wall, float(report.allowed), float(report.drawn))
        last, self._last = self._last, now
        if last is None:
            return
        fall = self._open
        if fall is not None:
            fall = self._open = _followed(fall, last, now)
        if now.allowed < min(last.allowed, last.drawn):
            self._end(now.at)
            self._number += 1
            fall = self._open = PowerFall(
                id=f"{self._policy}-{self._number}",
                begin=now.at,
                end=None,
                allowed=now.allowed,
                before=last.allowed,
                drawn=now.drawn,
                seconds_to_comply=0.0 if now.drawn <= now.allowed else None,
                over_watt_hours=0.0,
                source="meter" if metered else "model",
            )
        elif fall is not None and now.allowed >= fall.before:
            self._end(now.at)

    def _end(self, at: float) -> None:
        if self._open is None:
            return
        fall, self._open = replace(self._open, end=at), None
        self._ended.append(fall)
        complied = fall.seconds_to_comply
        _audit.info(
            f"fall {fall.id}: {fall.before:.0f} W to {fall.allowed:.0f} W, "
            + ("not complied with" if complied is None else f"complied with after {complied:.0f} s"),
            part="power",
            kind="fall",
            target=self._policy,
            begin=fall.begin,
            end=at,
            drawn=fall.drawn,
            over_watt_hours=fall.over_watt_hours,
            source=fall.source,
        )


def _followed(fall: PowerFall, last: _Level, now: _Level) -> PowerFall:
    """The fall a tick later: what was drawn holds until now."""
    over = max(0.0, last.drawn - last.allowed) * (now.at - last.at) / HOUR
    complied = fall.seconds_to_comply
    if complied is None and now.drawn <= now.allowed:
        complied = now.at - fall.begin
    return replace(fall, drawn=now.drawn, seconds_to_comply=complied, over_watt_hours=fall.over_watt_hours + over)
