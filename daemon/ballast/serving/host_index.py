"""Which nodes a request names, and the answer to it, for thousands of names in a fraction of a millisecond.

A list of names comes as compact JSON, as Go writes it. It is never made into strings: each name is found by the words
of eight bytes it consists of, in arrays over all names at once, and what is found is compared byte by byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import overload

import msgspec
import numpy as np
from numpy.typing import NDArray

from ballast.model.sample import Bools, Ints

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]

WORD = 8
SPARE = 32
"""Places in the table for each name, so that few of them share one."""


class Names(Sequence[str]):
    """A list of names as it came. `starts` and `ends` are where they are in `raw`, without their quotes."""

    def __init__(self, raw: bytes, starts: Ints, ends: Ints) -> None:
        self.raw = raw
        self.starts = starts
        self.ends = ends

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        return self._strings[at]

    def some(self, at: Ints) -> list[str]:
        """Those at these places, without reading the others. Raises UnicodeDecodeError."""
        places = zip(self.starts[at].tolist(), self.ends[at].tolist(), strict=True)
        return [self.raw[start:end].decode() for start, end in places]

    @cached_property
    def _strings(self) -> list[str]:
        return _strings.decode(self.raw)


def compact(raw: bytes) -> Names | None:
    """The names in a JSON list of them; None for anything but strings without escapes and spaces between them."""
    text = np.frombuffer(raw, np.uint8)
    quotes = np.flatnonzero(text == _QUOTE)
    starts, ends = quotes[::2] + 1, quotes[1::2]
    if not len(quotes) or len(quotes) % 2 or raw[:1] != b"[" or raw[-1:] != b"]" or b"\\" in raw:
        return None
    if starts[0] != len('["') or ends[-1] != len(raw) - len('"]') or (starts[1:] - ends[:-1] != len('","')).any():
        return None
    if text.min() < _SPACE or (text[ends[:-1] + 1] != _COMMA).any():
        return None
    return Names(raw, starts, ends)


class Named:
    """The nodes of one request, and the answer to it but for the points.

    `known` says which of the names are known nodes, `rows` are theirs; `everybody`: each known node is there once.
    """

    def __init__(self, names: Sequence[str], found: Ints, hosts: Hosts) -> None:
        self.names = names
        self.known: Bools = found >= 0
        whole = bool(self.known.all())
        self.rows = found if whole else found[self.known]
        self.everybody = len(self.rows) == len(hosts.names) and bool(
            np.bincount(self.rows, minlength=len(hosts.names)).all()
        )
        self._entries = hosts.entries if whole and len(names) else None

    def priorities(self, points: Ints, chosen: int | None = None) -> bytes:
        """`[{"Host": name, "Score": points}, …]`; the one at `chosen` gets 10, all others have one digit."""
        if self._entries is None:
            if chosen is not None:
                points = points.copy()
                points[chosen] = _TEN
            return msgspec.json.encode(list(map(_Entry, self.names, points.tolist())))
        width = self._entries.shape[1]
        text = np.empty(len(self.rows) * width + 1, np.uint8)
        lines = text[:-1].reshape(-1, width)
        np.take(self._entries, self.rows, axis=0, out=lines, mode="clip")
        lines[:, _ONES] += points.astype(np.uint8)
        if chosen is not None:
            lines[chosen, [_TENS, _ONES]] = list(b"%d" % _TEN)
        text[0], text[-1] = b"[]"
        return text.tobytes()


class Hosts:
    """The nodes that are known, by name. `entries` are those of an answer, of equal length, with 0 points each."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = list(names)
        self._rows = {name: row for row, name in enumerate(self.names)}
        entries = [_ENTRY % msgspec.json.encode(name) for name in self.names]
        self.entries = _matrix(entries, max(map(len, entries), default=0), b" ")
        ended = [name.encode() + b'"' for name in self.names]
        self._width = -(-max(map(len, ended), default=1) // WORD) * WORD
        self._words = _matrix(ended, self._width, b"\0").view(np.uint64)
        self._telling = _telling(self._words)
        self._factors = np.random.default_rng(0).integers(0, 2**63, len(self._telling)).astype(np.uint64) * 2 + 1
        bits = (SPARE * max(len(ended), 1)).bit_length()
        self._shift = np.uint64(64 - bits)
        self._table = np.zeros(2**bits, np.int32)
        self._table[self._places(self._words)] = np.arange(len(ended))
        self._masks = (np.tri(self._width, self._width, 0, np.uint8) * np.uint8(255)).view(np.uint64)
        self._last: Named | None = None

    def named(self, names: Sequence[str]) -> Named:
        """Quick for the names of the request before, in the same order."""
        last = self._last
        if last is None or not _same(last.names, names):
            last = self._last = Named(names, self.locate(names), self)
        return last

    def locate(self, names: Sequence[str]) -> Ints:
        """[name]: its row, -1 for a node that is not known."""
        if not isinstance(names, Names) or not self.names:
            return np.fromiter((self._rows.get(name, -1) for name in names), np.int64, len(names))
        words = self._read(names)
        rows = self._table.take(self._places(words)).astype(np.int64)
        different = np.unique(np.flatnonzero(self._words.take(rows, axis=0) != words) // words.shape[1])
        rows[different] = [self._rows.get(name, -1) for name in names.some(different)]
        return rows

    def _read(self, names: Names) -> Words:
        """[name, word]: each name with the quote that ends it, as far as the longest known one, and zeros after it."""
        width = self._width
        text = names.raw.ljust(len(names.raw) + width)
        lines: Bytes = np.ndarray((len(names.raw),), np.dtype((np.void, width)), text, 0, (1,))[names.starts]
        lengths = np.minimum(names.ends - names.starts, width - 1)
        words: Words = lines.view(np.uint64).reshape(-1, width // WORD)
        words &= self._masks.take(lengths, axis=0)
        return words

    def _places(self, words: Words) -> Words:
        """[name]: its place in the table, which another name may have too."""
        mixed: Words = words[:, self._telling[0]] * self._factors[0]
        for column, factor in zip(self._telling[1:], self._factors[1:], strict=True):
            mixed += words[:, column] * factor
        mixed >>= self._shift
        return mixed


class _Entry(msgspec.Struct, gc=False, rename="pascal"):
    host: str
    score: int


def _telling(words: Words) -> list[int]:
    """The columns by which all lines can be told apart, or nearly so: those that tell most apart, first."""
    kinds = [len(np.unique(column)) for column in words.T]
    order = sorted(range(len(kinds)), key=lambda column: -kinds[column])
    for count in range(1, len(order)):
        if len(np.unique(words[:, order[:count]], axis=0)) == len(words):
            return order[:count]
    return order


def _same(some: Sequence[str], others: Sequence[str]) -> bool:
    if isinstance(some, Names) and isinstance(others, Names):
        return some.raw == others.raw
    return type(some) is type(others) and some == others


def _matrix(lines: Sequence[bytes], width: int, fill: bytes) -> Bytes:
    """[line, byte], filled up to the width."""
    text = b"".join([line.ljust(width, fill) for line in lines])
    return np.frombuffer(text, np.uint8).reshape(len(lines), width)


_strings = msgspec.json.Decoder(list[str])
_SPACE, _QUOTE, _COMMA = b' ",'
_TEN = 10
_ENTRY = b',{"Score": 0,"Host":%b}'
_ONES = _ENTRY.index(b"0")
_TENS = _ONES - 1
