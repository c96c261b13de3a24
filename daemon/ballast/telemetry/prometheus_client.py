"""Queries to Prometheus through prometheus-api-client; answers are undecoded bodies, with their warnings."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from prometheus_api_client import PrometheusConnect

from ballast.base.errors import SettingsError, SourceUnavailable, without_frames
from ballast.settings import Settings
from ballast.telemetry.failed_answers import masked
from ballast.telemetry.http import HttpAccess, HttpAnswer, HttpSession, prometheus_credentials

PART = "BALLAST_PROMETHEUS__"
_PARALLEL = 6
_EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True)
class Grid:
    """`count` evaluation times from `start` on, `step` seconds apart."""

    start: float
    step: float
    count: int

    @property
    def end(self) -> float:
        """The last evaluation time."""
        return self.time(self.count - 1)

    def time(self, index: int) -> float:
        """The evaluation time number `index`, from 0."""
        return self.start + index * self.step


class _BodyFuture(Future[bytes]):
    """`answer` lives as long as the body may be read, so that its bytes count."""

    answer: HttpAnswer | None = None


class PrometheusClient:
    """Safe to use from several threads. Raises as HttpSession does; SettingsError without a URL."""

    def __init__(self, settings: Settings) -> None:
        prometheus = settings.prometheus
        if prometheus.url is None:
            raise SettingsError(
                f"{PART}URL is not set; give the address of Prometheus, such as http://prometheus.monitoring:9090, "
                "or set BALLAST_TELEMETRY__SOURCE=metrics-server"
            )
        self.url = masked(prometheus.url).rstrip("/")
        self._raw_url = prometheus.url
        self._settings = prometheus
        self._credentials = prometheus_credentials(prometheus)
        self._closing = threading.Event()
        self._turns = threading.Semaphore(_PARALLEL)
        self._lock = threading.Lock()
        self._pending: set[Future[bytes]] = set()
        self._idle: list[PrometheusConnect] = []

    def ask(self, query: str, grid: Grid) -> bytes:
        """The answer to an instant query where the grid is one time, else to a range query."""
        return self._query(query, grid).content

    def _query(self, query: str, grid: Grid) -> HttpAnswer:
        params = {"timeout": f"{_number(self._settings.timeout)}s"}
        answer: HttpAnswer
        with self._connection() as connection:
            if grid.count == 1:
                answer = connection.custom_query(query, {"time": _number(grid.start), **params})
            else:
                step = _number(grid.step)
                params |= {"start": _number(grid.start), "end": _number(grid.end), "step": step}
                # The library rounds the times of a range to seconds; the exact ones in `params` win over them.
                answer = connection.custom_query_range(query, _EPOCH, _EPOCH, step, params)
            return answer

    def start(self, query: str, grid: Grid) -> Future[bytes]:
        """`ask` in a daemon thread; `close` fails the future at once."""
        future = _BodyFuture()
        with self._lock:
            stopped = self._closing.is_set()
            if not stopped:
                self._pending.add(future)
        if stopped:
            future.set_exception(SourceUnavailable("stopped"))
        else:
            threading.Thread(target=self._answer, args=(future, query, grid), name="prometheus", daemon=True).start()
        return future

    def close(self) -> None:
        """Fails the futures under way at once; their requests end by their deadlines, unused."""
        with self._lock:
            self._closing.set()
            pending, self._pending = self._pending, set()
            idle, self._idle = self._idle, []
        for future in pending:
            with suppress(InvalidStateError):
                future.set_exception(SourceUnavailable("stopped"))
        for connection in idle:
            connection.close()

    def _answer(self, future: _BodyFuture, query: str, grid: Grid) -> None:
        try:
            with self._turns:
                answer = self._query(query, grid)
        except Exception as error:
            with suppress(InvalidStateError):
                future.set_exception(without_frames(error))
        else:
            with suppress(InvalidStateError):
                future.answer = answer
                future.set_result(answer.content)
        with self._lock:
            self._pending.discard(future)

    @contextmanager
    def _connection(self) -> Iterator[PrometheusConnect]:
        """A connection that no other thread uses meanwhile."""
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        connection = connection or self._connect()
        try:
            yield connection
        finally:
            with self._lock:
                closing = self._closing.is_set()
                if not closing:
                    self._idle.append(connection)
            if closing:
                connection.close()

    def _connect(self) -> PrometheusConnect:
        settings = self._settings
        certificates = str(settings.ca_file) if settings.ca_file else True
        access = HttpAccess(
            self._credentials,
            settings.headers,
            verify=False if settings.insecure_skip_verify else certificates,
            cert=(str(settings.cert_file), str(settings.key_file)) if settings.cert_file else None,
        )
        session = HttpSession(self._raw_url, part=PART, timeout=settings.timeout, access=access, closing=self._closing)
        return PrometheusConnect(self.url, session=session, retry=0, timeout=settings.timeout, method="POST")


def _number(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".")
