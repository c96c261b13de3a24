"""A deadline for a whole HTTP request: a server that sends drop by drop takes no more than that.

The timeouts of urllib3 and requests begin again at every read: with the status line, each header, the size of each
chunk and each piece of the body. Here every read of a response waits for what is left of the request's deadline.
"""

import io
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPResponse, IncompleteRead
from typing import Any

import requests.adapters
import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.poolmanager import pool_classes_by_scheme

from ballast.base.clock import SystemClock

_now = SystemClock().monotonic


class Deadline:
    """Until when an answer has to be read."""

    def __init__(self, seconds: float) -> None:
        self._at = _now() + seconds
        self._idle: float | None = None

    def lift(self, idle: float) -> None:
        """From now on the answer may take any time, and each read of it `idle` seconds."""
        self._idle = idle

    def left(self) -> float:
        """Seconds for the next read. Raises TimeoutError where there are none."""
        if self._idle is not None:
            return self._idle
        left = self._at - _now()
        if left <= 0:
            raise TimeoutError("the deadline of the request has passed")
        return left


class _Current(threading.local):
    deadline: Deadline | None = None


_current = _Current()


@contextmanager
def deadline(seconds: float) -> Iterator[Deadline]:
    """What this thread asks within has `seconds` in all, until the last byte of the answer, also if read later."""
    before = _current.deadline
    _current.deadline = now = Deadline(seconds)
    try:
        yield now
    finally:
        _current.deadline = before


def keep_deadlines(manager: urllib3.PoolManager) -> None:
    """The connections of `manager` keep to `deadline`; those through a SOCKS proxy are left as they are."""
    if manager.pool_classes_by_scheme is pool_classes_by_scheme:
        manager.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}


class DeadlineAdapter(requests.adapters.HTTPAdapter):
    """Connections of a `requests` session that keep to `deadline`."""

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        """As in requests."""
        super().init_poolmanager(*args, **options)
        keep_deadlines(self.poolmanager)

    def proxy_manager_for(self, proxy: str, **options: Any) -> urllib3.ProxyManager:
        """As in requests."""
        manager: urllib3.ProxyManager = super().proxy_manager_for(proxy, **options)
        keep_deadlines(manager)
        return manager


class _Reads(io.RawIOBase):
    """What a socket receives until a deadline. `ended`: the other side has closed it."""

    def __init__(self, sock: socket.socket, until: Deadline | None) -> None:
        self._sock = sock
        self._inner: Any = sock.makefile("rb", buffering=0)
        self._until = until
        self.ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if self._until is not None:
            self._sock.settimeout(self._until.left())
        count: int | None = self._inner.readinto(buffer)
        self.ended = count == 0
        return count

    def close(self) -> None:
        self._inner.close()
        super().close()


class _Response(HTTPResponse):
    """Headers that end with the connection were cut off; http.client takes them for complete."""

    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
        self._reads = _Reads(sock, _current.deadline)
        super().__init__(self, *args, **options)  # type: ignore[arg-type]

    def makefile(self, mode: str) -> io.BufferedReader:
        """What http.client reads from."""
        return io.BufferedReader(self._reads)

    def begin(self) -> None:
        """As in http.client; raises IncompleteRead."""
        super().begin()
        if self._reads.ended:
            raise IncompleteRead(b"")


class _Timely(HTTPConnection):
    response_class = _Response

    def connect(self) -> None:
        _check()
        super().connect()

    def request(self, *args: Any, **options: Any) -> None:
        _check()
        if self.sock is not None:
            self.sock.settimeout(self.timeout)
        super().request(*args, **options)


class _TimelyTls(_Timely, HTTPSConnection):
    pass


class _HttpPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Timely


class _HttpsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _TimelyTls


def _check() -> None:
    """Raises TimeoutError where the deadline has passed."""
    if _current.deadline is not None:
        _current.deadline.left()
