"""What a standby answers: the documents of acting parts come from the leader, or not at all."""

import gzip
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec
from anyio import CapacityLimiter, WouldBlock, to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ballast.answers.api import Status
from ballast.base.errors import NOT_JSON, BallastError
from ballast.cluster.leader_page import FORWARDED, LeaderAnswer

ACTING = ("power", "plans", "evictions", "overview", "ledger", "history")
"""What the leader alone knows; all below these paths too. A copy of it from before would be told as if it held now."""

AT_ONCE = 8
"""Requests that are passed on at a time."""

GetFromLeader = Callable[[str, Mapping[str, str]], LeaderAnswer]
"""A path with its query, and the headers of the caller; raises LeaderUnreachable."""


@dataclass(frozen=True)
class Leader:
    """`follows`: whether another replica leads, or none, and this one would act if it led."""

    follows: Callable[[], bool]
    get: GetFromLeader


class LeaderQuestions:
    """Passes requests on to the leader, AT_ONCE at a time."""

    def __init__(self, leader: Leader) -> None:
        self._leader = leader
        self._limiter = CapacityLimiter(AT_ONCE)

    async def ask(self, request: Request) -> LeaderAnswer:
        """The leader's answer to the same request. Raises BallastError that says whose answer is missing."""
        if FORWARDED in request.headers:
            raise BallastError("this replica was asked as the leader, and does not lead any more")
        path = request.scope["path"] + (f"?{request.url.query}" if request.url.query else "")
        try:
            self._limiter.acquire_on_behalf_of_nowait(request)
        except WouldBlock:
            raise BallastError(f"{AT_ONCE} requests to the leader are under way; ask again in a second") from None
        try:
            return await to_thread.run_sync(self._leader.get, path, dict(request.headers))
        finally:
            self._limiter.release_on_behalf_of(request)


class Standby:
    """Middleware: while this replica follows, the leader answers. What was passed on once is not passed on again."""

    def __init__(self, app: ASGIApp, leader: Leader) -> None:
        self._app, self._leader, self._questions = app, leader, LeaderQuestions(leader)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        answer = None
        if scope["type"] == "http" and self._leader.follows():
            answer = await self._answer(Request(scope), scope["path"])
        await (answer or self._app)(scope, receive, send)

    async def _answer(self, request: Request, path: str) -> Response | None:
        """None: this replica answers by itself."""
        if not _below(path, tuple(f"/api/v1/{name}" for name in ACTING)) and not path.endswith("/explain"):
            return None
        try:
            answer = await self._questions.ask(request)
        except BallastError as error:
            missing = {"retry-after": "2", "cache-control": "no-store"}
            return JSONResponse({"error": str(error)}, 503, headers=missing)
        return Response(answer.body, answer.status, dict(answer.headers))


def merge_status(own: Status, answer: LeaderAnswer) -> Status:
    """The status of a standby: its own data, and what the leader says of acting parts and of what is wrong.

    Raises BallastError for an answer that is none.
    """
    if answer.status != 200:
        raise BallastError(f"the leader answers {answer.status}")
    packed = answer.headers.get("content-encoding") == "gzip"
    try:
        leaders = _decoder.decode(gzip.decompress(answer.body) if packed else answer.body)
    except (*NOT_JSON, OSError, EOFError) as error:
        raise BallastError(f"the leader's status cannot be read: {error}") from error
    return msgspec.structs.replace(
        own,
        jobs=leaders.jobs,
        conditions=leaders.conditions,
        troubles=leaders.troubles,
        wrong=leaders.wrong,
        paused=leaders.paused,
    )


_decoder = msgspec.json.Decoder(Status)


def _below(path: str, paths: tuple[str, ...]) -> bool:
    return any(path == one or path.startswith(f"{one}/") for one in paths)
