"""How many replicas workloads need for their own load or latency, queried from Prometheus."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction

from ballast.base.errors import TelemetryError
from ballast.base.metrics import Metrics
from ballast.power.policy import PowerPolicy
from ballast.power.sections import Need
from ballast.power.values import exact
from ballast.telemetry import responses
from ballast.telemetry.prometheus_client import Grid, PrometheusClient


class NeedsReader:
    """One query for each member that has `needs`, all at once."""

    def __init__(self, policy: PowerPolicy, client: PrometheusClient, metrics: Metrics) -> None:
        self._needs = {name: place.member.needs for name, place in policy.places.items() if place.member.needs}
        self._client = client
        self._metrics = metrics

    def read(self, at: float, counts: Mapping[str, int]) -> dict[str, Need]:
        """By namespace/name, of the targets with these counts."""
        asked = {
            name: (needs, self._client.start(needs.query, Grid(at, 1.0, 1)))
            for name, needs in self._needs.items()
            if name in counts
        }
        return {name: needs.of(self._value(answer.result), counts[name]) for name, (needs, answer) in asked.items()}

    def _value(self, answer: Callable[[], bytes]) -> Fraction | None:
        """None where the answer is not one finite number."""
        try:
            table = responses.instant(answer(), (), self._client.url)
        except TelemetryError:
            self._metrics.queries.labels("power_needs", "error").inc()
            return None
        self._metrics.queries.labels("power_needs", "ok" if len(table) else "empty").inc()
        value = float(table.values[0, 0]) if len(table) == 1 else math.nan
        return exact(value) if math.isfinite(value) else None
