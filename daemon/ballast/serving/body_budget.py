"""Bounds the bytes of request bodies that are held at the same time, however many clients send them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from starlette.requests import Request

from ballast.errors import BallastError

MIB = 1024 * 1024
WORTH = MIB // 4


class BodiesInFlight(BallastError):
    """The bodies that arrive or are being answered leave no room for this one."""


@dataclass
class _Pool:
    limit: int
    held: int = 0

    def take(self, size: int) -> bool:
        if self.held + size > self.limit:
            return False
        self.held += size
        return True


class BodyBudget:
    """Two pools: large bodies share `limit` bytes, bodies up to `small` bytes have `reserved` bytes of their own.

    So unfinished large bodies cannot keep out the short ones that schedulers send. A body counts with what has arrived,
    from its first byte until its answer is made. `freed` is called after one of more than `WORTH` bytes. Used by one
    event loop.
    """

    def __init__(
        self,
        limit: int = 64 * MIB,
        small: int = MIB,
        reserved: int = 16 * MIB,
        freed: Callable[[], None] = lambda: None,
    ) -> None:
        self._large, self._reserved, self._small = _Pool(limit), _Pool(reserved), small
        self._freed = freed

    @property
    def held(self) -> int:
        """Bytes held now."""
        return self._large.held + self._reserved.held

    @asynccontextmanager
    async def body(self, request: Request) -> AsyncIterator[bytes]:
        """The whole body. Raises BodiesInFlight, and what the stream raises (413, a client that is gone)."""
        arrived, held, pool = bytearray(), 0, self._reserved
        try:
            async for chunk in request.stream():
                pool = self._grown(pool, held, len(chunk))
                held += len(chunk)
                arrived += chunk
            body = bytes(arrived)
            arrived.clear()
            yield body
        finally:
            pool.held -= held
            if held > WORTH:
                self._freed()

    def _grown(self, pool: _Pool, held: int, more: int) -> _Pool:
        if pool is self._reserved and held + more <= self._small and pool.take(more):
            return pool
        if pool is self._large:
            taken = pool.take(more)
        elif taken := self._large.take(held + more):
            pool.held -= held
        if not taken:
            raise BodiesInFlight("Too many request bodies arrive at the same time. Try again in a second.")
        return self._large
