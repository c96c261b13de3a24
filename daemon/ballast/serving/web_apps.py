"""The routes of the HTTP server. All of them are read only."""

import gzip
from collections.abc import Collection, Sequence

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from ballast.base.clock import SystemClock
from ballast.base.metrics import Metrics
from ballast.base.text import printable
from ballast.serving import page_api
from ballast.serving.api_routes import Api
from ballast.serving.board import Board, DaemonAnswers
from ballast.serving.cached_document import GZIP_LEVEL, accepts_gzip
from ballast.serving.callers import BrowserHosts, Callers, Review, Reviewed, lowered
from ballast.serving.exposition import Exposition
from ballast.serving.extender import ExtenderRoutes, Scheduling
from ballast.serving.probes import HealthRoutes
from ballast.serving.refusals import Refusals
from ballast.serving.standby import Standby
from ballast.serving.watcher import Watcher

MAX_BODY = 64 * 1024
"""Bytes of a request's body."""


def create_app(
    board: Board,
    metrics: Metrics,
    scheduling: Scheduling | None = None,
    callers: Callers | None = None,
    hosts: Collection[str] = (),
    reviewed: tuple[Review, Collection[str]] | None = None,
    answers: DaemonAnswers | None = None,
    refusals: Refusals | None = None,
) -> Starlette:
    """The application over one board; with `scheduling` also the extender, which asks `callers`.

    Browsers are answered by addresses, names of the cluster and `hosts`. `reviewed`: who reviews
    tokens, and the paths that need one. `answers`: whom to ask; without it, everything is ready and unknown.

    Bodies above `MAX_BODY` bytes are answered 413; the extender has a limit of its own.
    """
    answers, refusals = answers or DaemonAnswers(), refusals or Refusals(metrics, SystemClock(), "page")
    watcher, health = Watcher(board), HealthRoutes(board, answers)
    exposition = Exposition(board, metrics)

    async def metrics_handler(request: Request) -> Response:
        headers = {"vary": "accept, accept-encoding"}
        body, content_type = await run_in_threadpool(exposition.render, request.headers.get("accept", ""))
        if accepts_gzip(request.headers.get("accept-encoding", "")):
            body = await run_in_threadpool(gzip.compress, body, GZIP_LEVEL, mtime=0)
            headers["content-encoding"] = "gzip"
        return Response(body, headers=headers | {"content-type": content_type})

    extender = (
        ExtenderRoutes(scheduling, SystemClock(), metrics, refusals, callers, lowered(hosts)) if scheduling else None
    )
    routes = [
        Route("/watcher", watcher.metrics, methods=["GET", "POST"]),
        Route("//watcher", watcher.metrics, methods=["GET", "POST"]),
        Route("/watcher/health", watcher.health, methods=["GET", "POST"]),
        Route("/metrics", metrics_handler),
        Route("/livez", health.livez),
        Route("/readyz", health.readyz),
        *Api(board, answers).routes(),
        *page_api.routes(),
    ]
    around = [Middleware(BrowserHosts, hosts, refusals.count)]
    if reviewed is not None:
        around.append(Middleware(Reviewed, *reviewed, SystemClock(), refusals.count))
    if answers.leader is not None:
        around.append(Middleware(Standby, answers.leader))
    return _app(routes, refusals, around, extender)


def create_health_app(
    board: Board, refusals: Refusals, answers: DaemonAnswers, reviewed: tuple[Review, Collection[str]] | None = None
) -> Starlette:
    """`/livez` and `/readyz` alone; `reviewed` as of `create_app`."""
    health = HealthRoutes(board, answers)
    around = [Middleware(Reviewed, *reviewed, SystemClock(), refusals.count)] if reviewed else []
    return _app([Route("/livez", health.livez), Route("/readyz", health.readyz)], refusals, around)


def create_extender_app(
    metrics: Metrics, scheduling: Scheduling, refusals: Refusals, callers: Callers | None = None
) -> Starlette:
    """The extender alone."""
    extender = ExtenderRoutes(scheduling, SystemClock(), metrics, refusals, callers)
    return _app([], refusals, extender=extender)


def _app(
    routes: Sequence[BaseRoute],
    refusals: Refusals,
    middleware: Sequence[Middleware] = (),
    extender: ExtenderRoutes | None = None,
) -> Starlette:
    """`app.state.take` takes what schedulers ask before ASGI does; no route knows it."""

    async def error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code < 500:
            refusals.count(error.status_code)
        return JSONResponse({"error": printable(error.detail)}, status_code=error.status_code, headers=error.headers)

    app = Starlette(
        routes=routes,
        middleware=middleware,
        exception_handlers={HTTPException: error, ClientDisconnect: _gone},
        max_body_size=MAX_BODY,
    )
    app.router.redirect_slashes = False
    if extender is not None:
        app.state.take = extender.take
    return app


async def _gone(request: Request, error: Exception) -> Response:
    return Response(status_code=400)
