"""Reads the schedule of a power policy; the last one that could be read stays."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

import msgspec
import structlog
from jmespath.parser import ParsedResult

from ballast.base.errors import NOT_JSON, ClusterError, TelemetryError, UsageError
from ballast.power.feed_spec import DAY, Schedule, ScheduleRow, ScheduleSpec
from ballast.power.plausible import small_rows
from ballast.power.policy import PowerPolicy
from ballast.power.values import exact
from ballast.telemetry.feeds.power_feed import MAX_BODY, PrometheusFeed, access, compile_path, pick, table, unix_time
from ballast.telemetry.http import HttpSession
from ballast.telemetry.prometheus_client import PrometheusClient

PART = "the schedule's "

KEY = "power.schedule."
"""Before the name of a policy: its rows of the next day."""

MOST = 300
"""Rows that are saved; a day of five minutes each has 288."""

EVERY = 60.0
"""Seconds between two reads."""

LOWER, HIGHER, PAUSE = 0.99, 1.05, 600.0
"""Of a query's watts, what is below or above this much of those that are saved is saved anew; what is above only so
many seconds after the save before, so that a level that swings is not written each minute."""

LONGEST_ID = 100
"""Characters of an event's id that are kept."""

log = structlog.get_logger("ballast.power")


class Keys(Protocol):
    """What is kept over restarts. `read` and `update` raise ClusterError."""

    def read(self) -> Mapping[str, str]: ...

    def begin_anew(self, key: str, text: str, error: Exception) -> None: ...

    def update(self, change: Callable[[Mapping[str, str]], Mapping[str, str]], *, reason: str) -> object: ...


def recorded_schedule(policy: PowerPolicy) -> Schedule | None:
    """The schedule of a policy that gives it as a file; None otherwise. Raises UsageError."""
    spec = policy.schedule
    return None if spec is None or spec.csv is None else _of_file(Path(spec.csv), spec).meant(spec)


class ScheduleReader:
    """The upper bound at any time. Nothing is raised for a schedule that cannot be read: the last one stays."""

    def __init__(self, policy: PowerPolicy, client: PrometheusClient | None, keys: Keys | None = None) -> None:
        """`keys` keep the rows of the next day over restarts; None: nothing does."""
        self._keys, self._key = keys, f"{KEY}{policy.name}"
        self._saved: tuple[bytes, Fraction, float] | None = None
        self._recalled = False
        self._policy, self._spec = policy, policy.schedule
        self._ends = policy.schedule is not None and policy.schedule.query is None
        self.doubt: str | None = None
        """What can hardly be right of it, or None."""
        self._client = client
        self._wire: HttpSession | None = None
        self.known: Schedule | None = None
        """As last read."""
        self._read_at: float | None = None
        self.problem: str | None = None
        """Why the newest read failed, or None."""
        self._read = self._reader()

    def lowest(self, at: float, unset: float | None = None) -> ScheduleRow | None:
        """The row with the lowest watts from `at` (Unix seconds) until the lead later; None where none is known.

        `unset` is what the clock would show if it had not been set lately: then the lower row of both counts.
        """
        if self._spec is None or self._read is None:
            return None
        if self._read_at is None or not 0 <= at - self._read_at < EVERY:
            self._read_at = at
            try:
                self._take(self._read(at).meant(self._spec), exact(at))
            except (TelemetryError, UsageError, ValueError) as error:
                self.problem = f"the schedule cannot be read: {error}"
                log.warning("a power schedule cannot be read; the last one stays", problem=str(error))
                self._recall(exact(at))
                if self._recalled:
                    self.problem = f"{self.problem}; the rows that were saved before the start are in force"
            self._remember(at)
        if self.known is None:
            return None
        rows = (self.known.lowest(exact(time), self._spec.lead) for time in {at, at if unset is None else unset})
        return min((row for row in rows if row is not None), key=lambda row: row.watts, default=None)

    @property
    def forecast(self) -> Schedule | None:
        """What a rise may go by: what a query told a process before this one bounds, but is no ground for a rise."""
        return None if self._recalled and not self._ends else self.known

    def forget(self) -> None:
        """This replica leads from now on: what it could not save before, it saves now."""
        self._saved = None

    def _remember(self, at: float) -> None:
        """Saves the rows of the next day, where they are others: a promise outlives the process that was told it."""
        ahead = self.ahead(at)[:MOST]
        if self._keys is None or self.known is None or self.known.priced or not ahead or self._recalled:
            return
        text = msgspec.json.encode(
            [[str(row.time), str(row.watts), row.id, row.ramp and str(row.ramp)] for row in ahead]
        )
        level = ahead[-1].watts
        if self._saved is not None:
            before, last, saved_at = self._saved
            # A query tells one number anew at each read.
            high = HIGHER * last if abs(at - saved_at) >= PAUSE else level
            near = not self._ends and LOWER * last <= level <= high
            if near or text == before:
                return
        try:
            self._keys.update(lambda data: {**data, self._key: text.decode()}, reason="the power schedule ahead")
            self._saved = text, level, at
        except ClusterError as error:
            log.warning("the rows of a power schedule cannot be saved", problem=str(error))

    def _recall(self, now: Fraction) -> None:
        """Goes by the saved rows, where nothing has been read since the start. What a query told, it told by now."""
        if self.known is not None or self._keys is None:
            return
        text: str | None = None
        try:
            text = self._keys.read().get(self._key)
            rows = [] if text is None else msgspec.json.decode(text, type=list[tuple[str, str, str | None, str | None]])
            known = [(Fraction(at), Fraction(watts), name, ramp and Fraction(ramp)) for at, watts, name, ramp in rows]
            if any(row[1] < 0 for row in known):
                raise ValueError("negative watts")
        except ClusterError as error:
            log.warning("the saved rows of a power schedule cannot be read", problem=str(error))
            return
        except (ValueError, ZeroDivisionError, *NOT_JSON) as error:
            self._keys.begin_anew(self._key, text or "", error)
            return
        if known and not self._ends:  # Where rows of a file are saved still, the lowest holds.
            at, watts, name, ramp = min(known, key=lambda row: row[1])
            known = [(min(at, now), watts, name, ramp)]
        if known:
            self.known, self._recalled = Schedule.of(known), True

    def _take(self, schedule: Schedule, at: Fraction) -> None:
        """Raises ValueError for one without rows ahead where the last one has some."""
        last = self.known
        if self._ends and last is not None and schedule.rows[-1].time <= at < last.rows[-1].time:
            until = datetime.fromtimestamp(float(last.rows[-1].time), UTC)
            raise ValueError(f"its rows ahead are gone, which went until {until:%Y-%m-%d %H:%M} UTC")
        self._recalled = False
        self.known, self.problem, self.doubt = schedule, None, small_rows(self._policy, schedule)

    def ahead(self, at: float) -> tuple[ScheduleRow, ...]:
        """The rows that hold at some time of the day from `at` (Unix seconds) on, as last read."""
        return () if self.known is None else self.known.ahead(exact(at), DAY)

    def close(self) -> None:
        """Closes the HTTP connection."""
        if self._wire is not None:
            self._wire.close()

    def _reader(self) -> Callable[[float], Schedule] | None:
        spec = self._spec
        if spec is None:
            return None
        if spec.csv is not None:
            path = Path(spec.csv)
            return lambda at: _of_file(path, spec)
        if spec.url is not None:
            url, path_of = spec.url, compile_path(spec.json_path)
            http = access(spec, PART)
            wire = self._wire = HttpSession(url, part=PART, timeout=10.0, access=http, max_body=MAX_BODY)

            def fetch(at: float) -> Schedule:
                try:
                    return _of_document(wire.get(url), path_of, spec)
                except ValueError as error:
                    raise TelemetryError(wire.hidden(str(error))) from None

            return fetch
        if self._client is None:
            raise UsageError("a power schedule asks Prometheus: set BALLAST_PROMETHEUS__URL")
        feed = PrometheusFeed(self._client, spec.query or "", freshness=spec.freshness)

        def ask(at: float) -> Schedule:
            sample = feed.read(at)
            if sample.watts is None:
                raise TelemetryError(sample.problem or "no value")
            return Schedule.of([(exact(at), exact(sample.watts))])

        return ask


def _of_file(path: Path, spec: ScheduleSpec) -> Schedule:
    """Raises UsageError, also for a row that cannot be read: without it the one before would hold on."""
    rows: list[tuple[Any, ...]] = []
    try:
        for sample, row in table(path, signed=spec.priced_as is not None, named=spec.priced_as or "watts"):
            if sample.watts is None:
                raise ValueError(f"row {len(rows) + 1} ({row['time']}): {sample.problem}")
            rows.append((exact(sample.time), exact(sample.watts), *_event(row.get("id"), row.get("ramp"))))
        return _with_rows(rows)
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from None


def _with_rows(rows: Iterable[tuple[Any, ...]]) -> Schedule:
    schedule = Schedule.of(rows)
    if not schedule.rows:
        raise ValueError("it has no rows")
    return schedule


def _of_document(body: bytes, path: ParsedResult, spec: ScheduleSpec) -> Schedule:
    """Raises ValueError for anything but a list of rows."""
    try:
        return _with_rows(_row(row, spec) for row in pick(msgspec.json.decode(body), path))
    except (*NOT_JSON, KeyError, IndexError, TypeError) as error:
        raise ValueError(f"expected a list of rows with time and watts ({error!r})") from None


def _row(row: Any, spec: ScheduleSpec) -> tuple[Any, ...]:
    if isinstance(row, dict):
        row = [row.get("time"), row.get(spec.priced_as, row.get("watts")), row.get("id"), row.get("ramp")]
    time, value, *event = row
    identity, ramp = [*event, None, None][: max(2, len(event))]
    watts = exact(value)
    if watts < 0 and spec.priced_as is None:
        raise ValueError(f"watts are {value}: expected at least 0")
    return exact(unix_time(time)), watts, *_event(identity, ramp)


def _event(identity: Any, ramp: Any) -> tuple[str | None, Fraction | None]:
    """Id and ramp of a row, where it has them. Raises ValueError."""
    name = str(identity or "").strip()[:LONGEST_ID] or None
    if ramp is None or ramp == "":
        return name, None
    try:
        rate = exact(ramp)
    except ValueError:
        rate = Fraction(0)
    if rate <= 0:
        raise ValueError(f"ramp is {ramp!r}: expected watts a minute above 0, or nothing. Correct it.")
    return name, rate
