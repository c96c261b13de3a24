"""Changes of bytes, from a seeded generator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

LONGEST = 64 * 1024
TOKENS: tuple[bytes, ...] = (
    *(
        b"null",
        b"true",
        b"{}",
        b"[]",
        b'""',
        b"[[]]",
        b"-",
        b"-1",
        b"0",
        b"1e999",
        b"-1e308",
        b"1e303",
        b"NaN",
        b"+Inf",
    ),
    *(b"9223372036854775808", b"-9223372036854775809", b"1" * 400, b"0." + b"3" * 400, b"1/0", b"0x10", b"1_000"),
    *(
        b"\x00",
        b"\xff\xfe",
        b"\xed\xa0\x80",
        b"\xf0\x9f\x92\xa3",
        b"\\ud800",
        b"\\u0000",
        b"\xef\xbb\xbf",
        b"\xe2\x80\xae",
    ),
    *(
        b"[" * 2000,
        b'{"a":' * 1500,
        b"- " * 300,
        b"&a [*a]",
        b"<<: *a",
        b"!!python/object:x",
        b"'",
        b'"',
        b"\\",
        b"\r\n",
    ),
    *(
        b"0001-01-01T00:00:00",
        b"9999-12-31T23:59:59Z",
        b"1e400Ki",
        b"5E",
        b"999999h",
        b"1ns",
        b"a" * 300,
        b"%",
        b"${X}",
    ),
    *(b"notin (", b"!=", b"==", b",,", b":", b";;", b"/", b"..", b"=", b"\t", b" " * 300),
)


def mutated(random: Random, examples: Sequence[bytes]) -> bytes:
    """One to six changes of one of the examples."""
    found = random.choice(examples)
    for _ in range(random.choice((1, 1, 1, 2, 3, 6))):
        found = random.choice(_CHANGES)(random, found, examples)[:LONGEST]
    return found


def _flip(random: Random, text: bytes, examples: Sequence[bytes]) -> bytes:
    if not text:
        return bytes([random.randrange(256)])
    at = random.randrange(len(text))
    return text[:at] + bytes([text[at] ^ (1 << random.randrange(8))]) + text[at + 1 :]


def _cut(random: Random, text: bytes, examples: Sequence[bytes]) -> bytes:
    start, end = _span(random, text)
    return text[:start] + text[end:]


def _double(random: Random, text: bytes, examples: Sequence[bytes]) -> bytes:
    start, end = _span(random, text)
    return text[:end] + text[start:end] * random.choice((1, 1, 2, 30)) + text[end:]


def _insert(random: Random, text: bytes, examples: Sequence[bytes]) -> bytes:
    start, end = _span(random, text)
    return text[:start] + random.choice(TOKENS) + text[random.choice((start, end)) :]


def _splice(random: Random, text: bytes, examples: Sequence[bytes]) -> bytes:
    other = random.choice(examples)
    start, end = _span(random, other)
    at = random.randrange(len(text) + 1)
    return text[:at] + other[start:end] + text[at:]


def _value(random: Random, text: bytes, examples: Sequence[bytes]) -> bytes:
    """Puts a token where a value of JSON or YAML begins, up to where it may end."""
    starts = [at + 1 for at, byte in enumerate(text) if byte in b":[,="]
    if not starts:
        return _insert(random, text, examples)
    start = random.choice(starts)
    end = start
    while end < len(text) and text[end] not in b",}]\n;":
        end += 1
    return text[:start] + random.choice(TOKENS) + text[end:]


def _span(random: Random, text: bytes) -> tuple[int, int]:
    start = random.randrange(len(text) + 1)
    return start, min(len(text), start + random.choice((0, 1, 2, 4, 8, 16, 64, 256)))


_CHANGES: Sequence[Callable[[Random, bytes, Sequence[bytes]], bytes]] = (
    *(_flip, _cut, _double, _insert, _splice),
    *(_value, _value, _value),
)
