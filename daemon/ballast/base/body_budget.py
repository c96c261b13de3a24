"""How many bytes of request bodies are held at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ballast.base.errors import BallastError
from ballast.base.freed_memory import MIB

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
