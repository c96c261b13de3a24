"""Asks what pods use, not more often than once a minute, and not of all if a few will do."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ballast.settings import Settings
from ballast.telemetry.metrics_server import MetricsServerSource
from ballast.telemetry.pods import PodAnswers, ask_metrics_server
from ballast.telemetry.prometheus import PrometheusSource
from ballast.telemetry.source import Source

SELDOM = 60.0
FEW = 500
"""Pods that are named one by one in a question."""


class PodUsageCache:
    """Keeps the last answer about the usage of pods for SELDOM seconds."""

    def __init__(self, source: Source, get: Callable[[str], bytes], settings: Settings) -> None:
        """`get` fetches a path from the Kubernetes API and raises ClusterError."""
        self._source, self._get, self._settings = source, get, settings
        self._said: PodAnswers | None = None
        self._about: frozenset[str] | None = frozenset()

    def ask(self, at: float, resources: Sequence[str], pods: Sequence[str] | None = None) -> PodAnswers:
        """About `pods`, named namespace/name, or about all; what is less than a minute old is not asked again."""
        about = frozenset(pods) if pods is not None and len(pods) <= FEW else None
        old = math.inf if self._said is None else at - self._said.at
        covered = self._about is None or (about is not None and about <= self._about)
        if self._said is None or not (0 <= old < SELDOM and covered):
            self._said, self._about = self._asked(at, resources, about), about
        return self._said

    def _asked(self, at: float, resources: Sequence[str], about: frozenset[str] | None) -> PodAnswers:
        if isinstance(self._source, PrometheusSource):
            return self._source.ask_pods(at, resources, sorted(about) if about is not None else None)
        assert isinstance(self._source, MetricsServerSource)
        return ask_metrics_server(self._get, at, resources, self._settings)
