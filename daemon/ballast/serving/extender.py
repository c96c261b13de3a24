"""`/scheduler/prioritize` and `/scheduler/filter`, the HTTP extender that kube-scheduler asks before it binds a pod."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np
import structlog
from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from ballast.base.body_budget import BodiesInFlight, BodyBudget
from ballast.base.clock import Clock
from ballast.base.errors import NOT_JSON, BallastError, UsageError, without_frames
from ballast.base.freed_memory import FreedMemory
from ballast.base.metrics import Metrics
from ballast.base.text import printable
from ballast.cluster.objects import wire
from ballast.placement.choice import NEUTRAL
from ballast.serving.cached_document import JSON
from ballast.serving.callers import Callers, is_browser
from ballast.serving.extender_wire import FilterArgs, TooManyNames, filter_args, pod_bytes, prioritize_args
from ballast.serving.host_index import Hosts, Named
from ballast.serving.refusals import Refusals

MAX_BODY = 64 * 1024 * 1024
"""Bytes; 5,000 whole nodes, as a scheduler without nodeCacheCapable sends them, are about 45 MB."""

INLINE = 1024 * 1024
"""Bytes of a body. Above them a thread answers, one request at a time, so that other answers are not delayed."""

INLINE_POD = 64 * 1024
"""The same for the pod in the body."""

PAUSES = (0.002, 0.004, 0.008, 0.016, 0.032, 0.032)
"""Seconds between looks for a pod that the watch has not shown yet."""

MOST_WAITING = 32
"""Requests that may wait for such a pod at the same time."""

NEUTRAL_HEADER = "x-ballast-neutral"
"""The header that says why a scheduler got a neutral answer."""

AGE_HEADER, LAG_HEADER = "x-ballast-snapshot-age", "x-ballast-watch-lag"
"""Headers that say how late load and the watch of pods were for an answer, in seconds."""

FAILED = "failed"
"""Why an answer is neutral after an unexpected exception."""

_Decide = Callable[[], tuple[bytes, dict[str, str]]]

_WHO = (
    "Who asks? Show the token as Authorization: Bearer or as /scheduler/TOKEN/prioritize, or a certificate; "
    "`ballast profile extender --tls` prints what kube-scheduler needs."
)

log = structlog.get_logger("ballast.extender")


@dataclass(frozen=True)
class Priorities:
    """The body of an answer; `neutral` says why all nodes have the same score, where too little is known.

    `snapshot_age` and `watch_lag` are how late load and pods were when it was made, in seconds; None where unknown.
    """

    body: bytes
    neutral: str | None = None
    snapshot_age: float | None = None
    watch_lag: float | None = None

    @property
    def headers(self) -> dict[str, str]:
        """What a caller is told beside the points."""
        headers = {} if self.neutral is None else {NEUTRAL_HEADER: self.neutral}
        late = {AGE_HEADER: self.snapshot_age, LAG_HEADER: self.watch_lag}
        return headers | {name: f"{seconds:.1f}" for name, seconds in late.items() if seconds is not None}


@dataclass(frozen=True)
class Rejections:
    """{node: why it is rejected}; `neutral` says why no node was examined."""

    nodes: Mapping[str, str] = field(default_factory=dict)
    neutral: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        """What a caller is told beside the names."""
        return {} if self.neutral is None else {NEUTRAL_HEADER: self.neutral}


def equal(named: Named, neutral: str) -> Priorities:
    """The same score for all nodes."""
    return Priorities(named.priorities(np.full(len(named.names), NEUTRAL)), neutral)


class Scheduling(Protocol):
    """Makes the decisions. Both methods may be called from any thread."""

    def prioritize(
        self, pod: wire.Pod, names: Sequence[str], profile: str | None, *, proved: bool = False
    ) -> Priorities:
        """Scores these nodes, for a caller who has `proved` who it is or not. Raises UsageError when `profile` is not
        a strategy.
        """

    def filter(self, pod: wire.Pod, names: Sequence[str]) -> Rejections:
        """Rejects those of these nodes that must not get the pod."""

    def awaits(self, pod: wire.Pod) -> bool:
        """Whether room may be held for this pod, which the watch has not shown yet."""

    def follow(self, busy: Callable[[], bool]) -> None:
        """`busy` tells from now on whether a request arrives or is being answered."""


class ExtenderRoutes:
    """The handlers.

    401 for a caller who may not ask, 415 for anything but JSON, 400 for a body that cannot be read or has a field that
    is too large, 413 above `MAX_BODY` and `MOST_NAMES`, 503 while other bodies take all memory there is for them. Never
    another 5xx: an unexpected exception is logged, and all nodes get the same score.
    """

    def __init__(
        self, scheduling: Scheduling, clock: Clock, metrics: Metrics, refusals: Refusals, callers: Callers | None = None
    ) -> None:
        self._scheduling = scheduling
        self._callers = callers
        self._clock = clock
        self._requests = metrics.extender_requests
        self._neutral = metrics.extender_neutral
        self._seconds = metrics.extender_seconds
        self._refusals = refusals
        self.bodies = BodyBudget(freed=FreedMemory().give_back_later)
        scheduling.follow(self.bodies.busy)
        self._one = CapacityLimiter(1)
        self._waiting = 0
        self._verbs = {"prioritize": self.prioritize, "filter": self.filter}

    def routes(self) -> list[Route]:
        """Both paths, also with a token before the verb where callers may show one."""
        places = ["/scheduler", *(["/scheduler/{token:path}"] if self._callers and self._callers.takes_tokens else ())]
        return [
            Route(f"{place}/{verb}", handler, methods=["POST"], max_body_size=MAX_BODY)
            for place in places
            for verb, handler in self._verbs.items()
        ]

    async def prioritize(self, request: Request) -> Response:
        """Scores nodes by the strategy of the settings, or by the one of `?profile=`."""
        return await self._respond("prioritize", request)

    async def filter(self, request: Request) -> Response:
        """Rejects nodes that are too loaded."""
        return await self._respond("filter", request)

    def take(self, scope: Scope) -> ArrivingRequest | None:
        """A request that is answered without ASGI; None where the routes answer it.

        Those are refused ones, and all that a scheduler does not send: other paths and methods, browsers, bodies of
        unknown length or above `INLINE`.
        """
        place, _, verb = scope["path"].rpartition("/")
        token = place[len("/scheduler/") :]
        by_token = self._callers is not None and self._callers.takes_tokens and place == f"/scheduler/{token}"
        known = verb in self._verbs and (place == "/scheduler" or by_token)
        if not known or scope["method"] != "POST":
            return None
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"")
        if not length.isdigit() or len(length) > 7 or int(length) > INLINE or is_browser(headers):
            return None
        request = Request({**scope, "path_params": {"token": token}})
        return None if self._refuse_caller(verb, request) else ArrivingRequest(self, verb, request, self.bodies)

    def answer(self, verb: str, request: Request, body: bytes) -> Response | None:
        """At once; None where it has to be waited for, as the watch may show the pod soon."""
        began = self._clock.monotonic()
        try:
            if not _is_short(body):
                return None
            pod, decide = self._read(verb, request, body)
            if self._scheduling.awaits(pod):
                return None
            return self._answered(verb, began, *decide())
        except (BallastError, *NOT_JSON) as error:
            return self.refuse(verb, error)

    async def answer_later(self, verb: str, request: Request, body: bytes) -> Response:
        """Waits for the watch, and reads what is long in a thread."""
        began = self._clock.monotonic()
        try:
            inline = len(body) <= INLINE and _is_short(body)
            read, one = self._read, self._one
            pod, decide = (
                read(verb, request, body)
                if inline
                else await to_thread.run_sync(read, verb, request, body, limiter=one)
            )
            await self._await_pod(pod)
            answered, headers = decide() if inline else await to_thread.run_sync(decide, limiter=one)
            return self._answered(verb, began, answered, headers)
        except (BallastError, *NOT_JSON) as error:
            error.__traceback__ = None  # Its frames hold the pod, in a circle with the future that carried it.
            return self.refuse(verb, error)

    def _read(self, verb: str, request: Request, body: bytes) -> tuple[wire.Pod, _Decide]:
        if verb == "filter":
            args = filter_args(body)
            return args.pod, lambda: self._filter(args)
        profile = request.query_params.get("profile")
        pod, names = prioritize_args(body)
        return pod, lambda: self._prioritize(pod, names, profile)

    def _prioritize(self, pod: wire.Pod, names: Sequence[str], profile: str | None) -> tuple[bytes, dict[str, str]]:
        try:
            priorities = self._scheduling.prioritize(pod, names, profile, proved=self._callers is not None)
        except UsageError:
            raise
        except Exception:
            log.exception("a pod could not be decided", pod=f"{pod.metadata.namespace}/{pod.metadata.name}")
            priorities = equal(Hosts(()).named(names), FAILED)
        return priorities.body, priorities.headers

    def _filter(self, args: FilterArgs) -> tuple[bytes, dict[str, str]]:
        names = args.names()
        try:
            rejections = self._scheduling.filter(args.pod, names)
        except Exception:
            log.exception("nodes could not be filtered", pod=f"{args.pod.metadata.namespace}/{args.pod.metadata.name}")
            rejections = Rejections(neutral=FAILED)
        return args.answer(names, rejections.nodes), rejections.headers

    async def _respond(self, verb: str, request: Request) -> Response:
        if refusal := self._refuse_caller(verb, request):
            return refusal()
        try:
            async with self.bodies.body(request) as body:
                return await self.answer_later(verb, request, body)
        except BallastError as error:
            return self.refuse(verb, error)

    def _refuse_caller(self, verb: str, request: Request) -> Callable[[], Response] | None:
        """Makes the answer for a caller who may not ask, and for one that sends no JSON; None for others."""
        if self._callers is not None and not self._callers.lets_in(request):
            return partial(self.refuse, verb, UsageError(_WHO), 401)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != JSON:
            problem = f"Content-Type is {kind or 'missing'}; send application/json."
            return partial(self.refuse, verb, UsageError(problem), 415)
        return None

    def _answered(self, verb: str, began: float, answer: bytes, headers: dict[str, str]) -> Response:
        self._seconds.labels(verb).observe(self._clock.monotonic() - began)
        neutral = headers.get(NEUTRAL_HEADER)
        self._requests.labels(verb, "neutral" if neutral else "answered").inc()
        if neutral:
            self._neutral.labels(neutral).inc()
        return Response(answer, media_type=JSON, headers=headers)

    async def _await_pod(self, pod: wire.Pod) -> None:
        """Waits a moment for the watch, where room may be held for a pod that it has not shown yet."""
        if self._waiting >= MOST_WAITING:
            return
        self._waiting += 1
        try:
            for pause in PAUSES:
                if not self._scheduling.awaits(pod):
                    return
                await asyncio.sleep(pause)
        finally:
            self._waiting -= 1

    def refuse(self, verb: str, error: Exception, status: int = 400) -> Response:
        """The refusal, counted."""
        message, headers = str(error), {"www-authenticate": "Bearer", "connection": "close"} if status == 401 else None
        if isinstance(error, BodiesInFlight):
            status, headers = 503, {"retry-after": "1", "connection": "close"}
        elif isinstance(error, TooManyNames):
            status = 413
        elif isinstance(error, NOT_JSON):
            message = f"The body is no ExtenderArgs: {error}."
        self._requests.labels(verb, "refused").inc()
        self._refusals.count(status)
        return JSONResponse({"error": printable(message)}, status_code=status, headers=headers)


class ArrivingRequest:
    """A request of which the head has come; its body follows in pieces. `close` it in any case."""

    def __init__(self, routes: ExtenderRoutes, verb: str, request: Request, bodies: BodyBudget) -> None:
        self._routes, self._verb, self._request = routes, verb, request
        self._bodies, self._body = bodies, bodies.open()
        self._problem: BallastError | None = None

    def add(self, piece: bytes) -> None:
        """Nothing more of a body is kept once there is no room for it."""
        try:
            if self._problem is None:
                self._bodies.add(self._body, piece)
        except BallastError as error:
            self._problem = without_frames(error)

    def answer(self) -> Response | Awaitable[Response]:
        """Once the whole body has come."""
        try:
            if self._problem is not None:
                raise self._problem
            body = self._bodies.complete(self._body)
        except BallastError as error:
            return self._routes.refuse(self._verb, error)
        answer = self._routes.answer(self._verb, self._request, body)
        return self._routes.answer_later(self._verb, self._request, body) if answer is None else answer

    def close(self) -> None:
        """Frees the body."""
        self._bodies.close(self._body)


def _is_short(body: bytes) -> bool:
    return pod_bytes(body) <= INLINE_POD
