"""How an address of a power policy is asked: a token, headers and CA certificates from files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from ballast.base.errors import SettingsError, SourceUnavailable
from ballast.power.feed_spec import UrlAccess
from ballast.settings.secrets import SecretFile
from ballast.telemetry.http import HttpAccess

Read = TypeVar("Read")

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def access(spec: UrlAccess, part: str) -> HttpAccess:
    """Files are looked at for each request, so that rotated secrets count at once. `part` is for the errors."""
    credentials = None
    if spec.token_file is not None:
        token = SecretFile(Path(spec.token_file), f"{part}tokenFile")
        credentials = _readable(lambda: f"Bearer {token.read().strip()}")
    headers: Callable[[], Mapping[str, str]] = dict
    if spec.headers_file is not None:
        path, subject = Path(spec.headers_file), f"{part}headersFile"
        headers = _readable(lambda: read_headers(path, subject))
    return HttpAccess(credentials, secret_headers=headers, verify=spec.ca_file or True)


def problems(spec: UrlAccess, part: str) -> Iterator[str]:
    """One sentence for each file that cannot be used, without its content."""
    try:
        if spec.token_file is not None:
            SecretFile(Path(spec.token_file), f"{part}tokenFile").read()
    except SettingsError as error:
        yield str(error)
    try:
        if spec.headers_file is not None:
            read_headers(Path(spec.headers_file), f"{part}headersFile")
    except SettingsError as error:
        yield str(error)
    try:
        if spec.ca_file is not None:
            Path(spec.ca_file).open("rb").close()
    except OSError as error:
        yield f'{part}caFile is "{spec.ca_file}": expected a readable file ({error.strerror}). Correct it.'


def read_headers(path: Path, subject: str) -> dict[str, str]:
    """Headers of a file: a line `Name: value` each, or a JSON object. Raises SettingsError without the content."""
    try:
        text = path.read_text(encoding="utf-8-sig").strip()
    except OSError as error:
        raise _unusable(subject, path, f"expected a readable file ({error.strerror})") from None
    except UnicodeDecodeError:
        raise _unusable(subject, path, "expected text in UTF-8") from None
    if text.startswith("{"):
        try:
            found = dict(json.loads(text))
        except (ValueError, RecursionError):
            raise _unusable(subject, path, "expected a JSON object of headers") from None
    else:
        lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
        if not all(":" in line for line in lines):
            raise _unusable(subject, path, "expected lines such as `X-Api-Key: value`")
        found = {name: value for name, _, value in (line.partition(":") for line in lines)}
    headers = {name.strip(): str(value).strip() for name, value in found.items()}
    if not headers:
        raise _unusable(subject, path, "expected headers, but the file is empty")
    if not all(map(_NAME.fullmatch, headers)) or not all(value.isprintable() for value in headers.values()):
        raise _unusable(subject, path, "expected names of letters, digits and dashes, and values of one line")
    return headers


def _unusable(subject: str, path: Path, expected: str) -> SettingsError:
    return SettingsError(f'{subject} is "{path}": {expected}. Correct the file or its permissions.')


def _readable(read: Callable[[], Read]) -> Callable[[], Read]:
    """A file that became unusable makes the source unavailable."""

    def reading() -> Read:
        try:
            return read()
        except SettingsError as error:
            raise SourceUnavailable(str(error)) from None

    return reading
