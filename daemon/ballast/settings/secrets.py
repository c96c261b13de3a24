"""Secrets: kept in files that may change while Ballast runs, hidden in everything that is shown."""

import os
import re
from pathlib import Path

from ballast.base.errors import SettingsError
from ballast.base.text import HIDDEN

_URL = re.compile(r"(?<=://)[^\s\"'<>]+")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class SecretFile:
    """A secret in a file; reads it again after a change, also when a projected volume swaps its symlink."""

    def __init__(self, path: Path, variable: str = "") -> None:
        self._path = path
        self._subject = f'{variable} is "{path}"' if variable else f'The secret file "{path}"'
        self._seen: tuple[int, int, int] | None = None
        self._secret = ""

    def read(self) -> str:
        """The content without trailing line ends. Raises SettingsError, naming the variable, never the content."""
        try:
            version = _version(self._path.stat())
            if version != self._seen:
                with self._path.open("rb") as file:
                    version, content = _version(os.fstat(file.fileno())), file.read()
                self._secret, self._seen = self._decode(content), version
        except OSError as error:
            raise self._unusable(f"expected a readable file ({error.strerror})") from None
        return self._secret

    def _decode(self, content: bytes) -> str:
        try:
            secret = content.decode().rstrip("\r\n")
        except UnicodeDecodeError:
            raise self._unusable("expected text in UTF-8") from None
        if not secret:
            raise self._unusable("expected a secret, but the file is empty")
        if not secret.isprintable():
            raise self._unusable("expected one line of printable characters")
        return secret

    def _unusable(self, expected: str) -> SettingsError:
        return SettingsError(f"{self._subject}: {expected}. Correct the file or its permissions.")


def _version(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_mtime_ns, status.st_ino, status.st_size


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
