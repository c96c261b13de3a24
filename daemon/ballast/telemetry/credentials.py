"""Credentials for Prometheus. Files are checked at each request, so that rotated secrets count at once."""

from __future__ import annotations

from collections.abc import Callable

from requests.auth import _basic_auth_str

from ballast.base.errors import SettingsError, SourceUnavailable
from ballast.settings.prometheus import PrometheusSettings
from ballast.settings.secrets import SecretFile

Credentials = Callable[[], str | None]
"""Gives the Authorization header, None without credentials. Raises SourceUnavailable."""


def prometheus_credentials(settings: PrometheusSettings) -> Credentials | None:
    """Those of BALLAST_PROMETHEUS__*; a token goes before a user name. None where nothing is set."""
    if settings.token_file is not None:
        token_file = SecretFile(settings.token_file, "BALLAST_PROMETHEUS__TOKEN_FILE")
        return lambda: f"Bearer {_read(token_file)}"
    if settings.token is not None:
        token = settings.token.get_secret_value().strip()
        return lambda: f"Bearer {token}"
    if settings.username is not None:
        user, path = settings.username, settings.password_file
        password_file = SecretFile(path, "BALLAST_PROMETHEUS__PASSWORD_FILE") if path else None
        return lambda: basic(user, _read(password_file) if password_file else "")
    return None


def basic(user: str, password: str) -> str:
    """The header of basic authentication; names outside Latin-1 as UTF-8."""
    header: str = _basic_auth_str(user.encode(), password.encode())
    return header


def _read(file: SecretFile) -> str:
    try:
        return file.read()
    except SettingsError as error:
        raise SourceUnavailable(str(error)) from None
