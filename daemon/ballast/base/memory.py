"""Bounds of memory: bytes of telemetry answers and of request bodies, and what the C library keeps of freed memory."""

from __future__ import annotations

import asyncio
import ctypes
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import finalize

from ballast.base.errors import BallastError, TelemetryError

if TYPE_CHECKING:
    from starlette.requests import Request

MIB = 2**20

PAUSE = 5.0
"""Seconds until freed memory goes back to the kernel: who releases an answer may still hold it."""

KEEP = 16 * MIB
"""Bytes at the end of a heap that are kept for the next answer."""

LARGE = 2 * MIB
"""Bytes; a larger block goes back to the kernel as soon as it is free."""

# malloc.h
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
_ARENA_MAX = -8


def tune_malloc() -> None:
    """Gives all threads one heap, which keeps up to `KEEP` freed bytes. Call before threads start. glibc only.

    By default glibc returns the memory of an answer of some hundred kilobytes to the kernel, and the next answer pays
    for its page faults: 0.5 of 1.2 ms for 5,000 names. And threads have heaps of their own, whose holes others cannot
    use: after nine simulated hours of 1,000 nodes and 375 new ones an hour, 54 MB beside 35 MB in use; 13 in one heap.
    Python's lock is held at nearly every allocation, so the threads do not wait for the heap.
    """
    with suppress(OSError, AttributeError):
        adjust = ctypes.CDLL(None).mallopt
        adjust(_ARENA_MAX, 1)
        adjust(_TRIM_THRESHOLD, KEEP)
        adjust(_MMAP_THRESHOLD, LARGE)


def trim() -> None:
    """Gives all freed blocks back to the kernel; takes milliseconds. Does nothing without glibc."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


class FreedMemory:
    """Gives all freed blocks back to the kernel a while after they were used. Does nothing without glibc."""

    def __init__(self) -> None:
        self._due = False
        self._last = 0.0

    def give_back_later(self) -> None:
        """At most once in `PAUSE` seconds, and once more when what was used last is surely free; needs a running loop.

        An answer is freed only after it was sent, which the caller does not see.
        """
        loop = asyncio.get_running_loop()
        self._last = loop.time()
        if not self._due:
            self._due = True
            loop.call_later(PAUSE, self._give_back, loop)

    def _give_back(self, loop: asyncio.AbstractEventLoop) -> None:
        trim()
        self._due = loop.time() < self._last + 2 * PAUSE
        if self._due:
            loop.call_later(PAUSE, self._give_back, loop)


IN_FLIGHT = 96 * MIB
"""Bytes of all answers that arrive, wait to be read or are decoded: one of the largest kind, and some beside it."""

WORTH = 4 * MIB
"""Bytes of one answer after which freed memory goes back to the kernel."""

WORTH_DECODED = 16 * MIB
"""As WORTH, for what was decoded: the next cycle of 15,000 nodes takes the same memory again."""


class AnswersInFlight(TelemetryError):
    """The answers that arrive or wait to be read leave no room for this one."""


class AnswerBudget:
    """Safe to use from several threads. Nobody waits for room: who holds it may be the one that would wait."""

    def __init__(self, limit: int = IN_FLIGHT) -> None:
        self.limit = limit
        self._held, self._trimming = 0, False
        self._lock = threading.Lock()

    @property
    def held(self) -> int:
        """Bytes held now."""
        return self._held

    def share(self) -> AnswerShare:
        """For one answer, before its first byte."""
        return AnswerShare(self)

    def take(self, size: int) -> bool:
        """Whether there is room for that many bytes more; they are held then."""
        with self._lock:
            if self._held + size > self.limit:
                return False
            self._held += size
            return True

    def give_back(self, size: int, worth: int = WORTH) -> None:
        """Releases bytes; `worth` and more go back to the kernel."""
        with self._lock:
            self._held -= size
            due = size >= worth and not self._trimming
            self._trimming |= due
        if due:
            timer = threading.Timer(PAUSE, self._trim)
            timer.daemon = True
            timer.start()

    def _trim(self) -> None:
        with self._lock:
            self._trimming = False
        trim()


class AnswerShare:
    """What one answer holds, until `release` or until `owner` is gone."""

    def __init__(self, budget: AnswerBudget) -> None:
        self._budget = budget
        self._size = 0

    def grow(self, size: int) -> None:
        """Raises AnswersInFlight."""
        if not self._budget.take(size):
            raise AnswersInFlight(
                f"telemetry answers in flight would hold more than {self._budget.limit / MIB:g} MiB in all; ask for "
                "less: aggregate by node in BALLAST_TELEMETRY__RESOURCES, or narrow BALLAST_PROMETHEUS__MATCHERS"
            )
        self._size += size

    def release(self) -> None:
        """Gives all back; once more does nothing."""
        size, self._size = self._size, 0
        self._budget.give_back(size)

    def until_gone(self, owner: object) -> None:
        """Gives all back when nothing refers to `owner` any more."""
        finalize(owner, self.release)


ANSWERS = AnswerBudget()
"""The budget of this process."""


WORTH_OF_BODY = MIB // 4
"""Bytes of one request body after which freed memory goes back to the kernel."""


class BodiesInFlight(BallastError):
    """The bodies that arrive or are being answered leave no room for this one."""


@dataclass
class _BytePool:
    limit: int
    held: int = 0

    def take(self, size: int) -> bool:
        if self.held + size > self.limit:
            return False
        self.held += size
        return True


@dataclass(eq=False)
class ArrivingBody:
    """What has arrived of a body, and the pool that holds it; `complete` once all has."""

    pool: _BytePool
    arrived: list[bytes] = field(default_factory=list)
    size: int = 0
    held: int = 0
    complete: bool = False
    dropped: bool = False

    def release(self) -> None:
        self.pool.held -= self.held
        self.held = 0
        self.arrived.clear()


class BodyBudget:
    """Two pools: large bodies share `limit` bytes, bodies up to `small` bytes have `reserved` bytes of their own.

    So unfinished large bodies cannot keep out the short ones that schedulers send; and where unfinished short ones fill
    their pool, the oldest of them gives way. A body counts with what has arrived, from its first byte until its answer
    is made. `freed` is called after one of more than `WORTH_OF_BODY` bytes. Used by one event loop.
    """

    LARGE, RESERVED = 64 * MIB, 16 * MIB

    def __init__(
        self, limit: int = LARGE, small: int = MIB, reserved: int = RESERVED, freed: Callable[[], None] = lambda: None
    ) -> None:
        self._large, self._reserved, self._small = _BytePool(limit), _BytePool(reserved), small
        self._freed = freed
        self._bodies: dict[ArrivingBody, None] = {}

    @property
    def held(self) -> int:
        """Bytes held now."""
        return self._large.held + self._reserved.held

    def busy(self) -> bool:
        """Whether a body arrives or is being answered. May be asked from any thread."""
        return bool(self._bodies)

    @asynccontextmanager
    async def body(self, request: Request) -> AsyncIterator[bytes]:
        """The whole body. Raises BodiesInFlight, and what the stream raises (413, a client that is gone)."""
        own = self.open()
        try:
            async for chunk in request.stream():
                self.add(own, chunk)
            yield self.complete(own)
        finally:
            self.close(own)

    def open(self) -> ArrivingBody:
        """For one body, before its first byte; `close` it in any case."""
        own = ArrivingBody(self._reserved)
        self._bodies[own] = None
        return own

    def add(self, own: ArrivingBody, chunk: bytes) -> None:
        """A piece has arrived. Raises BodiesInFlight."""
        own.size += len(chunk)
        if own.dropped or not self._hold(own, len(chunk)):
            raise BodiesInFlight("Too many request bodies arrive at the same time. Try again in a second.")
        own.held += len(chunk)
        own.arrived.append(chunk)

    def complete(self, own: ArrivingBody) -> bytes:
        """The whole body, which counts until it is closed. Raises BodiesInFlight."""
        if own.dropped:
            raise BodiesInFlight("The body arrived too slowly while others waited. Try again in a second.")
        own.complete = True
        body = b"".join(own.arrived)
        own.arrived.clear()
        return body

    def close(self, own: ArrivingBody) -> None:
        """Its bytes are free. Once more does nothing."""
        if own not in self._bodies:
            return
        del self._bodies[own]
        own.release()
        if own.size > WORTH_OF_BODY:
            self._freed()

    def _hold(self, own: ArrivingBody, more: int) -> bool:
        """Whether the pool of a body, or else the large one, has room for it to grow."""
        if own.pool is self._large:
            return self._large.take(more)
        fits = own.held + more <= self._small
        if fits and self._reserved.take(more):
            return True
        if self._large.take(own.held + more):
            self._reserved.held -= own.held
            own.pool = self._large
            return True
        return fits and self._make_way(own, more) and self._reserved.take(more)

    def _make_way(self, own: ArrivingBody, more: int) -> bool:
        """Drops the oldest unfinished bodies of the reserved pool until there is room for one that grows."""
        for body in self._bodies:
            if body is not own and body.pool is self._reserved and not body.complete and body.held:
                body.release()
                body.dropped = True
                if self._reserved.held + more <= self._reserved.limit:
                    return True
        return False
