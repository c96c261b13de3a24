"""What Prometheus wants to see. Files are read at each request, so that rotated secrets count at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from requests.auth import _basic_auth_str

from ballast.errors import SourceUnavailable
from ballast.settings.prometheus import Prometheus

Credentials = Callable[[], str | None]
"""Gives the Authorization header, None without credentials. Raises SourceUnavailable."""


def prometheus_credentials(settings: Prometheus) -> Credentials | None:
    """Those of BALLAST_PROMETHEUS__*; a token goes before a user name. None where nothing is set."""
    if settings.token_file is not None:
        token_file = settings.token_file
        return lambda: f"Bearer {_read(token_file, 'TOKEN_FILE')}"
    if settings.token is not None:
        token = settings.token.get_secret_value().strip()
        return lambda: f"Bearer {token}"
    if settings.username is not None:
        user, password_file = settings.username, settings.password_file
        return lambda: basic(user, _read(password_file, "PASSWORD_FILE") if password_file else "")
    return None


def basic(user: str, password: str) -> str:
    """The header of basic authentication; names outside Latin-1 as UTF-8."""
    header: str = _basic_auth_str(user.encode(), password.encode())
    return header


def _read(path: Path, setting: str) -> str:
    try:
        text = path.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeError) as error:
        raise SourceUnavailable(
            f"BALLAST_PROMETHEUS__{setting}={path} cannot be read ({error}); check the mount"
        ) from error
    if not text:
        raise SourceUnavailable(f"BALLAST_PROMETHEUS__{setting}={path} is empty; check what writes it")
    return text
