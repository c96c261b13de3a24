"""Takes secrets out of text that leaves the cluster."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from ballast.base.redaction import HIDDEN, removed

_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)[^\s/\"'<>]*@")
_QUERY = re.compile(
    r"(?i)(?P<name>[?&](?:[\w.-]*(?:token|password|passwd|secret|api[_-]?key|signature|sig|credential)[\w.-]*)=)"
    r"[^&\s\"'<>]+"
)
_EXTENDER = re.compile(r"/scheduler/(?!(?:filter|prioritize|bind)\b)[^/\s\"'?]+(?=/(?:filter|prioritize|bind)\b)")
_PEM = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_JWT = re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*")
_SCHEME = re.compile(r"(?i)(?P<name>\b(?:Bearer|Basic)\s+)(?!\*)[\w+/=.~-]{4,}")
_QUOTED = r"\\\"(?:[^\"\\\n]|\\[^\"])*\\\"|\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'"
"""A string in JSON within JSON, in JSON, in single quotes."""

_HEADER = re.compile(
    r"(?i)(?P<name>(?:authorization|proxy-authorization|cookie|x-api-key|x-scope-token|x-auth-token)"
    rf"\\?[\"']?\s*[:=]\s*)(?P<value>{_QUOTED}|[^\s\"'\\,}}][^\r\n\"'\\,}}]*)"
)
_PAIR = re.compile(
    r"(?i)(?P<name>\\?[\"']?[\w.-]*(?:password|passwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|"
    rf"credentials?)\\?[\"']?\s*[:=]\s*)(?P<value>{_QUOTED}|[^\s\"'\\,;&}}\]]+)"
)
_HARMLESS = re.compile(r"(?i)^\\?[\"']?(?:null|none|true|false|\*+|\d{1,3})?\\?[\"']?$")
_FIXED = (
    re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    re.compile(r"\bgh[pousr]_[A-Za-z0-9]{20,}\b"),
    re.compile(r"\bglc_[A-Za-z0-9+/=]{20,}"),
)


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without the given secrets and without what looks like one: passwords, tokens, keys, in any notation."""
    text = removed(text.encode("utf-8", "replace"), secrets).decode("utf-8", "replace")
    text = _PEM.sub(HIDDEN, text)
    text = _URL.sub(lambda found: f"{found['scheme']}{HIDDEN}@", text)
    text = _HEADER.sub(_pair, text)
    for pattern in (_QUERY, _SCHEME):
        text = pattern.sub(rf"\g<name>{HIDDEN}", text)
    text = _EXTENDER.sub(f"/scheduler/{HIDDEN}", text)
    text = _PAIR.sub(_pair, text)
    for pattern in (_JWT, *_FIXED):
        text = pattern.sub(HIDDEN, text)
    return text


def known_secrets(environ: Mapping[str, str] = os.environ) -> frozenset[str]:
    """Secrets that this machine's own settings hold or name: inline ones and the content of secret files."""
    found = set()
    for name, value in environ.items():
        if name.endswith(("TOKEN", "PASSWORD", "SECRET", "_KEY")):
            found.add(value.strip())
        elif name.endswith(("TOKEN_FILE", "PASSWORD_FILE")):
            try:
                found.add(Path(value).read_text(encoding="utf-8").strip())
            except (OSError, UnicodeDecodeError):
                continue
    return frozenset(found)


def _pair(found: re.Match[str]) -> str:
    value = found["value"]
    if _HARMLESS.match(value):
        return found[0]
    opened = re.match(r"\\?[\"']", value)
    quote = opened[0] if opened else ""
    return f"{found['name']}{quote}{HIDDEN}{quote}"
