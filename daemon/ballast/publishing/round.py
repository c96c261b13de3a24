"""One round of writes on nodes, one after the other, for as long as the round may take."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ballast.base.clock import Clock
from ballast.cluster.write import Result, WriteOutcome
from ballast.cluster.writer import Writer

_FAILURES = 3
_BUSY_SHARE = 0.9

Change = TypeVar("Change")


@dataclass
class Round:
    """What one round came to, in nodes: planned, written, left for the next round, failed; why it ended early.

    `problem` is the first failure.
    """

    planned: int = field(default=0, compare=False)
    written: int = 0
    waiting: int = 0
    failed: int = 0
    problem: str | None = None
    stopped: str | None = None
    failures: set[str] = field(default_factory=set, compare=False)


def send(
    changes: Sequence[Change],
    write: Callable[[Change, float], WriteOutcome],
    *,
    clock: Clock,
    writer: Writer,
    interval: float,
    stop: threading.Event,
) -> Round:
    """`write` sends one change before a deadline; `failures` are the names of nodes whose write failed.

    Ends after most of an `interval`, where the writer refuses, or after some failures in a row.
    """
    result = Round(planned=len(changes))
    time = _BUSY_SHARE * interval
    deadline, until = clock.monotonic() + time, writer.within(time / clock.speed)
    in_a_row = 0
    for index, change in enumerate(changes):
        if stop.is_set() or clock.monotonic() >= deadline:
            result.waiting = len(changes) - index
            break
        outcome = write(change, until)
        if outcome.result is Result.REFUSED:
            result.stopped = outcome.reason
            if outcome.too_late:
                result.waiting = len(changes) - index
            break
        if outcome.result is Result.FAILED:
            result.failed += 1
            result.failures.add(outcome.write.target.name)
            result.problem = result.problem or outcome.reason
            in_a_row += 1
            if in_a_row >= _FAILURES:
                result.waiting = len(changes) - index - 1
                break
        else:
            in_a_row = 0
            result.written += outcome.result in (Result.DONE, Result.DRY_RUN)
    return result
