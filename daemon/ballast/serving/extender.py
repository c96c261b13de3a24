"""`/scheduler/prioritize` and `/scheduler/filter`, the HTTP extender that kube-scheduler asks before it binds a pod."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import parse_qsl

import msgspec
import numpy as np
import structlog
from anyio import CapacityLimiter, to_thread

from ballast.base.body_budget import BodiesInFlight, BodyBudget
from ballast.base.clock import Clock
from ballast.base.errors import NOT_JSON, BallastError, UsageError
from ballast.base.freed_memory import FreedMemory
from ballast.base.metrics import Metrics
from ballast.base.text import printable
from ballast.cluster.objects import wire
from ballast.placement.choice import NEUTRAL
from ballast.serving.cached_document import JSON
from ballast.serving.callers import Callers, misdirected
from ballast.serving.direct_answers import DirectAnswer, RequestHead
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

VERBS = ("prioritize", "filter")

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

    def settle(self) -> None:
        """Called after an answer was sent: what it changed may be computed now."""

    def follow(self, busy: Callable[[], bool]) -> None:
        """`busy` tells from now on whether a request arrives or is being answered."""


class ExtenderRoutes:
    """Takes requests before ASGI does, whose tasks, queues and copies took as long as the answer.

    405 for anything but POST, 421 for browsers that name a stranger's host, 401 for a caller who may not ask, 415 for
    anything but JSON, 400 for a body that cannot be read or has a field that is too large, 413 above `MAX_BODY` and
    `MOST_NAMES`, 503 while other bodies take all memory there is for them. Never another 5xx: an unexpected exception
    is logged, and all nodes get the same score.
    """

    def __init__(
        self,
        scheduling: Scheduling,
        clock: Clock,
        metrics: Metrics,
        refusals: Refusals,
        callers: Callers | None = None,
        hosts: Collection[str] | None = None,
    ) -> None:
        """`hosts`: those that browsers may name beside our own; None where they may name any."""
        self._scheduling = scheduling
        self._callers = callers
        self._hosts = hosts
        self._clock = clock
        self._requests = metrics.extender_requests
        self._neutral = metrics.extender_neutral
        self._seconds = {verb: metrics.extender_seconds.labels(verb) for verb in VERBS}
        self._answered_well = {verb: metrics.extender_requests.labels(verb, "answered") for verb in VERBS}
        self._refusals = refusals
        self.bodies = BodyBudget(freed=FreedMemory().give_back_later)
        scheduling.follow(self.bodies.busy)
        self._one = CapacityLimiter(1)
        self._waiting = 0

    def take(self, head: RequestHead) -> ArrivingRequest | DirectAnswer | None:
        """A request whose body follows, or its refusal; None for a path that is not ours."""
        place, _, verb = head.path.rpartition("/")
        if verb not in VERBS or not (place == "/scheduler" or (self._by_token and place.startswith("/scheduler/"))):
            return None
        if self._hosts is not None and (text := misdirected(head.headers, self._hosts)) is not None:
            self._refusals.count(421)
            return _said(421, text)
        length = head.length
        if length is not None and length > MAX_BODY:
            return self.too_large()
        if head.method != b"POST":
            self._refusals.count(405)
            return _said(405, "Method Not Allowed", {"allow": "POST"})
        if self._callers is not None and not self._callers.lets_in(head, place[len("/scheduler/") :]):
            return self.refuse(verb, UsageError(_WHO), 401)
        kind = head.header(b"content-type").decode("latin-1").partition(";")[0].strip().lower()
        if kind != JSON:
            problem = f"Content-Type is {kind or 'missing'}; send application/json."
            return self.refuse(verb, UsageError(problem), 415)
        return ArrivingRequest(self, verb, head)

    def sent(self) -> None:
        """An answer is on its way."""
        self._scheduling.settle()

    @property
    def _by_token(self) -> bool:
        return self._callers is not None and self._callers.takes_tokens

    def answer(self, verb: str, query: bytes, body: bytes) -> DirectAnswer | None:
        """At once; None where it has to be waited for, as the watch may show the pod soon, or the body is long."""
        began = self._clock.monotonic()
        try:
            if len(body) > INLINE or not _is_short(body):
                return None
            pod, decide = self._read(verb, query, body)
            if self._scheduling.awaits(pod):
                return None
            return self._answered(verb, began, *decide())
        except (BallastError, *NOT_JSON) as error:
            return self.refuse(verb, error)

    async def answer_later(self, verb: str, query: bytes, body: bytes) -> DirectAnswer:
        """Waits for the watch, and reads what is long in a thread."""
        began = self._clock.monotonic()
        try:
            inline = len(body) <= INLINE and _is_short(body)
            read, one = self._read, self._one
            pod, decide = (
                read(verb, query, body) if inline else await to_thread.run_sync(read, verb, query, body, limiter=one)
            )
            await self._await_pod(pod)
            answered, headers = decide() if inline else await to_thread.run_sync(decide, limiter=one)
            return self._answered(verb, began, answered, headers)
        except (BallastError, *NOT_JSON) as error:
            error.__traceback__ = None  # Its frames hold the pod, in a circle with the future that carried it.
            return self.refuse(verb, error)

    def _read(self, verb: str, query: bytes, body: bytes) -> tuple[wire.Pod, _Decide]:
        if verb == "filter":
            args = filter_args(body)
            return args.pod, lambda: self._filter(args)
        # Of several profiles the last one counts.
        profile = dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True)).get("profile") if query else None
        pod, names = prioritize_args(body)
        return pod, lambda: self._prioritize(pod, names, profile)

    def _prioritize(self, pod: wire.Pod, names: Sequence[str], profile: str | None) -> tuple[bytes, dict[str, str]]:
        proved = self._callers is not None and self._callers.prove
        try:
            priorities = self._scheduling.prioritize(pod, names, profile, proved=proved)
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

    def _answered(self, verb: str, began: float, answer: bytes, headers: dict[str, str]) -> DirectAnswer:
        self._seconds[verb].observe(self._clock.monotonic() - began)
        neutral = headers.get(NEUTRAL_HEADER)
        if neutral:
            self._requests.labels(verb, "neutral").inc()
            self._neutral.labels(neutral).inc()
        else:
            self._answered_well[verb].inc()
        return DirectAnswer(200, answer, headers=headers)

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

    def too_large(self) -> DirectAnswer:
        """The refusal of a body above `MAX_BODY`."""
        self._refusals.count(413)
        return DirectAnswer(413, b"Content Too Large", b"text/plain; charset=utf-8")

    def refuse(self, verb: str, error: Exception, status: int = 400) -> DirectAnswer:
        """The refusal, counted."""
        message, headers = str(error), {"www-authenticate": "Bearer", "connection": "close"} if status == 401 else {}
        if isinstance(error, BodiesInFlight):
            status, headers = 503, {"retry-after": "1", "connection": "close"}
        elif isinstance(error, TooManyNames):
            status = 413
        elif isinstance(error, NOT_JSON):
            message = f"The body is no ExtenderArgs: {error}."
        self._requests.labels(verb, "refused").inc()
        self._refusals.count(status)
        return _said(status, printable(message), headers)


class ArrivingRequest:
    """A request of which the head has come; its body follows in pieces. `close` it in any case."""

    def __init__(self, routes: ExtenderRoutes, verb: str, head: RequestHead) -> None:
        self._routes, self._verb, self._query = routes, verb, head.query
        self._bodies, self._body = routes.bodies, routes.bodies.open()
        self._problem: DirectAnswer | None = None
        # The refusal of a short body is told at its end: a client that still sends would lose it.
        self._told_at_end = head.length is not None and head.length <= INLINE

    def add(self, piece: bytes) -> DirectAnswer | None:
        """Returns the refusal of a body that is not read any further. Nothing more of it is kept."""
        if self._problem is None:
            try:
                self._bodies.add(self._body, piece)
            except BallastError as error:
                self._problem = self._routes.refuse(self._verb, error)
            if self._body.size > MAX_BODY:
                self._problem = self._routes.too_large()
        return None if self._told_at_end else self._problem

    def answer(self) -> DirectAnswer | Awaitable[DirectAnswer]:
        """Once the whole body has come."""
        if self._problem is not None:
            return self._problem
        try:
            body = self._bodies.complete(self._body)
        except BallastError as error:
            return self._routes.refuse(self._verb, error)
        answer = self._routes.answer(self._verb, self._query, body)
        return self._routes.answer_later(self._verb, self._query, body) if answer is None else answer

    def close(self) -> None:
        """Frees the body."""
        self._bodies.close(self._body)

    def sent(self) -> None:
        """The answer is on its way."""
        self._routes.sent()


def _said(status: int, text: str, headers: Mapping[str, str] | None = None) -> DirectAnswer:
    return DirectAnswer(status, msgspec.json.encode({"error": text}), headers=headers or {})


def _is_short(body: bytes) -> bool:
    return pod_bytes(body) <= INLINE_POD
