"""The falls of one policy: what was allowed, how long it took to comply, and the watt-hours over.

The leader alone records them, and the next one goes on with its records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import structlog
from msgspec.structs import replace

from ballast.answers.api import FALLS_KEPT, PowerFall
from ballast.base.errors import NOT_JSON, ClusterError
from ballast.cluster.state import StateStore as Keys
from ballast.jobs.power.tick_report import TickReport

HOUR = 3600.0

NOISE = 0.02
"""A smaller part of what was allowed, less or more, is no fall."""

SAVED_EVERY = 60.0
"""Seconds between two saves, and what a crash may lose of the records."""
KEY = "power.falls."
"""Before the name of a policy."""

_audit = structlog.get_logger("audit")


@dataclass(frozen=True)
class _Level:
    """The tick before: Unix time, watts allowed and drawn."""

    at: float
    allowed: float
    drawn: float


class Falls:
    """A fall begins at a tick that allows less than before, and less than what the tick before drew.

    It ends when as much as before is allowed again, or when the next one begins. `keys` keep them over restarts; None:
    nothing does.
    """

    def __init__(self, policy: str, keys: Keys | None = None) -> None:
        self._policy = policy
        self._keys = keys
        self._key = f"{KEY}{policy}"
        self._read = keys is None
        self._saved: tuple[float, list[PowerFall]] = 0.0, []
        self._last: _Level | None = None
        self._level = 0.0
        self._open: PowerFall | None = None
        self._ended: deque[PowerFall] = deque(maxlen=FALLS_KEPT)

    def forget(self) -> None:
        """Another replica led meanwhile: its records are read before the next tick is taken."""
        if self._keys is None:
            return
        self._read, self._last, self._level, self._open = False, None, 0.0, None
        self._ended.clear()

    @property
    def newest_first(self) -> list[PowerFall]:
        """The open one, if any, and those that have ended."""
        falls = [*self._ended] if self._open is None else [*self._ended, self._open]
        return falls[: -FALLS_KEPT - 1 : -1]

    def add(self, report: TickReport) -> None:
        """Takes the report of a tick; one that does not know the watts is passed over, and so is that of a standby."""
        if report.inputs.now.standby or report.allowed is None or report.drawn is None or not self._know():
            return
        self._follow(report)
        if self._keys is not None:
            self._save(self._keys, report.inputs.now.wall)

    def _follow(self, report: TickReport) -> None:
        assert report.allowed is not None
        assert report.drawn is not None
        metered = report.inputs.watts.consumed is not None
        now = _Level(report.inputs.now.wall, float(report.allowed), float(report.drawn))
        last, self._last = self._last, now
        if last is None:
            return
        fall = self._open
        if fall is not None:
            fall = self._open = _followed(fall, last, now)
        before = max(self._level, last.allowed)
        if now.allowed < min(before * (1 - NOISE), last.drawn):
            self._end(now.at)
            watts = report.inputs.watts
            event = watts.event if watts.bound == report.allowed else None
            fall = self._open = PowerFall(
                id=event or f"{self._policy}-{now.at:.0f}",
                begin=now.at,
                end=None,
                allowed=now.allowed,
                before=before,
                drawn=now.drawn,
                seconds_to_comply=0.0 if now.drawn <= now.allowed else None,
                over_watt_hours=0.0,
                source="meter" if metered else "model",
            )
        elif fall is not None and now.allowed >= fall.before:
            self._end(now.at)
        self._level = before if before * (1 - NOISE) <= now.allowed <= before else now.allowed

    def _know(self) -> bool:
        """Reads the records of the leader before; False where they cannot be read now."""
        if self._read or self._keys is None:
            return True
        try:
            text = self._keys.read().get(self._key)
        except ClusterError:
            return False
        self._read = True
        try:
            falls = [] if text is None else msgspec.json.decode(text, type=list[PowerFall])
        except NOT_JSON as error:
            self._keys.begin_anew(self._key, text or "", error)
            falls = []
        past = self._keys.stamps(self._key).past
        falls = [
            replace(fall, begin=past(fall.begin), end=None if fall.end is None else past(fall.end)) for fall in falls
        ]
        self._saved = 0.0, falls
        if falls and falls[-1].end is None:
            fall = self._open = falls[-1]
            # What was drawn last is taken as drawn until the next tick: unknown is no better.
            level = fall.seconds_to_comply is None
            self._last = _Level(fall.begin, fall.allowed, fall.drawn) if level else None
        self._ended.extend(fall for fall in falls if fall.end is not None)
        return True

    def _save(self, keys: Keys, at: float) -> None:
        """Saves the records, where they have changed by more than what an open one has drawn."""
        falls = self.newest_first[::-1]
        if at - self._saved[0] < SAVED_EVERY or list(map(_steps, falls)) == list(map(_steps, self._saved[1])):
            return
        text = msgspec.json.encode(falls).decode()

        def change(data: dict[str, str]) -> Mapping[str, str]:
            return {**data, self._key: text}

        try:
            keys.update(change, reason=f"falls of power policy {self._policy}")
        except ClusterError:
            return
        self._saved = at, falls

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


def _steps(fall: PowerFall) -> tuple[object, ...]:
    """What of a record is worth a write."""
    return fall.id, fall.begin, fall.end, fall.seconds_to_comply


def _followed(fall: PowerFall, last: _Level, now: _Level) -> PowerFall:
    """The fall a tick later: what was drawn holds until now."""
    over = max(0.0, last.drawn - last.allowed) * max(0.0, now.at - last.at) / HOUR
    complied = fall.seconds_to_comply
    if complied is None and now.drawn <= now.allowed:
        complied = max(0.0, now.at - fall.begin)
    return replace(fall, drawn=now.drawn, seconds_to_comply=complied, over_watt_hours=fall.over_watt_hours + over)
