"""`/api/v1`: the daemon's state as JSON, read only. The answers are the types of `ballast.answers`."""

import math
from collections.abc import Iterable
from functools import partial
from typing import Any

import msgspec
from anyio import CapacityLimiter, to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ballast import __version__
from ballast.answers.api import CycleRecord, SnapshotSummary, Status
from ballast.base.clock import SystemClock
from ballast.base.errors import BallastError
from ballast.base.parts import Part
from ballast.model.snapshot import Snapshot
from ballast.serving import activity
from ballast.serving.board import Board, DaemonAnswers
from ballast.serving.cached_document import JSON, CachedDocument, printable_json
from ballast.serving.callers import RateLimit
from ballast.serving.openapi import DOCUMENT
from ballast.serving.overview import count_hot, headline, own_troubles, told, troubles
from ballast.serving.page_api import PageApi
from ballast.serving.rendering import Rendered
from ballast.serving.standby import LeaderQuestions, merge_status
from ballast.settings import Duration


class Api:
    """The handlers over one board."""

    def __init__(self, board: Board, answers: DaemonAnswers) -> None:
        self._board, self._answers = board, answers
        self._limit, self._one = RateLimit(SystemClock()), CapacityLimiter(1)
        self._leader = answers.leader
        if answers.leader is not None:
            self._questions = LeaderQuestions(answers.leader)
        self._power, self._plans, self._evictions = CachedDocument(), CachedDocument(), CachedDocument()

    def routes(self) -> list[BaseRoute]:
        """Every path under `/api/v1`."""
        return [
            Route("/api/v1/status", self.status),
            Route("/api/v1/nodes", self.nodes),
            Route("/api/v1/nodes/{name}", self.node),
            Route("/api/v1/pods/{namespace}/{name}/scores", self.pod_scores),
            Route("/api/v1/cycles", self.cycles),
            Route("/api/v1/config", self.config),
            Route("/api/v1/power", self.power),
            Route("/api/v1/plans", self.plans),
            Route("/api/v1/evictions", self.evictions),
            Route("/api/v1/openapi.json", self.openapi),
            *PageApi(self._board, self._answers).routes(),
        ]

    async def status(self, request: Request) -> Response:
        """The daemon at a glance: data, parts, the last run of each job, conditions."""
        board = self._board
        now, leader, conditions = board.clock.wall(), board.leader(), board.conditions()
        status = Status(
            version=__version__,
            time=now,
            leader=leader,
            ready=all(check.ok for check in self._answers.ready()),
            frozen=board.frozen,
            current=board.current() is not None,
            modes={part: self._mode(part) for part in Part},
            planners=board.planners,
            paused={part: board.paused(part) for part in Part},
            interval=self._setting("BALLAST_TELEMETRY__INTERVAL"),
            snapshot=None if board.snapshot is None else _summary(board.snapshot, now),
            jobs=_last(tuple(board.cycles)),
            conditions=conditions,
            troubles=[],
            wrong=[],
        )
        own = list(own_troubles(status))
        if self._leader is not None and self._leader.follows():
            try:
                return self._told(merge_status(status, await self._questions.ask(request)))
            except BallastError as error:
                own.append(("LeaderUnreachable", str(error)))
        found = troubles(conditions, leader=leader, own=own)
        interval = float(Duration(str(status.interval))) if status.interval else 0.0
        return self._told(msgspec.structs.replace(status, troubles=found, wrong=told(found, status, interval)))

    def _told(self, status: Status) -> Response:
        """With its headline."""
        board = self._board
        hot = 0 if board.snapshot is None else count_hot(board.snapshot, board.high)
        return _json(msgspec.structs.replace(status, headline=headline(status, status.wrong, hot)))

    async def nodes(self, request: Request) -> Response:
        """All nodes over one window (`?window=`, by default the first length)."""
        rendered = self._require_rendered()
        window = request.query_params.get("window", next(iter(rendered.nodes)))
        if window not in rendered.nodes:
            raise HTTPException(400, f"window={window}: not one of {', '.join(rendered.nodes)}")
        return await rendered.nodes[window].response(request)

    async def node(self, request: Request) -> Response:
        """One node over every window."""
        name = request.path_params["name"]
        body = self._require_rendered().node(name)
        if body is None:
            raise HTTPException(404, f"no node {name} among the selected ones")
        return Response(body, media_type=JSON)

    async def pod_scores(self, request: Request) -> Response:
        """The scores of every node for one pod, by each of the extender's strategies."""
        namespace, name = request.path_params["namespace"], request.path_params["name"]
        if wait := self._limit.wait(request.client.host if request.client else ""):
            raise HTTPException(429, "too many requests; ask again later", {"retry-after": str(math.ceil(wait))})
        scores = await to_thread.run_sync(self._answers.pod_scores, namespace, name, limiter=self._one)
        if scores is None:
            raise HTTPException(404, f"no pod {namespace}/{name}")
        return _json(scores)

    async def cycles(self, request: Request) -> Response:
        """Recent cycles, newest first."""
        return _json(tuple(self._board.cycles)[::-1])

    async def config(self, request: Request) -> Response:
        """Every setting, as `ballast config show -o json` prints it."""
        return _json(self._board.config, own=True)

    async def power(self, request: Request) -> Response:
        """Every power policy: its watts, state, targets and recent changes."""
        facts = self._board.power, self._mode("power"), self._board.conditions()
        return await self._power.of(facts, partial(activity.power, *facts)).response(request)

    async def plans(self, request: Request) -> Response:
        """Recent eviction plans, newest first."""
        facts = self._board.plans
        return await self._plans.of(facts, partial(activity.plans, facts)).response(request)

    async def evictions(self, request: Request) -> Response:
        """Recent evictions and their outcome, and the room that is held for pods."""
        facts = self._board.evictions, self._mode("eviction")
        return await self._evictions.of(facts, partial(activity.evictions, *facts)).response(request)

    async def openapi(self, request: Request) -> Response:
        """The OpenAPI document of all of these."""
        return _json(DOCUMENT, own=True)

    def _mode(self, part: str) -> Any:
        return self._setting(f"BALLAST_{part.upper()}__MODE")

    def _setting(self, name: str) -> Any:
        return next((entry["value"] for entry in self._board.config if entry["name"] == name), None)

    def _require_rendered(self) -> Rendered:
        if self._board.rendered is None:
            raise HTTPException(503, "no cycle has ended yet, so nothing is known about any node")
        return self._board.rendered


def _summary(snapshot: Snapshot, now: float) -> SnapshotSummary:
    return SnapshotSummary(
        time=snapshot.time,
        age=max(0.0, now - snapshot.time),
        windows=list(snapshot.windows),
        nodes=len(snapshot.nodes),
        **{state.value: count for state, count in snapshot.states.counts.items()},
        sources=snapshot.sources,
    )


def _last(cycles: Iterable[CycleRecord]) -> list[CycleRecord]:
    return list({cycle.job: cycle for cycle in cycles}.values())


def _json(value: Any, *, own: bool = False) -> Response:
    """`own`: all its texts are of this project or of its settings."""
    body = msgspec.json.encode(value)
    return Response(body if own else printable_json(body), media_type=JSON, headers={"cache-control": "no-store"})
