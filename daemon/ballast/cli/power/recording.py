"""Reads a recorded power feed from Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from fractions import Fraction

import numpy as np

from ballast.base.errors import UsageError
from ballast.model.sample import Floats
from ballast.power.controller_state import Sample
from ballast.power.feed_spec import remaining
from ballast.power.policy import PowerPolicy
from ballast.power.values import exact, seconds
from ballast.settings import load
from ballast.telemetry import responses
from ballast.telemetry.prometheus_client import Grid, PrometheusClient

PIECE = 10_000
"""Points per query; Prometheus refuses more than 11,000."""


def recorded(policy: PowerPolicy, span: str, step: str) -> Iterator[Sample]:
    """Samples of a policy's feed, one per step of a time range. Raises UsageError, SettingsError, TelemetryError."""
    start, every, count = _grid(span, step)
    feed = policy.feed
    if feed is None or (feed.query is None and feed.limit is None):
        raise UsageError("--range reads from Prometheus, so the feed needs a query. Or give --feed FILE.csv.")
    if feed.consumption is not None and feed.own is None and feed.consumption.of != "others":
        raise UsageError("--range cannot know how much power the targets used: set feed.own. Or give --feed FILE.csv.")
    client = PrometheusClient(load())

    def series(query: str, expected: int) -> Floats:
        """The sum of the series at each time; NaN where their number is not `expected`."""
        parts = []
        for first in range(0, count, PIECE):
            grid = Grid(start + first * every, every, min(PIECE, count - first))
            body = client.ask(query, grid)
            if grid.count == 1:
                table = responses.instant(body, (), client.url)
            else:
                table = responses.grid(body, (), client.url, grid.start, grid.step, grid.count)
            whole = table.present.sum(axis=0) == expected
            parts.append(np.where(whole, np.where(table.present, table.values, 0.0).sum(axis=0), np.nan))
        return np.concatenate(parts)

    try:
        if feed.limit is None or feed.consumption is None:
            columns = [series(feed.query or "", feed.expect_series)]
        else:
            limit = feed.limit
            columns = [
                np.full(count, float(limit.watts or 0)) if limit.query is None else series(limit.query, 1),
                series(feed.consumption.query, feed.expect_series),
                np.zeros(count) if feed.own is None else series(feed.own.query, 1),
            ]
    finally:
        client.close()
    for index, row in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        at = exact(start + index * every)
        if not all(np.isfinite(row)) or row[0] < 0:
            yield Sample(at, None)
        else:
            numbers = [exact(value) for value in row]
            scaled = [number * feed.unit.watts for number in numbers]
            yield Sample(at, feed.watts(numbers[0]) if len(row) == 1 else remaining(*scaled))


def _grid(span: str, step: str) -> tuple[float, float, int]:
    begin, comma, end = span.partition(",")
    try:
        start, stop, every = _time(begin), _time(end), seconds(step)
    except ValueError:
        comma = ""
        start = stop = every = Fraction(0)
    if not comma or every <= 0 or stop < start:
        raise UsageError(
            f"--range {span} --step {step}: expected START,END as Unix seconds or RFC 3339, START before END, and a "
            "duration such as 30s."
        )
    return float(start), float(every), int((stop - start) / every) + 1


def _time(text: str) -> Fraction:
    try:
        return exact(text)
    except ValueError:
        moment = datetime.fromisoformat(text.strip())
        return exact((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
