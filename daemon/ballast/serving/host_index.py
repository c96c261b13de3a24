"""Finds the nodes that a request names and writes the answer: 5,000 names in a fraction of a millisecond.

The names come as a compact JSON list, as Go writes it. They are never turned into Python strings. All of them are
hashed at once, as arrays of eight-byte words (multiply-shift hashing, Dietzfelbinger et al. 1997), looked up in one
table, and compared with the names that are known. Only names that differ there take the slow way through a dict.
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
"""Bytes of a word."""

SPARE = 32
"""Slots in the hash table for each name, so that few names collide."""


class Names(Sequence[str]):
    """A JSON list of names, decoded only where it is indexed."""

    def __init__(self, raw: bytes, starts: Ints, ends: Ints) -> None:
        self.raw = raw
        """The JSON text."""
        self.starts = starts
        """[name]: the offset of its first byte in `raw`."""
        self.ends = ends
        """[name]: the offset of its closing quote."""

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        return self._strings[at]

    @property
    def longest(self) -> int:
        """Bytes of the longest name."""
        return int((self.ends - self.starts).max())

    def some(self, at: Ints) -> list[str]:
        """The names at these indexes; the others are not decoded. Raises UnicodeDecodeError."""
        spans = zip(self.starts[at].tolist(), self.ends[at].tolist(), strict=True)
        return [self.raw[start:end].decode() for start, end in spans]

    @cached_property
    def _strings(self) -> list[str]:
        return _strings.decode(self.raw)


def compact(raw: bytes) -> Names | None:
    """The names in a JSON list; None unless it holds strings only, without escapes, and no spaces between them."""
    # Without a backslash every quote opens or closes a string, so quotes come in pairs. What is between the pairs must
    # be exactly `["`, `","` and `"]`; a control character is no JSON.
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
    """The nodes that one request names, and its answer but for the points."""

    def __init__(self, names: Sequence[str], rows: Ints, hosts: Hosts) -> None:
        """`rows`: [name], the row of its node, -1 for an unknown one."""
        self.names = names
        self.known: Bools = rows >= 0
        """[name]: whether the node is known."""
        whole = bool(self.known.all())
        self.rows = rows if whole else rows[self.known]
        """[known name]: the row of its node."""
        self.everybody = len(self.rows) == len(hosts.names) and bool(
            np.bincount(self.rows, minlength=len(hosts.names)).all()
        )
        """Whether every known node is named exactly once."""
        self._entries = hosts.entries if whole and len(names) else None

    def priorities(self, points: Ints, chosen: int | None = None) -> bytes:
        """`[{"Host": name, "Score": points}, …]` as JSON.

        `points`: [name], 0..9; `chosen` is the index of the name that gets 10 instead.
        """
        if self._entries is None:
            if chosen is not None:
                points = points.copy()
                points[chosen] = _TEN
            return msgspec.json.encode(list(map(_Entry, self.names, points.tolist())))
        # Every entry is a line of equal length with a 0 as its points: the lines are copied by row, then one byte of
        # each is raised by its points. `mode="clip"` spares take() a bounds check; all rows are valid.
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
    """An index of the known nodes by name."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = list(names)
        """[row]: the name of the node."""
        self._rows = {name: row for row, name in enumerate(self.names)}
        entries = [_ENTRY % msgspec.json.encode(name) for name in self.names]
        self.entries = _matrix(entries, max(map(len, entries), default=0), b" ")
        """[row, byte]: the node's entry in an answer, with 0 points, filled up with spaces."""
        # A name is hashed with its closing quote, so that a name never equals the beginning of a longer one.
        ended = [name.encode() + b'"' for name in self.names]
        self._width = -(-max(map(len, ended), default=1) // WORD) * WORD
        self._words = _matrix(ended, self._width, b"\0").view(np.uint64)
        # Multiply-shift: the sum over words of word * odd factor, modulo 2^64, of which the highest bits are the slot.
        # Only the columns that tell the known names apart are hashed: names of one cluster share most of their text.
        self._columns = _distinguishing(self._words)
        self._factors = np.random.default_rng(0).integers(0, 2**63, len(self._columns)).astype(np.uint64) * 2 + 1
        bits = (SPARE * max(len(ended), 1)).bit_length()
        self._shift = np.uint64(64 - bits)
        # Of names that share a slot the last one has it; `locate` finds the others by comparison, through the dict.
        self._table = np.zeros(2**bits, np.int32)
        self._table[self._slots(self._words)] = np.arange(len(ended))
        # [length, word]: ones over the first length + 1 bytes, zeros after them.
        self._masks = (np.tri(self._width, self._width, 0, np.uint8) * np.uint8(255)).view(np.uint64)
        self._last: Named | None = None

    def named(self, names: Sequence[str]) -> Named:
        """The nodes of a request; cached for the names of the previous request, in the same order.

        A list of more than twice the known nodes is not kept: its size is the caller's choice.
        """
        last = self._last
        if last is None or not _same(last.names, names):
            last = Named(names, self.locate(names), self)
            if len(names) <= 2 * len(self.names):
                self._last = last
        return last

    def locate(self, names: Sequence[str]) -> Ints:
        """[name]: the row of its node, -1 for an unknown one."""
        if not isinstance(names, Names) or not self.names:
            return np.fromiter((self._rows.get(name, -1) for name in names), np.int64, len(names))
        words = self._read(names)
        rows = self._table.take(self._slots(words)).astype(np.int64)
        # An empty slot says row 0. A wrong row shows in at least one word, and only those names are decoded.
        wrong = self._words.take(rows, axis=0) != words
        if wrong.any():
            different = np.flatnonzero(wrong.any(axis=1))
            rows[different] = [self._rows.get(name, -1) for name in names.some(different)]
        return rows

    def _read(self, names: Names) -> Words:
        """[name, word]: each name with its closing quote, cut to the longest known name, and zeros after it."""
        width = self._width
        text = names.raw.ljust(len(names.raw) + width)
        # A view with a stride of one byte has a line of `width` bytes from every offset; indexing it copies only the
        # lines that begin with a name. The padding keeps the last lines inside the buffer.
        lines: Bytes = np.ndarray((len(names.raw),), np.dtype((np.void, width)), text, 0, (1,))[names.starts]
        lengths = np.minimum(names.ends - names.starts, width - 1)
        words: Words = lines.view(np.uint64).reshape(-1, width // WORD)
        words &= self._masks.take(lengths, axis=0)
        return words

    def _slots(self, words: Words) -> Words:
        """[name]: its slot in the table, which other names may share."""
        hashes: Words = words[:, self._columns[0]] * self._factors[0]
        for column, factor in zip(self._columns[1:], self._factors[1:], strict=True):
            hashes += words[:, column] * factor
        hashes >>= self._shift
        return hashes


class _Entry(msgspec.Struct, gc=False, rename="pascal"):
    host: str
    score: int


def _distinguishing(words: Words) -> list[int]:
    """Few columns in which all lines differ, those with the most different words first; all columns at worst."""
    distinct = [len(np.unique(column)) for column in words.T]
    order = sorted(range(len(distinct)), key=lambda column: -distinct[column])
    for count in range(1, len(order)):
        if len(np.unique(words[:, order[:count]], axis=0)) == len(words):
            return order[:count]
    return order


def _same(some: Sequence[str], others: Sequence[str]) -> bool:
    if isinstance(some, Names) and isinstance(others, Names):
        return some.raw == others.raw
    return type(some) is type(others) and some == others


def _matrix(lines: Sequence[bytes], width: int, fill: bytes) -> Bytes:
    """[line, byte]: each line filled up to the width."""
    text = b"".join([line.ljust(width, fill) for line in lines])
    return np.frombuffer(text, np.uint8).reshape(len(lines), width)


_strings = msgspec.json.Decoder(list[str])
_SPACE, _QUOTE, _COMMA = b' ",'
_TEN = 10
_ENTRY = b',{"Score": 0,"Host":%b}'
_ONES = _ENTRY.index(b"0")
_TENS = _ONES - 1
