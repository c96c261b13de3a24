"""Queries the usage of pods, at most once a minute, and only of the pods needed where they are few."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from ballast.settings import Settings
from ballast.telemetry.metrics_server import MetricsServerSource
from ballast.telemetry.pod_usage import HOUR, PodAnswers, ask_metrics_server
from ballast.telemetry.prometheus_source import PrometheusSource
from ballast.telemetry.source import Source

T = TypeVar("T")

SELDOM = 60.0
HOURS_SELDOM = 300.0
"""Seconds for which a mean over an hour counts."""
FEW = 500
"""The most pods that a query names one by one."""


class PodUsageCache:
    """Keeps the last answer about the usage of pods for SELDOM seconds."""

    def __init__(self, source: Source, get: Callable[[str], bytes], settings: Settings, *, hour: bool = False) -> None:
        """`get` fetches a path from the Kubernetes API and raises ClusterError; `hour`: also means over the last hour,
        where the source has a history."""
        self._source, self._get, self._settings, self._hour = source, get, settings, hour
        self._answers: PodAnswers | None = None
        self._about: frozenset[str] | None = frozenset()
        self._hours_at = -math.inf

    def ask(self, at: float, resources: Sequence[str], pods: Sequence[str] | None = None) -> PodAnswers:
        """The usage of `pods`, named namespace/name, or of all; an answer younger than SELDOM is reused."""
        about = frozenset(pods) if pods is not None and len(pods) <= FEW else None
        old = math.inf if self._answers is None else at - self._answers.at
        covered = self._about is None or (about is not None and about <= self._about)
        if self._answers is None or not (0 <= old < SELDOM and covered):
            self._answers, self._about = self._ask_source(at, resources, about), about
        return self._answers

    @property
    def of_all(self) -> PodAnswers | None:
        """The last answer, if it is about all pods."""
        return self._answers if self._about is None else None

    def _ask_source(self, at: float, resources: Sequence[str], about: frozenset[str] | None) -> PodAnswers:
        if isinstance(self._source, PrometheusSource):
            old = self._answers if self._about == about and 0 <= at - self._hours_at < HOURS_SELDOM else None
            answers = self._source.ask_pods(
                at, resources, sorted(about) if about is not None else None, hour=self._hour and old is None
            )
            if old is None:
                self._hours_at = at
                return answers
            return replace(
                answers,
                bodies={**_of_hours(old.bodies), **answers.bodies},
                problems={**_of_hours(old.problems), **answers.problems},
            )
        assert isinstance(self._source, MetricsServerSource)
        return ask_metrics_server(self._get, at, resources, self._settings, about)


def _of_hours(by_name: Mapping[str, T]) -> dict[str, T]:
    return {name: value for name, value in by_name.items() if name.startswith(HOUR)}
