"""Nothing secret is ever shown."""

from __future__ import annotations

import re

HIDDEN = "********"

_USER_INFO = re.compile(r"(?<=://)[^\s\"'<>]*@")


def mask_urls(text: str) -> str:
    """Hides the user-info of every URL in a text; use it for messages of libraries too."""
    return _USER_INFO.sub(f"{HIDDEN}@", text)


def mask_address(text: str) -> str:
    """Hides the user-info of what is meant as one address, also when its scheme is missing."""
    head, at, tail = text.rpartition("@")
    scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", head)
    return f"{scheme[0] if scheme else ''}{HIDDEN}@{tail}" if at else text
