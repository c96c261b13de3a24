"""The ledger as this replica can tell it: what it counts as leader, else what the leader has saved."""

from collections.abc import Callable, Sequence

from ballast.actuation.eviction.records import TALLY
from ballast.answers.ledger_answer import LedgerAnswer, LedgerEntry
from ballast.cluster.context import Context
from ballast.cluster.ledger_book import KEY, saved_ledger
from ballast.model.ledger import Ledger, LedgerRow, together

READ_EVERY = 5.0
"""Seconds for which a standby goes by what it has read of `ballast-state`."""


class LedgerReader:
    """Any thread may call it."""

    def __init__(self, context: Context, tally: Callable[[], Ledger | None]) -> None:
        """`tally`: what this replica counts of evictions as leader; None while it has not read what was before."""
        self._context, self._tally = context, tally
        self._read: tuple[float, Ledger] | None = None

    def __call__(self) -> LedgerAnswer:
        """`/api/v1/ledger`. Raises ClusterError where `ballast-state` cannot be read."""
        ledger, now = self._ledger(), self._context.clock.wall()
        return LedgerAnswer(hours=_entries(ledger.hours(now)), days=_entries(ledger.days(now)))

    def _ledger(self) -> Ledger:
        context = self._context
        if not context.acting:
            return context.ledger.uncounted()
        if not context.leadership.is_leader():
            return self._saved()
        counted, tally = context.ledger.current(), self._tally()
        return together([counted, saved_ledger(context.state, context.state.read(), TALLY) if tally is None else tally])

    def _saved(self) -> Ledger:
        now = self._context.machine_clock.monotonic()
        if self._read is None or now - self._read[0] >= READ_EVERY:
            state = self._context.state
            keys = state.read()
            self._read = now, together([saved_ledger(state, keys, key) for key in (KEY, TALLY)])
        return self._read[1]


def _entries(rows: Sequence[LedgerRow]) -> list[LedgerEntry]:
    names = LedgerRow.__struct_fields__
    return [LedgerEntry(**{name: getattr(row, name) for name in names}) for row in rows]
