"""A write against the version that was seen: when someone else was first, it is read again and decided anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ballast.cluster.write import Result, Write, WriteOutcome
from ballast.cluster.writer import Writer
from ballast.errors import ClusterError, Gone, NotFound

S = TypeVar("S")
ATTEMPTS = 5


def retry_on_conflict(
    writer: Writer, seen: S, decide: Callable[[S], Write | WriteOutcome], read: Callable[[], S]
) -> WriteOutcome:
    """Submits what `decide` makes of what was seen, or ends with the outcome that it answers, which is recorded."""
    outcome: WriteOutcome | None = None
    for _ in range(ATTEMPTS):
        decided = decide(seen)
        if isinstance(decided, WriteOutcome):
            return writer.tell(decided)
        outcome = writer.submit(decided)
        if outcome.result is not Result.CONFLICT:
            break
        try:
            seen = read()
        except (NotFound, Gone) as error:
            return writer.tell(WriteOutcome(decided, Result.GONE, str(error), error.status))
        except ClusterError as error:
            return writer.tell(WriteOutcome(decided, Result.FAILED, str(error), error.status))
    assert outcome is not None
    return outcome
