"""The page at `/`, its files, and the routes of `/api/v1` that it is made of."""

import math
from collections.abc import Callable, Iterable
from functools import partial
from importlib.resources import files
from typing import Any

import msgspec
from anyio import CapacityLimiter, to_thread
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ballast.answers.evictions import Plan
from ballast.answers.ledger_answer import LedgerAnswer
from ballast.answers.views import PlanSummary
from ballast.base.errors import BallastError
from ballast.eviction.check_words import CHECK_WORDS
from ballast.serving import fleet_columns
from ballast.serving.board import Board, DaemonAnswers
from ballast.serving.cached_document import JSON, CachedDocument, Document
from ballast.serving.overview import overview, waits_to_see
from ballast.serving.rendering import Rendered

LONGEST = 253
"""Characters of a text to find."""

MOST_DAYS = 90


class PageApi:
    """The handlers over one board."""

    def __init__(self, board: Board, answers: DaemonAnswers) -> None:
        self._board, self._answers = board, answers
        self._one = CapacityLimiter(1)
        self._overview, self._summaries, self._spread = CachedDocument(), CachedDocument(), CachedDocument()

    def routes(self) -> list[BaseRoute]:
        """Every path."""
        return [
            Route("/api/v1/fleet", self.fleet),
            Route("/api/v1/fleet/loads", self.loads),
            Route("/api/v1/overview", self.overview),
            Route("/api/v1/ledger", self.ledger),
            Route("/api/v1/history", self.history),
            Route("/api/v1/nodes/{name}/history", self.node_history),
            Route("/api/v1/nodes/{name}/score", self.node_score),
            Route("/api/v1/nodes/{name}/pods", self.node_pods),
            Route("/api/v1/pods", self.pods),
            Route("/api/v1/pods/{namespace}/{name}/explain", self.explain),
            Route("/api/v1/plans/summaries", self.summaries),
            Route("/api/v1/plans/{name}", self.plan),
        ]

    async def fleet(self, request: Request) -> Response:
        """The names of all nodes."""
        return await self._require_rendered().fleet.response(request)

    async def loads(self, request: Request) -> Response:
        """The loads of all nodes, over one window (`?window=`) or in the past (`?at=`)."""
        rendered = self._require_rendered()
        if (text := request.query_params.get("at")) is not None:
            body = await run_in_threadpool(fleet_columns.past, rendered.snapshot, self._board.history, _time(text))
            if body is None:
                raise HTTPException(400, f"at={text}: nothing of that time is kept; see /api/v1/history")
            return await Document(lambda: body).response(request)
        window = request.query_params.get("window", next(iter(rendered.loads)))
        if window not in rendered.loads:
            raise HTTPException(400, f"window={window}: not one of {', '.join(rendered.loads)}")
        return await rendered.loads[window].response(request)

    async def overview(self, request: Request) -> Response:
        """The first screen."""
        board, snapshot = self._board, self._require_rendered().snapshot
        held = board.paused("eviction") or ("too many nodes are silent" if board.frozen else None)
        if held is None and not waits_to_see(board.conditions()):
            held = board.evictions.breaker
        facts = (id(snapshot), snapshot.time, board.plans, board.evictions, board.power, held)

        def build() -> bytes:
            document = overview(
                snapshot,
                board.history,
                board.high,
                now=snapshot.time,
                plans=facts[2],
                evictions=facts[3],
                power=facts[4],
                ledger=self._ledger(),
                held=held,
            )
            return msgspec.json.encode(document)

        return await self._overview.of(facts, build).response(request)

    async def ledger(self, request: Request) -> Response:
        """What was done and missed, by hour and by day."""
        try:
            ledger = await run_in_threadpool(self._answers.ledger)
        except BallastError as error:
            raise HTTPException(503, f"the ledger cannot be read: {error}", {"retry-after": "5"}) from error
        return await Document(partial(msgspec.json.encode, ledger)).response(request)

    async def history(self, request: Request) -> Response:
        """A day of the cluster."""
        snapshot = self._board.snapshot
        time = None if snapshot is None else snapshot.time
        build = partial(_encode, self._board.history.spread)
        return await self._spread.of((time,), build).response(request)

    async def node_history(self, request: Request) -> Response:
        """A day of one node; with `?days=` as many, from Prometheus."""
        name = request.path_params["name"]
        if (text := request.query_params.get("days")) is not None:
            return await self._long_history(name, text)
        document = await run_in_threadpool(self._board.history.node, name)
        if document is None:
            raise HTTPException(404, f"no node {name} in the last 24 hours")
        return await Document(partial(msgspec.json.encode, document)).response(request)

    async def _long_history(self, name: str, text: str) -> Response:
        if not (text.isascii() and text.isdigit() and len(text) <= 2 and 1 <= int(text) <= MOST_DAYS):
            raise HTTPException(400, f"days={text}: a whole number from 1 to {MOST_DAYS} is expected")
        if self._board.snapshot is None or name not in self._board.snapshot.rows:
            raise HTTPException(404, f"no node {name} among the selected ones")
        try:
            document = await to_thread.run_sync(self._board.long_history, name, int(text), limiter=self._one)
        except BallastError as error:
            raise HTTPException(503, str(error), {"retry-after": "30"}) from error
        if document is None:
            raise HTTPException(404, f"Prometheus has no ballast_node_load_mean of {name}: does it scrape Ballast?")
        return Response(msgspec.json.encode(document), media_type=JSON, headers={"cache-control": "no-store"})

    async def node_score(self, request: Request) -> Response:
        """The terms of one node's score."""
        name = request.path_params["name"]
        score = await run_in_threadpool(self._answers.node_score, name)
        if score is None:
            raise HTTPException(404, f"no node {name} among the selected ones")
        return await Document(partial(msgspec.json.encode, score)).response(request)

    async def node_pods(self, request: Request) -> Response:
        """The pods on a node."""
        pods = await run_in_threadpool(self._board.pods_on, request.path_params["name"])
        return await Document(partial(msgspec.json.encode, pods)).response(request)

    async def pods(self, request: Request) -> Response:
        """Pods by part of their name."""
        text = request.query_params.get("find", "")[:LONGEST]
        pods = await run_in_threadpool(self._board.find_pods, text)
        return await Document(partial(msgspec.json.encode, pods)).response(request)

    async def explain(self, request: Request) -> Response:
        """Why a pod may or may not be moved."""
        namespace, name = request.path_params["namespace"], request.path_params["name"]
        try:
            explanation = await run_in_threadpool(self._answers.explain, namespace, name)
        except BallastError as error:
            raise HTTPException(503, str(error), {"retry-after": "30"}) from error
        if explanation is None:
            raise HTTPException(404, f"no pod {namespace}/{name}")
        return await Document(partial(msgspec.json.encode, explanation)).response(request)

    async def summaries(self, request: Request) -> Response:
        """Recent plans, without steps and verdicts."""
        facts = self._board.plans
        return await self._summaries.of(facts, partial(_summarize, facts)).response(request)

    async def plan(self, request: Request) -> Response:
        """One plan by its id."""
        name = request.path_params["name"]
        plan = next((plan for plan in self._board.plans if plan.id == name), None)
        if plan is None:
            raise HTTPException(404, f"no plan {name} among the last ones")
        return await Document(partial(msgspec.json.encode, plan)).response(request)

    def _ledger(self) -> LedgerAnswer | None:
        try:
            return self._answers.ledger()
        except BallastError:
            return None

    def _require_rendered(self) -> Rendered:
        if self._board.rendered is None:
            raise HTTPException(503, "no cycle has ended yet, so nothing is known about any node")
        return self._board.rendered


def _time(text: str) -> float:
    try:
        time = float(text)
    except ValueError:
        time = math.nan
    if not math.isfinite(time):
        raise HTTPException(400, f"at={text}: a Unix time is expected")
    return time


def _summarize(plans: Iterable[Plan]) -> bytes:
    return msgspec.json.encode(
        [
            PlanSummary(
                id=plan.id,
                time=plan.time,
                mode=plan.mode,
                kind=plan.kind,
                before=plan.before,
                after=plan.after,
                moves=len(plan.steps),
                refused=sum(plan.refused.values()),
                sentence=plan.sentence,
            )
            for plan in plans
        ]
    )


def _encode(build: Any) -> bytes:
    return msgspec.json.encode(build())


POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {"content-security-policy": POLICY, "x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}
_VIEWS = "fleet wall drawing incident overview nodes node pods plans evictions power"
WORDS = "/page/words.js"
SCRIPTS = ("page", "early", "common", *_VIEWS.split(), "chart", "uplot")
ICONS = ("icon", "icon-warn", "icon-bad")
FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    **{f"/page/{name}.css": (f"{name}.css", "text/css; charset=utf-8") for name in ("page", "dark")},
    **{f"/page/{name}.svg": (f"{name}.svg", "image/svg+xml") for name in ICONS},
    "/page/uplot.LICENSE.txt": ("uplot.LICENSE.txt", "text/plain; charset=utf-8"),
    **{f"/page/{name}.js": (f"{name}.js", "text/javascript; charset=utf-8") for name in SCRIPTS},
}


def routes() -> list[BaseRoute]:
    """The page at `/` and its files under `/page`."""
    words = b"export const CHECKS = " + msgspec.json.encode(CHECK_WORDS) + b";\n"
    return [
        Route(WORDS, _File(lambda: words, "text/javascript; charset=utf-8").answer),
        *(Route(path, _File(_read(name), media_type).answer) for path, (name, media_type) in FILES.items()),
    ]


def _read(name: str) -> Callable[[], bytes]:
    return (files("ballast.serving") / "page" / name).read_bytes


class _File:
    def __init__(self, build: Callable[[], bytes], media_type: str) -> None:
        self._document = Document(build, media_type)

    async def answer(self, request: Request) -> Response:
        response = await self._document.response(request)
        response.headers.update(HEADERS)
        return response
