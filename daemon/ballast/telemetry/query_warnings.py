"""Warnings and infos in the answers of Prometheus: logged once each, cut at LONGEST characters."""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from ballast.base.metrics import Metrics
from ballast.telemetry.responses import SeriesTable

log = structlog.get_logger("ballast.telemetry")

LONGEST = 200
MOST = 5
MOST_LOGGED = 20
"""Lines of the log that the remarks of one reading may take."""

_REMEMBERED = 1_000


class QueryWarnings:
    """Of one source. Warnings mean that an answer may be incomplete; infos only comment on the query."""

    def __init__(self, source: str, metrics: Metrics) -> None:
        self._source = source
        self._metrics = metrics
        self._logged: set[str] = set()

    def heard(self, tables: Iterable[SeriesTable]) -> set[str]:
        """The distinct warnings of some answers, all of them counted; infos go to the log and no further."""
        warnings: set[str] = set()
        for table in tables:
            if table.warnings:
                self._metrics.query_warnings.labels(self._source).inc(len(table.warnings))
                warnings.update(map(_short, table.warnings))
            for text in map(_short, table.infos[:MOST_LOGGED]):
                if self._new(text):
                    log.info("a remark in an answer", source=self._source, remark=text)
        return warnings

    def kept(self, warnings: Iterable[str]) -> tuple[str, ...]:
        """The first MOST by their text; each distinct one among the first MOST_LOGGED is logged when it is new."""
        ordered = sorted(warnings)
        for text in ordered[:MOST_LOGGED]:
            if self._new(text):
                log.warning("a warning about an answer", source=self._source, warning=text)
        return tuple(ordered[:MOST])

    def _new(self, text: str) -> bool:
        if text in self._logged:
            return False
        if len(self._logged) >= _REMEMBERED:
            self._logged.clear()
        self._logged.add(text)
        return True


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
