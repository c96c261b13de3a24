"""Queries to Prometheus through prometheus-api-client; answers are undecoded bodies."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import UTC, datetime

from prometheus_api_client import PrometheusConnect

from ballast.clock import Clock
from ballast.errors import SettingsError
from ballast.settings import Settings
from ballast.telemetry.credentials import prometheus_credentials
from ballast.telemetry.refusals import masked
from ballast.telemetry.wire import Wire

PART = "BALLAST_PROMETHEUS__"


@dataclass(frozen=True)
class Grid:
    """`count` evaluation times from `start` on, `step` seconds apart."""

    start: float
    step: float
    count: int

    @property
    def end(self) -> float:
        return self.time(self.count - 1)

    def time(self, index: int) -> float:
        return self.start + index * self.step


class PrometheusClient:
    """For several threads at once: each has its own session. Raises as Wire does; SettingsError without a URL."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        prometheus = settings.prometheus
        if prometheus.url is None:
            raise SettingsError(
                f"{PART}URL is not set; give the address of Prometheus, such as http://prometheus.monitoring:9090, "
                "or set BALLAST_TELEMETRY__SOURCE=metrics-server"
            )
        self.url = masked(prometheus.url).rstrip("/")
        self._raw_url = prometheus.url
        self._settings = prometheus
        self._clock = clock
        self._credentials = prometheus_credentials(prometheus)
        self._closing = threading.Event()
        self._local = threading.local()
        self._lock = threading.Lock()
        self._connections: list[PrometheusConnect] = []

    def ask(self, query: str, grid: Grid) -> bytes:
        """The answer to an instant query where the grid is one time, else to a range query."""
        timeout = {"timeout": f"{_number(self._settings.timeout)}s"}
        connection = self._connection()
        if grid.count == 1:
            return bytes(connection.custom_query(query, params={"time": _number(grid.start), **timeout}))
        start, end, step = _number(grid.start), _number(grid.end), _number(grid.step)
        exact = {"start": start, "end": end, "step": step, **timeout}
        first, last = (datetime.fromtimestamp(time, UTC) for time in (grid.start, grid.end))
        return bytes(connection.custom_query_range(query, first, last, step, params=exact))

    def close(self) -> None:
        self._closing.set()
        with self._lock:
            for connection in self._connections:
                connection.close()

    def _connection(self) -> PrometheusConnect:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            settings = self._settings
            wire = Wire(
                self._raw_url,
                self._clock,
                part=PART,
                timeout=settings.timeout,
                credentials=self._credentials,
                headers=settings.headers,
                verify=False if settings.insecure_skip_verify else str(settings.ca_file) if settings.ca_file else True,
                cert=(str(settings.cert_file), str(settings.key_file)) if settings.cert_file else None,
                closing=self._closing,
            )
            connection = PrometheusConnect(self.url, session=wire, retry=0, timeout=settings.timeout, method="POST")
            self._local.connection = connection
            with self._lock:
                self._connections.append(connection)
        return connection


def _number(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".")
