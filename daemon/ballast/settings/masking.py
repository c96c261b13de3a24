"""Hides secrets in everything that is shown."""

from __future__ import annotations

import re

from ballast.base.redaction import HIDDEN

_URL = re.compile(r"(?<=://)[^\s\"'<>]+")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def mask_urls(text: str) -> str:
    """Hides the user-info and the query of every URL in a text; also for messages of libraries."""
    return _URL.sub(lambda match: _mask(match[0]), text)


def mask_address(text: str) -> str:
    """Hides the user-info and the query of one address, even if its scheme is missing."""
    scheme = _SCHEME.match(text)
    start = scheme.end() if scheme else 0
    return text[:start] + _mask(text[start:])


def _mask(rest: str) -> str:
    """Masks what follows the scheme; an @ after a ? may end a password or be part of a query, so all is hidden."""
    before, query, after = re.match(r"([^?#]*)([?#]?)(.*)", rest, re.DOTALL).groups()  # type: ignore[union-attr]
    if "@" in after:
        return HIDDEN
    _, user, place = before.rpartition("@")
    return (f"{HIDDEN}@" if user else "") + place + (f"{query}{HIDDEN}" if after else query)
