"""Who may send requests: callers of the extender, browsers by the Host that they name, tokens of the cluster."""

import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from ipaddress import ip_address

import structlog
from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ballast.base.clock import Clock
from ballast.base.errors import ClusterError, SettingsError
from ballast.cluster.token_review import TokenVerdict
from ballast.serving.direct_answers import RequestHead
from ballast.serving.probes import PROBES, is_verbose
from ballast.settings.plain_parts import ExtenderSettings
from ballast.settings.secrets import SecretFile

_OF_BROWSERS = frozenset((b"origin", b"referer", b"cookie", b"accept-language"))

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

    @property
    def prove(self) -> bool:
        """Whether who is let in has proved who it is: something is asked for."""
        return self._file is not None or self._certificates

    def lets_in(self, head: RequestHead, token: str) -> bool:
        """Everybody where nothing is asked for; `token` is that of the path. What counts is the token in the file now,
        or the last usable one.
        """
        if self._certificates and head.certified:
            return True
        if self._file is None:
            return not self._certificates
        with suppress(SettingsError):
            self._token = self._file.read().strip() or self._token
        if _same(token, self._token):
            return True
        scheme, _, shown = head.header(b"authorization").decode("latin-1").partition(" ")
        return scheme.lower() == "bearer" and _same(shown.strip(), self._token)


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
        self._allowed = lowered(allowed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "http" and (text := misdirected(scope["headers"], self._allowed)) is not None:
            self._on_refused(421)
            await JSONResponse({"error": text}, status_code=421)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def lowered(hosts: Iterable[str]) -> frozenset[str]:
    """The names of hosts as they are compared."""
    return frozenset(name.lower() for name in hosts)


def misdirected(pairs: Iterable[tuple[bytes, bytes]], allowed: Collection[str]) -> str | None:
    """Why a browser with these headers is not answered; None for others, and where it names a host of ours."""
    headers = dict(pairs)
    if not _is_browser(headers):
        return None
    name = _name(headers.get(b"host", b"").decode("latin-1"))
    if _is_own(name, allowed):
        return None
    return f"Host {name[:100]!r} is not this server. BALLAST_HTTP__ALLOWED_HOSTS={name[:100]} allows it."


def _is_own(name: str, allowed: Collection[str]) -> bool:
    if not name or "." not in name or name in allowed or name.endswith(PRIVATE):
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
"""Requests a second that a caller may go on with."""

BURST = 20.0
"""Requests that a caller may send at once after a pause."""

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


REMEMBERED = 1000
"""Allowed tokens, and refused ones, that are kept; then the one that was kept longest is forgotten."""

ALLOWED_FOR = 60.0
"""Seconds for which a token stays allowed without another review."""

REFUSED_FOR = 10.0
"""Seconds for which a token stays refused."""

AT_ONCE = 4
"""Reviews that are under way."""

Review = Callable[[str, str], TokenVerdict]
"""Of a token and the path; raises ClusterError."""

TokenKey = tuple[bytes, str]
"""The hash of a token, and the path."""

log = structlog.get_logger("ballast")


class Reviewed:
    """Answers 401 for an unknown token, 403 without the right to `get` the path, 429 for too many tokens.

    Answers 503 while the API server does not answer. `paths` are whole paths, or prefixes where they end with a slash;
    those are asked for as such, so that one right covers the whole. Details of probes are part of `/api/`. Verdicts are
    kept by the hash of the token. Tokens that were allowed have a rate of their own, which strangers do not use up.
    """

    def __init__(
        self,
        app: ASGIApp,
        review: Review,
        paths: Collection[str],
        clock: Clock,
        refused: Callable[[int], object] = lambda code: None,
    ) -> None:
        """`refused` is called with the code of each refusal."""
        self._app = app
        self._on_refused = refused
        self._review = review
        self._paths = tuple(paths)
        self._clock = clock
        self._allowed: OrderedDict[TokenKey, tuple[float, TokenVerdict]] = OrderedDict()
        self._refused: OrderedDict[TokenKey, tuple[float, TokenVerdict]] = OrderedDict()
        self._of_known = RateLimit(clock), CapacityLimiter(AT_ONCE)
        self._of_strangers = RateLimit(clock), CapacityLimiter(AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        request = Request(scope) if scope["type"] == "http" else None
        path = self._required_path(request) if request else None
        refusal = await self._review_token(request, path) if request and path else None
        if refusal is not None:
            self._on_refused(refusal.status_code)
        await (refusal or self._app)(scope, receive, send)

    def _required_path(self, request: Request) -> str | None:
        """What a caller needs the right to `get`; None where anybody may."""
        clean = "/" + request.scope["path"].lstrip("/")
        if clean in PROBES and is_verbose(request):
            clean = "/api/"
        for guarded in self._paths:
            if clean == guarded or (guarded.endswith("/") and clean.startswith(guarded)):
                return guarded
        return None

    async def _review_token(self, request: Request, path: str) -> JSONResponse | None:
        """The refusal; None where the token may `get` the path."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return _answer(401, "Show a token of the cluster: Authorization: Bearer TOKEN.")
        key = (hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest(), path)
        verdict = self._recall(key)
        if verdict is None:
            known = key in self._allowed
            rate, limiter = self._of_known if known else self._of_strangers
            if wait := rate.wait(key[0].hex() if known else request.client.host if request.client else ""):
                return _answer(429, "Too many tokens were shown; try again later.", {"retry-after": f"{wait:.0f}"})
            try:
                verdict = await to_thread.run_sync(self._review, token, path, limiter=limiter)
            except ClusterError as error:
                log.debug("a token cannot be reviewed", problem=str(error))
                return _answer(503, "The API server does not review tokens now.", {"retry-after": "5"})
            self._remember(key, verdict)
        if verdict is TokenVerdict.ALLOWED:
            return None
        if verdict is TokenVerdict.FORBIDDEN:
            return _answer(403, f"This token may not get {path}; a ClusterRole with nonResourceURLs allows it.")
        return _answer(401, "The cluster does not know this token.")

    def _recall(self, key: TokenKey) -> TokenVerdict | None:
        until, verdict = self._allowed.get(key) or self._refused.get(key) or (0.0, TokenVerdict.UNKNOWN)
        return verdict if self._clock.monotonic() < until else None

    def _remember(self, key: TokenKey, verdict: TokenVerdict) -> None:
        allowed = verdict is TokenVerdict.ALLOWED
        self._allowed.pop(key, None)
        self._refused.pop(key, None)
        kept = self._allowed if allowed else self._refused
        kept[key] = (self._clock.monotonic() + (ALLOWED_FOR if allowed else REFUSED_FOR), verdict)
        if len(kept) > REMEMBERED:
            kept.popitem(last=False)


def _answer(status: int, said: str, headers: dict[str, str] | None = None) -> JSONResponse:
    more = {"www-authenticate": "Bearer"} if status == 401 else {}
    return JSONResponse({"error": said}, status_code=status, headers={**more, **(headers or {})})
