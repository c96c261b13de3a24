"""Readers of the power feed: raw watts with the time of their own, and the credentials that an address is read with."""

import csv
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Protocol, TypeVar

import jmespath
import msgspec
from jmespath.exceptions import JMESPathError
from jmespath.parser import ParsedResult

from ballast.base.clock import Clock
from ballast.base.errors import SettingsError, SourceUnavailable, TelemetryError, UsageError
from ballast.power.feed_spec import UrlAccess
from ballast.settings.secrets import SecretFile
from ballast.telemetry import responses
from ballast.telemetry.http import HttpAccess
from ballast.telemetry.prometheus_client import Grid, PrometheusClient
from ballast.telemetry.queries import is_plain_selector

Read = TypeVar("Read")

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def access(spec: UrlAccess, part: str) -> HttpAccess:
    """Files are looked at for each request, so that rotated secrets count at once. `part` is for the errors."""
    credentials = None
    if spec.token_file is not None:
        token = SecretFile(Path(spec.token_file), f"{part}tokenFile")
        credentials = _readable(lambda: f"Bearer {token.read().strip()}")
    headers: Callable[[], Mapping[str, str]] = dict
    if spec.headers_file is not None:
        path, subject = Path(spec.headers_file), f"{part}headersFile"
        headers = _readable(lambda: read_headers(path, subject))
    return HttpAccess(credentials, secret_headers=headers, verify=spec.ca_file or True)


def problems(spec: UrlAccess, part: str) -> Iterator[str]:
    """One sentence for each file that cannot be used, without its content."""
    try:
        if spec.token_file is not None:
            SecretFile(Path(spec.token_file), f"{part}tokenFile").read()
    except SettingsError as error:
        yield str(error)
    try:
        if spec.headers_file is not None:
            read_headers(Path(spec.headers_file), f"{part}headersFile")
    except SettingsError as error:
        yield str(error)
    try:
        if spec.ca_file is not None:
            Path(spec.ca_file).open("rb").close()
    except OSError as error:
        yield f'{part}caFile is "{spec.ca_file}": expected a readable file ({error.strerror}). Correct it.'


def read_headers(path: Path, subject: str) -> dict[str, str]:
    """Headers of a file: a line `Name: value` each, or a JSON object. Raises SettingsError without the content."""
    try:
        text = path.read_text(encoding="utf-8-sig").strip()
    except OSError as error:
        raise _unusable(subject, path, f"expected a readable file ({error.strerror})") from None
    except UnicodeDecodeError:
        raise _unusable(subject, path, "expected text in UTF-8") from None
    if text.startswith("{"):
        try:
            headers_read = dict(json.loads(text))
        except (ValueError, RecursionError):
            raise _unusable(subject, path, "expected a JSON object of headers") from None
    else:
        lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
        if not all(":" in line for line in lines):
            raise _unusable(subject, path, "expected lines such as `X-Api-Key: value`")
        headers_read = {name: value for name, _, value in (line.partition(":") for line in lines)}
    headers = {name.strip(): str(value).strip() for name, value in headers_read.items()}
    if not headers:
        raise _unusable(subject, path, "expected headers, but the file is empty")
    if not all(map(_NAME.fullmatch, headers)) or not all(value.isprintable() for value in headers.values()):
        raise _unusable(subject, path, "expected names of letters, digits and dashes, and values of one line")
    return headers


def _unusable(subject: str, path: Path, expected: str) -> SettingsError:
    return SettingsError(f'{subject} is "{path}": {expected}. Correct the file or its permissions.')


def _readable(read: Callable[[], Read]) -> Callable[[], Read]:
    """A file that became unusable makes the source unavailable."""

    def reading() -> Read:
        try:
            return read()
        except SettingsError as error:
            raise SourceUnavailable(str(error)) from None

    return reading


MAX_BODY = 2**20
"""Bytes that an answer of a feed or a schedule may have."""

LONGEST = 200
"""Characters of what is said of an answer."""

_AGGREGATED = re.compile(
    r"\s*(?:sum|avg|min|max)\s*(?:by\s*\([^()]*\)|without\s*\([^()]*\))?\s*\((?P<inner>.*)\)\s*", re.DOTALL
)
_GROWTH = re.compile(r"\s*(?:rate|increase|irate)\s*\((?P<inner>[^()]*)\[[^\[\]]+\]\s*\)\s*")


@dataclass(frozen=True)
class PowerSample:
    """`watts` is None where there is nothing usable, for the reason in `problem`; `time` is its own, Unix seconds.

    `reason` is the problem in one word: unreachable, series, unreadable, non_finite, negative, stale or future.
    """

    watts: float | None
    time: float
    problem: str | None = None
    reason: str = ""
    witnessed: float | None = None
    """What a second series of the same feed confirms; None without one."""


class PowerFeed(Protocol):
    """Where watts come from. Nothing is raised for a feed that fails."""

    def read(self, at: float) -> PowerSample:
        """The newest sample at `at`."""


class PrometheusFeed:
    """Queries the watts and, separately, their time. Raises SettingsError where the time cannot be queried.

    Several series are added up; their number must be `expect_series`; the oldest of their times counts. `signed`
    numbers, such as prices, may be negative. `count` is called with ok, empty or error for every query.
    """

    def __init__(
        self,
        client: PrometheusClient,
        query: str,
        *,
        freshness: str | None = None,
        expect_series: int = 1,
        signed: bool = False,
        count: Callable[[str], None] = lambda result: None,
    ) -> None:
        self._client = client
        self._query = query
        self._freshness = freshness or own_timestamp(query)
        self._expect_series = expect_series
        self._signed = signed
        self._count = count
        self._last: tuple[float, dict[str, float]] = 0.0, {}

    def read(self, at: float) -> PowerSample:
        """Sends both queries and waits for the sample."""
        return self.ask(at)()

    def ask(self, at: float) -> Callable[[], PowerSample]:
        """Sends both queries; the function it returns waits for the sample."""
        queries = [self._client.start(query, Grid(at, 1.0, 1)) for query in (self._query, self._freshness)]
        return lambda: self._sample(at, queries)

    def _sample(self, at: float, asked: list[Future[bytes]]) -> PowerSample:
        try:
            watts, times = [self._table(answer) for answer in asked]
        except TelemetryError as error:
            return PowerSample(None, at, str(error), "unreachable")
        if len(watts) != self._expect_series:
            many = f"the feed's query {self._query} gives {len(watts)} series, expectSeries is {self._expect_series}"
            return PowerSample(None, at, many, "series")
        if not len(times):
            unknown_age = f"the age of the feed's samples is unknown: {self._freshness} gives no series"
            return PowerSample(None, at, unknown_age, "unreadable")
        time = float(times.values.min())
        if not math.isfinite(time):
            broken = f"the time of the feed's samples cannot be read: {self._freshness} gives {time}"
            return PowerSample(None, at, broken, "unreadable")
        sample = _sample(float(watts.values.sum()), time, signed=self._signed)
        return sample if sample.watts is None else replace(sample, witnessed=self._witnessed(watts, time))

    def _witnessed(self, table: responses.SeriesTable, time: float) -> float | None:
        """The watts before, fallen as far as all series but the one that fell most; None where there is no other."""
        if table.every is None:
            return None
        values = table.values[:, 0].tolist()
        now = {str(sorted(labels.items())): value for labels, value in zip(table.every, values, strict=True)}
        known, before = self._last
        if time == known:
            return None
        self._last = time, now
        parts = sorted(value / before[name] for name, value in now.items() if before.get(name))
        return parts[1] * sum(before.values()) if len(parts) > 1 else None

    def _table(self, answer: Future[bytes]) -> responses.SeriesTable:
        try:
            table = responses.instant(answer.result(), (), self._client.url, every=self._expect_series > 1)
        except TelemetryError:
            self._count("error")
            raise
        self._count("ok" if len(table) else "empty")
        return table


class HttpFeed:
    """Reads a JSON document; `json_path` is what `compile_path` takes.

    The document has no time of its own unless `time_path` names one (Unix seconds or RFC 3339); then the time is that
    of the answer. `get` fetches the body and raises TelemetryError; `hidden` removes secrets from what is quoted of it.
    """

    def __init__(
        self,
        get: Callable[[], bytes],
        clock: Clock,
        json_path: str = "$",
        *,
        time_path: str | None = None,
        signed: bool = False,
        hidden: Callable[[str], str] = str,
    ) -> None:
        self._signed = signed
        self._get = get
        self._hidden = hidden
        self._clock = clock
        self._path = compile_path(json_path)
        self._time_path = None if time_path is None else compile_path(time_path)
        self._names = (json_path, time_path)

    def read(self, at: float) -> PowerSample:
        """Fetches the document; a failure is in `problem`."""
        try:
            document = msgspec.json.decode(self._get())
        except TelemetryError as error:
            return PowerSample(None, at, str(error), "unreachable")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            not_json = f"the feed's answer is not JSON ({error}); check its url"
            return PowerSample(None, at, not_json, "unreadable")
        time = self._clock.wall()
        try:
            if self._time_path is not None:
                time = unix_time(pick(document, self._time_path))
            watts = pick(document, self._path)
        except (KeyError, TypeError, ValueError):
            names = " or ".join(name for name in self._names if name)
            missing = f"the feed's answer has no usable value at {names}; correct jsonPath"
            return PowerSample(None, at, missing, "unreadable")
        sample = _sample(watts, time, signed=self._signed)
        return sample if sample.problem is None else replace(sample, problem=_short(self._hidden(sample.problem)))


class CsvFeed:
    """A recorded feed: the newest row not later than `at`; read again when the file was changed.

    Raises UsageError as `trace` does, later it is a problem of the sample.
    """

    def __init__(self, path: Path, *, signed: bool = False) -> None:
        self._path = path
        self._signed = signed
        self._samples = list(trace(path, signed=signed))
        self._changed = _changed(path)

    @property
    def apart(self) -> float | None:
        """The median of the seconds between rows; None where there are not two."""
        times = [sample.time for sample in self._samples if math.isfinite(sample.time)]
        gaps = [later - earlier for earlier, later in pairwise(times) if later > earlier]
        return median(gaps) if gaps else None

    def read(self, at: float) -> PowerSample:
        """The newest row not later than `at`."""
        try:
            if (changed := _changed(self._path)) != self._changed:
                self._samples, self._changed = list(trace(self._path, signed=self._signed)), changed
        except UsageError as error:
            return PowerSample(None, at, str(error), "unreachable")
        past = [sample for sample in self._samples if sample.time <= at]
        return past[-1] if past else PowerSample(None, at, "the trace begins later", "stale")


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error


def trace(path: Path, *, signed: bool = False) -> Iterator[PowerSample]:
    """The rows of a CSV `time,watts`, one sample each; time is seconds or RFC 3339, `signed` values may be negative.

    An empty, NaN, infinite, negative or unreadable value is an invalid sample, and so is a row not later than the one
    before. An unreadable time gives NaN. Raises UsageError when the file cannot be read or has other columns.
    """
    return (sample for sample, _ in table(path, signed=signed))


def table(
    path: Path, *, signed: bool = False, named: str = "watts"
) -> Iterator[tuple[PowerSample, Mapping[str, str | None]]]:
    """As `trace`, each sample with the columns of its row; the column of watts may be `named` otherwise."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file, skipinitialspace=True)
            columns = [name.strip() for name in rows.fieldnames or ()]
            column = named if named in columns else "watts"
            if not {"time", column} <= set(columns):
                raise UsageError(f"{path}: expected the columns time,watts, found {','.join(columns) or 'none'}.")
            rows.fieldnames = columns
            newest = -math.inf
            for row in rows:
                sample = _row(row["time"] or "", row[column] or "", newest, signed=signed)
                newest = max(newest, sample.time) if math.isfinite(sample.time) else newest
                yield sample, row
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{path} cannot be read: {error}.") from error


def _row(time_text: str, watts: str, newest: float, *, signed: bool) -> PowerSample:
    try:
        time = unix_time(time_text.strip())
    except ValueError:
        unread = f"the time {time_text!r} is neither seconds nor RFC 3339"
        return PowerSample(None, math.nan, unread, "unreadable")
    if time <= newest:
        return PowerSample(None, time, "not later than the row before", "stale")
    if not watts.strip():
        return PowerSample(None, time, "no value", "unreadable")
    return _sample(watts.strip(), time, signed=signed)


def _sample(value: object, time: float, *, signed: bool = False) -> PowerSample:
    """Watts as given; only a finite number of at least 0, or any where it is `signed`, is valid."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return PowerSample(None, time, f"{value!r} is not a number of watts", "unreadable")
    try:
        watts = float(value)
    except (ValueError, OverflowError):
        return PowerSample(None, time, f"{value!r} is not a number of watts", "unreadable")
    if not math.isfinite(watts) or (watts < 0 and not signed):
        return PowerSample(None, time, f"{watts:g} W is not a valid power", "negative" if watts < 0 else "non_finite")
    return PowerSample(watts, time)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def unix_time(value: Any) -> float:
    """Unix seconds from seconds or RFC 3339; raises ValueError."""
    try:
        time = float(value)
    except OverflowError as error:
        raise ValueError(str(error)) from None
    except (TypeError, ValueError):
        moment = datetime.fromisoformat(str(value))
        time = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if not math.isfinite(time):
        raise ValueError("not finite")
    return time


def own_timestamp(query: str, key: str = "feed") -> str:
    """The query for the oldest time of a query's samples; `key` holds it. Raises SettingsError where there is none."""
    aggregated = _AGGREGATED.fullmatch(query)
    inner = query if aggregated is None else aggregated["inner"]
    growth = _GROWTH.fullmatch(inner)
    selector = inner if growth is None else growth["inner"]
    if is_plain_selector(selector):
        times = f"timestamp({selector.strip()})"
        return times if aggregated is None else f"min({times})"
    raise SettingsError(
        f"{key}.query is {query!r}, which is no selector, no rate, increase or irate of one, and no sum, avg, min or "
        f"max of these, so the age of its samples cannot be queried; give {key}.freshness, a query for their Unix time "
        "such as min(timestamp(a_metric)), or record it under a name of its own (a recording rule) and ask for that"
    )


def compile_path(path: str) -> ParsedResult:
    """A path of settings, compiled: a dotted one such as `$.site.power[0].watts`, or else a JMESPath expression.

    The keys of a dotted path are taken as they are, dashes included. Raises SettingsError for anything else.
    """
    text = path.strip()
    # kubectl's braces around a path; those of JMESPath stay.
    text = text[1:-1] if re.fullmatch(r"\{[.$].*\}", text) else text
    text = text.removeprefix("$").removeprefix(".")
    if re.fullmatch(r"(?:\[\d+\]|[^.\[\]{}]+)(?:\[\d+\]|\.[^.\[\]{}]+)*", text):
        text = re.sub(r"(\[\d+\])|([^.\[\]]+)", lambda step: step[1] or json.dumps(step[2]), text)
    try:
        return jmespath.compile(text or "@")
    except (JMESPathError, RecursionError) as error:
        raise SettingsError(
            f"jsonPath {path!r}: expected a dotted path such as $.site.power[0].watts, or a JMESPath expression such "
            f"as sum(meters[].watts) ({str(error).splitlines()[0]})"
        ) from None


def pick(document: Any, path: ParsedResult) -> Any:
    """The value at this path of a document. Raises KeyError where there is none."""
    try:
        value = path.search(document)
    except JMESPathError as error:
        raise KeyError(str(error)) from None
    if value is None:
        raise KeyError(path.expression)
    return value
