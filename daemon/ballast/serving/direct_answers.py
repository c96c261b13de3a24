"""The head of a request and an answer, where ASGI is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ballast.serving.cached_document import JSON

Headers = Sequence[tuple[bytes, bytes]]
"""Pairs of name, in lower case, and value."""


class RequestHead(NamedTuple):
    """What comes before a body. `path` is decoded; `certified`: the client showed a certificate that was verified."""

    method: bytes
    path: str
    query: bytes
    headers: Headers
    certified: bool

    def header(self, name: bytes) -> bytes:
        """The first of this name, empty without one."""
        return next((value for key, value in self.headers if key == name), b"")

    @property
    def length(self) -> int | None:
        """Bytes of the body, None where they come in chunks. The parser lets none but digits through."""
        if any(name == b"transfer-encoding" for name, _ in self.headers):
            return None
        return int(self.header(b"content-length") or 0)


class DirectAnswer(NamedTuple):
    """A whole answer."""

    status: int
    body: bytes
    kind: bytes = JSON.encode()
    headers: Mapping[str, str] = {}

    @property
    def closes(self) -> bool:
        """Whether the connection ends with it."""
        return self.headers.get("connection") == "close"

    @property
    def head(self) -> bytes:
        """Its own headers, then what the body is."""
        own = "".join([f"{name}: {value}\r\n" for name, value in self.headers.items()]).encode("latin-1")
        return b"%bcontent-length: %d\r\ncontent-type: %b\r\n" % (own, len(self.body), self.kind)
