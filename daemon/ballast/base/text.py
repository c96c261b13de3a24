"""Text for people: values in words, and what a server says without the secrets that it was sent."""

import base64
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit, urlunsplit

import msgspec

HIDDEN = "********"
"""Stands where a secret stood."""
SHORTEST = 4
"""Characters of a secret that is looked for; shorter ones stand in any text."""

LONGEST = 2048
"""Characters of a text from outside that are kept."""

_UNPRINTABLE = re.compile(r"[^\x20-\x7e]+")


def printable(text: object, longest: int = LONGEST) -> str:
    """One line of at most `longest` characters. Runs of control characters, line ends and marks that change the
    direction of writing become one space; a text that is too long ends in "…".
    """
    line = str(text)
    cut = len(line) > longest
    line = _UNPRINTABLE.sub(_blanks, line[:longest])
    return f"{line[: longest - 1]}…" if cut else line


def printable_lines(text: str, indent: str = "", most: int = 100) -> str:
    """Lines that are `printable` each, all but the first indented; of more than `most` those at both ends."""
    lines = [printable(line, LONGEST - len(indent)) for line in text[: most * LONGEST].splitlines()]
    return f"\n{indent}".join(lines if len(lines) <= most else [*lines[: most // 2], "…", *lines[-most // 2 + 1 :]])


def printable_document(document: Any) -> Any:
    """A decoded JSON document with all its texts, keys included, as `printable` makes them."""
    if isinstance(document, str):
        return printable(document)
    if isinstance(document, dict):
        return {printable(key): printable_document(value) for key, value in document.items()}
    if isinstance(document, list):
        return [printable_document(item) for item in document]
    return document


def _blanks(run: re.Match[str]) -> str:
    return run[0] if run[0].isprintable() else re.sub(" +", " ", "".join(c if c.isprintable() else " " for c in run[0]))


def duration(seconds: float) -> str:
    """ "45 s", "12 min", "2 h"."""
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 1 or not seconds else f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def named(names: Sequence[str], most: int = 5) -> str:
    """The first names and how many follow: "a, b and 3 more"."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def nearest(word: str, names: Iterable[str], otherwise: str = "") -> str:
    """ "Did you mean relieve?" for a mistyped name, else `otherwise`."""
    close = get_close_matches(word, list(names), 2)
    return f"Did you mean {' or '.join(close)}?" if close else otherwise


def pods(count: int) -> str:
    """ "1 pod", "2,000 pods"."""
    return f"{count:,} pod" if count == 1 else f"{count:,} pods"


def secrets_of_url(url: str) -> Iterator[str]:
    """User, password and the values of the query, as they stand in the URL and decoded."""
    parts = urlsplit(url)
    info = parts.netloc.rpartition("@")[0]
    yield from (info, info.partition(":")[2], parts.query)
    yield from (value for _, value in parse_qsl(parts.query))
    yield from (raw.partition("=")[2] for raw in parts.query.split("&"))


def without_user(url: str) -> str:
    """The address without user and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def secrets_of_headers(headers: Mapping[str, str]) -> Iterator[str]:
    """The values, each also without a scheme before it."""
    for value in headers.values():
        yield from secrets_of_authorization(value)


def secrets_of_authorization(header: str | None) -> Iterator[str]:
    """The header, its credentials, and the password in those of HTTP Basic."""
    scheme, _, value = (header or "").partition(" ")
    yield from (header or "", value)
    if scheme.lower() == "basic":
        try:
            pair = base64.b64decode(value).decode("utf-8", "replace")
        except ValueError:
            return
        yield from (pair, pair.partition(":")[2])


def secrets_of_proxy(url: str) -> Iterator[str]:
    """User and password, as they stand in the URL, decoded, and as HTTP Basic sends them to the proxy."""
    info = (url.partition("//")[2] or url).rpartition("@")[0]
    for pair in (info, unquote(info)):
        yield from (pair, pair.partition(":")[2])
        yield from (base64.b64encode(pair.encode(coding, "replace")).decode() for coding in ("utf-8", "latin-1"))


def without_secrets(text: bytes, secrets: Iterable[str]) -> bytes:
    """`text` without the secrets, however they are written: plain, in JSON, or in a URL."""
    forms = {form for secret in secrets if len(secret) >= SHORTEST for form in _forms(secret)}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, HIDDEN.encode())
    return text


def _forms(secret: str) -> Iterator[bytes]:
    yield secret.encode("utf-8", "replace")
    yield msgspec.json.encode(secret)[1:-1]
    yield repr(secret)[1:-1].encode("utf-8", "replace")
    yield quote(secret, safe="").encode()
    yield quote_plus(secret).encode()
