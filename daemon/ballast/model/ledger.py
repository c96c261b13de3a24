"""What was done and missed, by hour and by day: counts that survive restarts and changes of leader."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from ballast.model.stamps import Stamps

HOUR, DAY = 3600, 86_400
HOURS, DAYS = 48, 90
"""Complete hours and days that are kept beside the present ones."""

_DIGITS = 4


class LedgerRow(msgspec.Struct, array_like=True):
    """`begin` is Unix seconds. None: nothing is known of that amount in that time.

    `would_*` are what parts in dry-run would have done and spared, had they been on; below 0 they would have added.
    """

    begin: int
    evicted: int = 0
    refused: int = 0
    failed: int = 0
    label_writes: int = 0
    predicted: float | None = None
    measured: float | None = None
    hot_node_minutes: float | None = None
    over_watt_hours: float | None = None
    unmet_watt_hours: float | None = None
    would_evict: float | None = None
    would_spare_hot_node_minutes: float | None = None
    would_spare_over_watt_hours: float | None = None
    hot_node_minutes_without: float | None = None

    def add(self, other: LedgerRow) -> None:
        """Adds the amounts of `other`; an unknown amount adds nothing and leaves what was known."""
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in AMOUNTS:
            mine, more = getattr(self, name), getattr(other, name)
            if more is not None:
                setattr(self, name, round((mine or 0.0) + more, _DIGITS))


COUNTS = ("evicted", "refused", "failed", "label_writes")
AMOUNTS = (
    "predicted",
    "measured",
    "hot_node_minutes",
    "over_watt_hours",
    "unmet_watt_hours",
    "would_evict",
    "would_spare_hot_node_minutes",
    "would_spare_over_watt_hours",
    "hot_node_minutes_without",
)


class _Stored(msgspec.Struct):
    hours: list[LedgerRow] = []
    days: list[LedgerRow] = []
    until: dict[str, float] = {}


_decoder = msgspec.json.Decoder(_Stored)


class Ledger:
    """Rows of UTC hours and days. `until` names up to which Unix time something has been counted."""

    def __init__(self) -> None:
        self._rows: dict[int, dict[int, LedgerRow]] = {HOUR: {}, DAY: {}}
        self.until: dict[str, float] = {}

    def add(self, time: float, **amounts: float) -> None:
        """Adds amounts, named as in a row, to the hour and the day of `time` (Unix seconds)."""
        for length in self._rows:
            begin = math.floor(time / length) * length
            self._put(length, LedgerRow(begin, **amounts))  # type: ignore[arg-type]

    def add_hot(self, time: float, minutes: float, without: float | None) -> None:
        """Adds hot node-minutes, as they were and as they were `without` the moves; None where that is not known.

        Both are of the same time, so that they can be compared: what is not known is no difference.
        """
        for length, rows in self._rows.items():
            begin = math.floor(time / length) * length
            row = rows.get(begin) or LedgerRow(begin)
            first = row.hot_node_minutes_without is None
            amount = None if first and without is None else minutes if without is None else without
            if amount is not None and first:
                amount += row.hot_node_minutes or 0.0
            self._put(length, LedgerRow(begin, hot_node_minutes=minutes, hot_node_minutes_without=amount))

    def absorb(self, other: Ledger) -> None:
        """Adds all rows of `other`."""
        for length, rows in other._rows.items():
            for row in rows.values():
                self._put(length, row)

    def hours(self, now: float) -> list[LedgerRow]:
        """The complete hours of two days and the present one, oldest first; none before the first that is known."""
        return self._listed(HOUR, HOURS, now)

    def days(self, now: float) -> list[LedgerRow]:
        """The complete days of ninety and the present one, likewise."""
        return self._listed(DAY, DAYS, now)

    def encode(self, *, until: bool = True) -> str:
        """Of bounded size: the newest hours and days, and what `until` says unless that is left out."""
        hours, days = self._newest(HOUR, HOURS + 1), self._newest(DAY, DAYS + 1)
        return msgspec.json.encode(_Stored(hours, days, self.until if until else {})).decode()

    @classmethod
    def decode(cls, text: str, stamps: Stamps | None = None) -> Ledger:
        """Raises ValueError for what `encode` does not write. Rows of the future count to the present ones."""
        stamps = stamps or Stamps()
        stored = _decoder.decode(text)
        ledger = cls()
        ledger.until = {name: stamps.past(at) for name, at in stored.until.items()}
        for length, rows in ((HOUR, stored.hours), (DAY, stored.days)):
            for row in rows:
                if row.begin % length:
                    raise ValueError(f"{row.begin} is no begin of {length} seconds")
                begin = stamps.past(row.begin)
                row.begin = row.begin if begin == row.begin else math.floor(begin / length) * length
                ledger._put(length, row)
        return ledger

    def _put(self, length: int, row: LedgerRow) -> None:
        rows = self._rows[length]
        rows.setdefault(row.begin, LedgerRow(row.begin)).add(row)
        most = (HOURS if length == HOUR else DAYS) + 1
        if len(rows) > 2 * most:
            self._rows[length] = {each.begin: each for each in self._newest(length, most)}

    def _newest(self, length: int, most: int) -> list[LedgerRow]:
        rows = self._rows[length]
        return [rows[begin] for begin in sorted(rows)[-most:]]

    def _listed(self, length: int, most: int, now: float) -> list[LedgerRow]:
        rows, present = self._rows[length], math.floor(now / length) * length
        oldest = min((begin for begin in rows if present - most * length <= begin <= present), default=present)
        return [rows.get(begin) or LedgerRow(begin) for begin in range(oldest, present + length, length)]


def together(ledgers: Iterable[Ledger]) -> Ledger:
    """The sums of several."""
    whole = Ledger()
    for ledger in ledgers:
        whole.absorb(ledger)
    return whole
