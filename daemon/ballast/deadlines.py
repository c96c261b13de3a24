"""A deadline for a whole HTTP request: a server that sends drop by drop takes no more than that.

The timeouts of urllib3 and requests begin anew at every read: with the status line, each header, the size of each chunk
and each piece of the body. Here every read of a response waits for what is left of the request's deadline.
"""

from __future__ import annotations

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

from ballast.clock import SystemClock

_now = SystemClock().monotonic


class _Current(threading.local):
    at: float | None = None


_current = _Current()


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """What this thread asks within has `seconds` in all, until the last byte of the answer, also if read later."""
    before = _current.at
    _current.at = _now() + seconds
    try:
        yield
    finally:
        _current.at = before


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
    """What a socket receives until a moment. `ended`: the other side has closed it."""

    def __init__(self, sock: socket.socket, at: float | None) -> None:
        self._sock = sock
        self._inner: Any = sock.makefile("rb", buffering=0)
        self._at = at
        self.ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if self._at is not None:
            self._sock.settimeout(_left(self._at))
        count: int | None = self._inner.readinto(buffer)
        self.ended = count == 0
        return count

    def close(self) -> None:
        self._inner.close()
        super().close()


class _Response(HTTPResponse):
    """Headers that end with the connection were cut off; http.client takes them for complete."""

    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
        self._reads = _Reads(sock, _current.at)
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
        _left(_current.at)
        super().connect()

    def request(self, *args: Any, **options: Any) -> None:
        _left(_current.at)
        if self.sock is not None:
            self.sock.settimeout(self.timeout)
        super().request(*args, **options)


class _TimelyTls(_Timely, HTTPSConnection):
    pass


class _HttpPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Timely


class _HttpsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _TimelyTls


def _left(at: float | None) -> float:
    """Seconds. Raises TimeoutError where there are none."""
    if at is None:
        return 0.0
    left = at - _now()
    if left <= 0:
        raise TimeoutError("the deadline of the request has passed")
    return left
