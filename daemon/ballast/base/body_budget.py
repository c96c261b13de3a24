"""Bounds the bytes of request bodies that are held at the same time, however many clients send them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from starlette.requests import Request

from ballast.base.errors import BallastError

MIB = 1024 * 1024
WORTH = MIB // 4


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
class _ArrivingBody:
    """What has arrived of a body, and the pool that holds it; `complete` once all has."""

    pool: _BytePool
    arrived: bytearray = field(default_factory=bytearray)
    held: int = 0
    complete: bool = False
    dropped: bool = False

    def release(self) -> None:
        self.pool.held -= self.held
        self.held = 0
        self.arrived = bytearray()


class BodyBudget:
    """Two pools: large bodies share `limit` bytes, bodies up to `small` bytes have `reserved` bytes of their own.

    So unfinished large bodies cannot keep out the short ones that schedulers send; and where unfinished short ones fill
    their pool, the oldest of them gives way. A body counts with what has arrived, from its first byte until its answer
    is made. `freed` is called after one of more than `WORTH` bytes. Used by one event loop.
    """

    LARGE, RESERVED = 64 * MIB, 16 * MIB

    def __init__(
        self,
        limit: int = LARGE,
        small: int = MIB,
        reserved: int = RESERVED,
        freed: Callable[[], None] = lambda: None,
    ) -> None:
        self._large, self._reserved, self._small = _BytePool(limit), _BytePool(reserved), small
        self._freed = freed
        self._bodies: dict[_ArrivingBody, None] = {}

    @property
    def held(self) -> int:
        """Bytes held now."""
        return self._large.held + self._reserved.held

    @asynccontextmanager
    async def body(self, request: Request) -> AsyncIterator[bytes]:
        """The whole body. Raises BodiesInFlight, and what the stream raises (413, a client that is gone)."""
        own, size = _ArrivingBody(self._reserved), 0
        self._bodies[own] = None
        try:
            async for chunk in request.stream():
                size += len(chunk)
                if own.dropped or not self._taken(own, len(chunk)):
                    raise BodiesInFlight("Too many request bodies arrive at the same time. Try again in a second.")
                own.held += len(chunk)
                own.arrived += chunk
            if own.dropped:
                raise BodiesInFlight("The body arrived too slowly while others waited. Try again in a second.")
            own.complete = True
            body = bytes(own.arrived)
            own.arrived.clear()
            yield body
        finally:
            own.release()
            del self._bodies[own]
            if size > WORTH:
                self._freed()

    def _taken(self, own: _ArrivingBody, more: int) -> bool:
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
        return fits and self._given_way(own, more) and self._reserved.take(more)

    def _given_way(self, own: _ArrivingBody, more: int) -> bool:
        """Drops the oldest unfinished bodies of the reserved pool until there is room for one that grows."""
        for each in self._bodies:
            if each is not own and each.pool is self._reserved and not each.complete and each.held:
                each.release()
                each.dropped = True
                if self._reserved.held + more <= self._reserved.limit:
                    return True
        return False
