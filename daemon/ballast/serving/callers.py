"""Who may ask: a token or a certificate of the extender's callers, and the Host that a browser names."""

from __future__ import annotations

import hmac
from collections import OrderedDict
from collections.abc import Callable, Collection
from contextlib import suppress
from ipaddress import ip_address

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ballast.base.clock import Clock
from ballast.base.errors import SettingsError
from ballast.settings.parts import ExtenderSettings
from ballast.settings.secrets import SecretFile

_OF_BROWSERS = frozenset((b"origin", b"referer", b"cookie", b"accept-language"))

CERTIFIED = "certified"
"""Key of a request's state: whether the client showed a certificate that was verified."""

PRIVATE = (".svc", ".local", ".localhost", ".internal")
"""Ends of names that nobody can register in the public DNS."""


class Callers:
    """Lets in whoever shows the token or, where certificates count, one that was verified."""

    def __init__(self, settings: ExtenderSettings) -> None:
        """Raises SettingsError for a token file that cannot be used."""
        self._file = SecretFile(settings.token_file, "BALLAST_EXTENDER__TOKEN_FILE") if settings.token_file else None
        self._token = self._file.read().strip() if self._file else ""
        if self._file and not self._token:
            raise SettingsError(f"BALLAST_EXTENDER__TOKEN_FILE={settings.token_file} holds blanks alone.")
        self._certificates = settings.client_ca_file is not None

    @property
    def takes_tokens(self) -> bool:
        """Whether a token may stand in the path."""
        return self._file is not None

    def lets_in(self, request: Request) -> bool:
        """Everybody where nothing is asked for. The token is the one in the file now, or the last usable one."""
        if self._certificates and getattr(request.state, CERTIFIED, False):
            return True
        if self._file is None:
            return not self._certificates
        with suppress(SettingsError):
            self._token = self._file.read().strip() or self._token
        scheme, _, shown = request.headers.get("authorization", "").partition(" ")
        by_path = _same(str(request.path_params.get("token", "")), self._token)
        return (scheme.lower() == "bearer" and _same(shown.strip(), self._token)) or by_path


def _same(shown: str, token: str) -> bool:
    return hmac.compare_digest(shown.encode("utf-8", "surrogateescape"), token.encode())


class BrowserHosts:
    """Answers 421 to browsers that name a host which may be a stranger's: DNS rebinding would let its page read ours.

    Allowed are addresses, names without a dot, names that end as in `PRIVATE`, and `allowed` ones. Others than browsers
    are not asked. `refused` is called with the code.
    """

    def __init__(
        self, app: ASGIApp, allowed: Collection[str] = (), refused: Callable[[int], object] = lambda code: None
    ) -> None:
        self._app = app
        self._on_refused = refused
        self._allowed = {name.lower() for name in allowed}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "http" and _is_browser(headers := dict(scope["headers"])):
            name = _name(headers.get(b"host", b"").decode("latin-1"))
            if not self._own(name):
                text = f"Host {name[:100]!r} is not this server. BALLAST_HTTP__ALLOWED_HOSTS={name[:100]} allows it."
                self._on_refused(421)
                await JSONResponse({"error": text}, status_code=421)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _own(self, name: str) -> bool:
        if not name or "." not in name or name in self._allowed or name.endswith(PRIVATE):
            return True
        try:
            ip_address(name)
        except ValueError:
            return False
        return True


def _is_browser(headers: dict[bytes, bytes]) -> bool:
    """By more than the name, which a page may choose: no program that is meant to ask sends these headers."""
    return (
        headers.get(b"user-agent", b"").startswith(b"Mozilla/")
        or not headers.keys().isdisjoint(_OF_BROWSERS)
        or any(name.startswith(b"sec-fetch-") for name in headers)
    )


def _name(host: str) -> str:
    """Without port, brackets and the dot at the end, in lower case."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].rstrip(".").lower()


RATE = 5.0
BURST = 20.0
"""Requests a second that a caller may go on with, and how many at once after a pause."""

MOST_CALLERS = 1000
"""Callers that are remembered; then the one that asked longest ago is forgotten."""


class RateLimit:
    """A token bucket for each address. For one event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._callers: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, caller: str) -> float:
        """Seconds until this caller may ask; 0 if it may now, which is then counted."""
        now = self._clock.monotonic()
        left, then = self._callers.pop(caller, (BURST, now))
        left = min(BURST, left + RATE * (now - then))
        allowed = left >= 1.0
        self._callers[caller] = (left - 1.0 if allowed else left, now)
        if len(self._callers) > MOST_CALLERS:
            self._callers.popitem(last=False)
        return 0.0 if allowed else (1.0 - left) / RATE
