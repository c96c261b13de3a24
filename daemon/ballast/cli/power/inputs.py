"""What the commands of `ballast power` read: policies, recorded feeds and demands, and replicas given by hand."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

import numpy as np

from ballast.base.errors import SettingsError, UsageError
from ballast.model.sample import Floats
from ballast.power.controller_state import Sample
from ballast.power.feed_spec import remaining
from ballast.power.policy import PowerPolicy
from ballast.power.policy_reader import read, remarks, unusable_at
from ballast.power.replay import Recorded, RecordedDemand
from ballast.power.values import exact, seconds
from ballast.settings import Settings, load
from ballast.settings.model import CONFIG_FILE
from ballast.settings.secrets import mask_urls
from ballast.settings.sources import FileSource
from ballast.telemetry import responses
from ballast.telemetry.feeds.power_feed import trace, unix_time
from ballast.telemetry.prometheus_client import Grid, PrometheusClient

Value = TypeVar("Value", int, Fraction)

_GAP = "the median gap between rows of the feed"


def policies(path: Path) -> tuple[PowerPolicy, ...]:
    """The policies of a file. Raises UsageError if it does not exist, SettingsError if it is invalid."""
    if not path.is_file():
        raise UsageError(f"--policy {path}: there is no such file.")
    source = FileSource(path)
    if source.problems:
        raise SettingsError(*(text.replace(f"{CONFIG_FILE} is ", "--policy ") for text in source.problems))
    setting = source.values.get(("power", "policies"))
    raws = setting.value if setting else None
    if not isinstance(raws, list) or not raws or not all(isinstance(raw, Mapping) for raw in raws):
        raise SettingsError(
            f"{path.name} has no power policy; expected power: {{feed: ..., groups: ...}} or "
            "power: {policies: [...]}."
        )
    try:
        return read(raws)
    except SettingsError as error:
        raise SettingsError(*map(mask_urls, error.problems)) from None


def choose(found: Sequence[PowerPolicy], name: str | None) -> PowerPolicy:
    """The policy with this name, or the only policy. Raises UsageError if there is none or more than one."""
    named = [policy for policy in found if name in (None, policy.name)]
    names = ", ".join(policy.name for policy in found)
    if not named:
        raise UsageError(f"--name {name}: there is no such policy. The file has {names}.")
    if len(named) > 1:
        raise UsageError(f"The file has several policies. Choose one with --name: {names}.")
    return named[0]


def interval_of(text: str | None, samples: Sequence[Sample]) -> Fraction | None:
    """Seconds between two ticks; None where rows have no time. Raises UsageError."""
    try:
        interval = exact(float(load().telemetry.interval)) if text is None else seconds(text)
    except ValueError:
        interval = Fraction(0)
    if interval <= 0:
        raise UsageError(f"--interval {text}: expected a duration such as 30s.")
    return interval if any(sample.at is not None for sample in samples) else None


def starting(policy: PowerPolicy, given: Sequence[str]) -> dict[str, int]:
    """Initial replicas by namespace/name, from `--replicas`, else from the policy. Raises UsageError."""
    counts = {name: place.member.start for name, place in policy.places.items()}
    for text in given:
        name, _, count = text.partition("=")
        name = name.strip()
        if name not in counts:
            raise UsageError(f"--replicas {text}: expected NS/NAME=N with a target of the policy: {', '.join(counts)}.")
        if not count.strip().isascii() or not count.strip().isdigit():
            raise UsageError(f"--replicas {text}: expected NS/NAME=N with a whole number of at least 0.")
        counts[name] = int(count)
    return counts


def check(policy: PowerPolicy, gap: Fraction | None = None, interval: Fraction | None = None) -> Iterator[str]:
    """Yields warnings. Raises SettingsError if the windows do not fit the ticks: `gap` is seconds between two rows,
    `interval` between two ticks.
    """
    by_rows = gap is not None and (interval is None or gap < interval)
    every, called = (gap, _GAP) if by_rows else (interval, "--interval")
    problems = [] if every is None else [f"power: {text}" for text in unusable_at(policy, every, called)]
    if problems:
        raise SettingsError(*problems)
    yield from (f"power: {text}" for text in remarks(policy, gap))


def demand_of(policy: PowerPolicy, path: Path) -> RecordedDemand:
    """The demand in a CSV with the columns time, ns/name, replicas. Raises UsageError."""
    return _by_name(policy, f"--demand {path}", path, "replicas", _replicas)


def factors_of(policy: PowerPolicy, path: Path) -> Recorded[Fraction]:
    """How many times its watts a replica draws: a CSV with the columns time, ns/name, factor. Raises UsageError."""
    return _by_name(policy, f"--load {path}", path, "factor", _factor)


def others_of(path: Path) -> Recorded[Fraction]:
    """Watts of all else: a CSV with the columns time, watts; rows that cannot be read count for nothing.

    Raises UsageError.
    """
    known = [(exact(row.time), exact(row.watts)) for row in trace(path) if row.watts is not None]
    if not known:
        raise UsageError(f"--others {path}: no row has a number of watts. Give rows such as 0,1400.")
    return Recorded({"": known})


def _by_name(
    policy: PowerPolicy, source: str, path: Path, column: str, read: Callable[[str], Value]
) -> Recorded[Value]:
    rows_by_name: dict[str, list[tuple[Fraction, Value]]] = {}
    with _reading(source, path) as rows:
        columns, expected = rows.fieldnames or (), ("time", "ns/name", column)
        if not set(expected) <= set(columns):
            found = ",".join(columns) or "none"
            raise UsageError(f"{source}: expected the columns {','.join(expected)}, found {found}.")
        for row in rows:
            name, at, value = _row(policy, source, rows.line_num, row, column, read)
            rows_by_name.setdefault(name, []).append((at, value))
    return _in_order(rows_by_name)


def needs_of(policy: PowerPolicy, path: Path) -> RecordedDemand:
    """What members with `needs` need: columns of a feed that are named after them. Raises UsageError."""
    names = [name for name, place in policy.places.items() if place.member.needs is not None]
    rows_by_name: dict[str, list[tuple[Fraction, int]]] = {}
    source = f"--feed {path}"
    with _reading(source, path) as rows:
        for row in rows:
            for name in (name for name in names if (row.get(name) or "").strip()):
                column = {**row, "ns/name": name, "replicas": row[name]}
                _, at, count = _row(policy, source, rows.line_num, column, "replicas", _replicas)
                rows_by_name.setdefault(name, []).append((at, count))
    return _in_order(rows_by_name)


@contextmanager
def _reading(source: str, path: Path) -> Iterator[csv.DictReader[str]]:
    """The rows of a CSV file; spaces around names of columns do not count. Raises UsageError."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file, skipinitialspace=True)
            rows.fieldnames = [name.strip() for name in rows.fieldnames or ()]
            yield rows
    except OSError as error:
        raise UsageError(f"{source} cannot be read: {error.strerror}.") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{source} cannot be read: {error}.") from error


def _in_order(found: Mapping[str, list[tuple[Fraction, Value]]]) -> Recorded[Value]:
    return Recorded({name: sorted(rows, key=lambda row: row[0]) for name, rows in found.items()})


def by_target(
    policy: PowerPolicy, option: str, given: Sequence[str], read_value: Callable[[str], Value], expected: str
) -> dict[str, Value]:
    """Values above 0 by namespace/name, from NS/NAME=VALUE. Raises UsageError."""
    values: dict[str, Value] = {}
    for text in given:
        name, _, value = (part.strip() for part in text.partition("="))
        if name not in policy.places:
            raise UsageError(
                f"{option} {text}: expected {expected} with a target of the policy: {', '.join(policy.places)}."
            )
        try:
            values[name] = read_value(value)
        except ValueError:
            raise UsageError(f"{option} {text}: expected {expected}.") from None
    return values


def above_zero(text: str) -> Fraction:
    """A number above 0. Raises ValueError."""
    if (value := exact(text)) <= 0:
        raise ValueError
    return value


def duration_of(text: str) -> Fraction:
    """Seconds of a duration such as 10m. Raises ValueError."""
    if (value := seconds(text)) < 0:
        raise ValueError
    return value


def count_of(text: str) -> int:
    """A whole number of at least 0. Raises ValueError."""
    if not (text.isascii() and text.isdigit()):
        raise ValueError
    return int(text)


def _row(
    policy: PowerPolicy, file: str, line: int, row: dict[str, str | None], column: str, read: Callable[[str], Value]
) -> tuple[str, Fraction, Value]:
    name, text = (row["ns/name"] or "").strip(), (row[column] or "").strip()
    if name not in policy.places:
        raise UsageError(
            f"{file}, line {line}: {name or 'an empty name'} is no target of the policy; expected one of "
            f"{', '.join(policy.places)}."
        )
    try:
        value = read(text)
    except ValueError as error:
        raise UsageError(f"{file}, line {line}: {column} is {text!r}, expected {error}.") from None
    try:
        return name, exact(unix_time((row["time"] or "").strip())), value
    except ValueError:
        raise UsageError(f"{file}, line {line}: time is {row['time']!r}, expected seconds or RFC 3339.") from None


def _replicas(text: str) -> int:
    try:
        return count_of(text)
    except ValueError:
        raise ValueError("a whole number of at least 0") from None


def _factor(text: str) -> Fraction:
    wrong = "a number from 0 on"
    try:
        value = exact(text)
    except ValueError:
        raise ValueError(wrong) from None
    if value < 0:
        raise ValueError(wrong)
    return value


PIECE = 10_000
"""Points per query; Prometheus refuses more than 11,000."""


def recorded(policy: PowerPolicy, span: str, step: str, settings: Settings | None = None) -> Iterator[Sample]:
    """Samples of a policy's feed, one per step of a time range. Raises UsageError, SettingsError, TelemetryError."""
    start, every, count = _grid(span, step)
    feed = policy.feed
    if feed is None or (feed.query is None and feed.limit is None):
        raise UsageError("--range reads from Prometheus, so the feed needs a query. Or give --feed FILE.csv.")
    if feed.consumption is not None and feed.own is None and feed.consumption.of != "others":
        raise UsageError("--range cannot know how much power the targets used: set feed.own. Or give --feed FILE.csv.")
    client = PrometheusClient(settings or load())

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
        if not all(np.isfinite(row)) or (row[0] < 0 and feed.map is None):
            yield Sample(at, None)
        else:
            numbers = [exact(value) for value in row]
            scaled = [number * feed.unit.watts for number in numbers]
            yield Sample(at, feed.budget(numbers[0]) if len(row) == 1 else remaining(*scaled))


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
