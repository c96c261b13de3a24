"""Writes that cannot wait for the others: many at once, each on another object."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ballast.cluster.writer import Writer

T = TypeVar("T")

AT_ONCE = 8
QPS = 50.0
BURST = 100


class EmergencyWriter:
    """Has a bucket of its own and the checks, records and end of the one writer."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer.beside(qps=QPS, burst=BURST, at_once=AT_ONCE)

    def each(self, tasks: Sequence[Callable[[Writer], T]]) -> list[T]:
        """Runs the tasks AT_ONCE at a time, begun in their order, and answers in it; returns when all have ended.

        No two of them may be about the same object.
        """
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="emergency") as pool:
            return list(pool.map(lambda task: task(self._writer), tasks))
