"""Guards paths: callers need a token that the cluster knows and allows to `get` them."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Collection

import structlog
from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ballast.base.clock import Clock
from ballast.base.errors import ClusterError
from ballast.cluster.token_review import TokenVerdict
from ballast.serving.callers import RateLimit

REMEMBERED = 1000
"""Tokens whose verdicts are kept; then the one that was kept longest is forgotten."""

ALLOWED_FOR, REFUSED_FOR = 60.0, 10.0
"""Seconds that a verdict counts."""

AT_ONCE = 4
"""Reviews that are under way."""

Review = Callable[[str, str], TokenVerdict]
"""Of a token and the path; raises ClusterError."""

log = structlog.get_logger("ballast")


class Reviewed:
    """Answers 401 for an unknown token, 403 without the right to `get` the path, 429 for too many tokens.

    Answers 503 while the API server does not answer. `paths` are whole paths, or prefixes where they end with a slash;
    those are asked for as such, so that one right covers the whole. Verdicts are kept by the hash of the token.
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
        self._kept: OrderedDict[tuple[bytes, str], tuple[float, TokenVerdict]] = OrderedDict()
        self._rate = RateLimit(clock)
        self._limiter = CapacityLimiter(AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        path = self._guarded(scope["path"]) if scope["type"] == "http" else None
        refused = None if path is None else await self._refused(Request(scope), path)
        if refused is not None:
            self._on_refused(refused.status_code)
        await (refused or self._app)(scope, receive, send)

    def _guarded(self, path: str) -> str | None:
        """What a caller needs the right to `get`; None where anybody may."""
        clean = "/" + path.lstrip("/")
        for each in self._paths:
            if clean == each or (each.endswith("/") and clean.startswith(each)):
                return each
        return None

    async def _refused(self, request: Request, path: str) -> JSONResponse | None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return _answer(401, "Show a token of the cluster: Authorization: Bearer TOKEN.")
        key = (hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest(), path)
        verdict = self._remembered(key)
        if verdict is None:
            if wait := self._rate.wait(request.client.host if request.client else ""):
                return _answer(429, "Too many tokens were shown; try again later.", {"retry-after": f"{wait:.0f}"})
            try:
                verdict = await to_thread.run_sync(self._review, token, path, limiter=self._limiter)
            except ClusterError as error:
                log.warning("a token cannot be reviewed", problem=str(error))
                return _answer(503, "The API server does not review tokens now.", {"retry-after": "5"})
            self._remember(key, verdict)
        if verdict is TokenVerdict.ALLOWED:
            return None
        if verdict is TokenVerdict.FORBIDDEN:
            return _answer(403, f"This token may not get {path}; a ClusterRole with nonResourceURLs allows it.")
        return _answer(401, "The cluster does not know this token.")

    def _remembered(self, key: tuple[bytes, str]) -> TokenVerdict | None:
        until, verdict = self._kept.get(key, (0.0, TokenVerdict.UNKNOWN))
        return verdict if self._clock.monotonic() < until else None

    def _remember(self, key: tuple[bytes, str], verdict: TokenVerdict) -> None:
        lasts = ALLOWED_FOR if verdict is TokenVerdict.ALLOWED else REFUSED_FOR
        self._kept.pop(key, None)
        self._kept[key] = (self._clock.monotonic() + lasts, verdict)
        if len(self._kept) > REMEMBERED:
            self._kept.popitem(last=False)


def _answer(status: int, said: str, headers: dict[str, str] | None = None) -> JSONResponse:
    more = {"www-authenticate": "Bearer"} if status == 401 else {}
    return JSONResponse({"error": said}, status_code=status, headers={**more, **(headers or {})})
