"""Writes against a resource version: after a conflict the object is read again and the write decided again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ballast.base.errors import ClusterError, Gone, NotFound
from ballast.cluster.write import Result, Write, WriteOutcome
from ballast.cluster.writer import Writer

S = TypeVar("S")
ATTEMPTS = 5


def retry_on_conflict(
    writer: Writer, seen: S, decide: Callable[[S], Write | WriteOutcome], read: Callable[[], S]
) -> WriteOutcome:
    """Submits the write that `decide` makes of `seen`, up to ATTEMPTS times.

    Where `decide` returns an outcome instead of a write, that is recorded and returned.
    """
    outcome: WriteOutcome | None = None
    for _ in range(ATTEMPTS):
        decided = decide(seen)
        if isinstance(decided, WriteOutcome):
            return writer.record(decided)
        outcome = writer.submit(decided)
        if outcome.result is not Result.CONFLICT:
            break
        try:
            seen = read()
        except (NotFound, Gone) as error:
            return writer.record(WriteOutcome(decided, Result.GONE, str(error), error.status))
        except ClusterError as error:
            return writer.record(WriteOutcome(decided, Result.FAILED, str(error), error.status))
    assert outcome is not None
    return outcome
