"""The watts that a policy may use, from its feed, and the replicas that its targets need for their own load."""

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import ceil
from pathlib import Path
from statistics import median
from threading import Event

from ballast.base.clock import AHEAD, Clock
from ballast.base.errors import SettingsError, TelemetryError, UsageError
from ballast.base.metrics import Metrics
from ballast.power.absolute import feed_for
from ballast.power.feed_spec import ConsumptionScope, FeedSpec, Schedule, ScheduleRow, Semantics, remaining
from ballast.power.plausible import Plausibility, drawn_at_most
from ballast.power.policy import PowerPolicy
from ballast.power.sections import Need
from ballast.power.values import exact
from ballast.telemetry import responses
from ballast.telemetry.feeds.power_feed import (
    MAX_BODY,
    CsvFeed,
    HttpFeed,
    PowerFeed,
    PowerSample,
    PrometheusFeed,
    access,
    compile_path,
    own_timestamp,
)
from ballast.telemetry.feeds.power_feed import problems as unusable_files
from ballast.telemetry.http import HttpSession
from ballast.telemetry.prometheus_client import Grid, PrometheusClient

LEAST_AGE = 60.0

TIMEOUT = 10.0
"""Seconds that an address may take to answer."""

GAPS = 20
"""Distances of samples that are remembered."""

PART = "the feed's "

WITNESS = "witness"

AGAIN = 1.0
"""Seconds after which a source is asked again for a sudden fall."""

Ask = Callable[[float], Callable[[], PowerSample]]


@dataclass(frozen=True)
class Watts:
    """`watts` is None where no value is usable, for the reason in `problem`; `time` is the samples' own (Unix)."""

    watts: Fraction | None
    time: float | None = None
    problem: str | None = None
    reason: str = ""
    newest: float | None = None
    """The newest time of all parts of the feed, where it is another."""
    bound: Fraction | None = None
    """The upper bound of the policy's schedule; None without one."""
    event: str | None = None
    """The id of the schedule's row that it comes from, if that has one."""
    ahead: tuple[ScheduleRow, ...] = ()
    """The rows of the schedule for the next day."""
    forecast: Schedule | None = None
    """The schedule as last read."""
    schedule_problem: str | None = None
    """Why the newest read of the schedule failed, or None."""
    consumed: Fraction | None = None
    """What the policy's replicas draw, measured; None where unknown."""
    apart: float | None = None
    """Seconds between the feed's samples, as far as that is known."""
    witnessed: Fraction | None = None
    """Watts down to which something else says so too; None where nothing does."""
    doubt: str | None = None
    """What can hardly be right of the feed or the schedule, or None."""


def problems(policy: PowerPolicy) -> Iterator[str]:
    """One sentence for each query of the feed without a way to query the age of its samples, and each unusable file."""
    for part, name in (
        (policy.feed, PART),
        (policy.consumption, "consumption's "),
        (policy.schedule, "the schedule's "),
    ):
        if part is not None:
            yield from unusable_files(part, name)
    parts = [(policy.feed, "feed"), (policy.consumption, "consumption")]
    queries = [(query, freshness, key) for part, name in parts for query, freshness, key in _queries(part, name)]
    if policy.schedule is not None and policy.schedule.query is not None:
        queries.append((policy.schedule.query, policy.schedule.freshness, "schedule"))
    for query, freshness, key in queries:
        if freshness is None:
            try:
                own_timestamp(query, key)
            except SettingsError as error:
                yield str(error)
    for key, part in (("feed", policy.feed), ("consumption", policy.consumption), ("schedule", policy.schedule)):
        times = part.time_path if isinstance(part, FeedSpec) else None
        for path in () if part is None else filter(None, (part.json_path, times)):
            try:
                compile_path(path)
            except SettingsError as error:
                yield f"{key}.{error}"


def asks_prometheus(policy: PowerPolicy) -> bool:
    """Whether any part of the feed is a Prometheus query."""
    return any(_queries(policy.feed, "feed"))


class OldestAllowed:
    """How old a sample may be: `maxAge`, else three times the measured distance of the samples, at least 60 s."""

    def __init__(self, policy: PowerPolicy) -> None:
        feed = policy.feed
        self._given = None if feed is None or feed.max_age is None else float(feed.max_age)
        self._newest: float | None = None
        self._gaps: deque[float] = deque(maxlen=GAPS)
        self.apart: float | None = None
        """Seconds between two samples, measured or known beforehand; None where they are not known yet."""

    @property
    def seconds(self) -> float:
        """Seconds."""
        if self._given is not None:
            return self._given
        return LEAST_AGE if self.apart is None else max(LEAST_AGE, 3 * self.apart)

    def add(self, time: float) -> None:
        """A sample with this time of its own (Unix seconds), usable or not."""
        if self._newest is not None and time > self._newest:
            self._gaps.append(time - self._newest)
            self.apart = median(self._gaps)
        if self._newest is None or time > self._newest:
            self._newest = time


class BudgetFeed:
    """Reads one policy's feed. Nothing is raised for one that fails.

    `client` is None only where no query is asked; `timeout` is in seconds, of an address. Raises
    SettingsError and UsageError for a feed that cannot be read.
    """

    def __init__(
        self,
        policy: PowerPolicy,
        client: PrometheusClient | None,
        clock: Clock,
        metrics: Metrics,
        timeout: float = TIMEOUT,
    ) -> None:
        # Where a schedule or an energy bounds alone, the feed lets everything draw what it can.
        self._feed = policy.feed or FeedSpec(watts=Fraction(ceil(feed_for(policy, drawn_at_most(policy)))))
        self._shared = policy.shares_limit
        self._below = policy.confirm.below
        self._last: Fraction | None = None
        self._recorded: CsvFeed | None = None
        self._timeout = timeout
        self._client = client
        self._clock = clock
        self._metrics = metrics
        self._oldest = OldestAllowed(policy)
        self._plausibility = Plausibility(policy)
        self._wires: list[HttpSession] = []
        self._parts: Mapping[str, Ask] = self._start_queries(self._feed)

    @property
    def semantics(self) -> str:
        """What the feed's watts mean, as the policy names it."""
        return (self._feed.semantics or Semantics.AVAILABLE).value

    @property
    def needs_own(self) -> bool:
        """Whether `read` needs the power that the policy's targets use."""
        consumption = self._feed.consumption
        mixed = consumption is not None and consumption.of is ConsumptionScope.TOTAL and self._feed.own is None
        return mixed and not self._shared

    def remember(self, apart: float) -> None:
        """Takes the seconds between samples that were measured before a restart, where they are not known yet."""
        self._oldest.apart = self._oldest.apart or apart

    def read(self, at: float, own: Fraction | None = None) -> Watts:
        """The budget at `at` (Unix seconds); `own` is what the policy's targets use now, in watts."""
        watts = self._read(at, own)
        if watts.watts is None:
            return watts
        return replace(watts, doubt=self._plausibility.see(at, watts.watts), apart=self._oldest.apart)

    def read_twice(self, at: float, own: Fraction | None = None) -> Watts:
        """As `read`; for a sudden fall that nothing else confirms the source is asked again after a second."""
        watts, last = self.read(at, own), self._last
        low = watts.watts
        if low is None or last is None or low >= last * self._below or watts.witnessed == low or self._recorded:
            self._last = last if low is None else low
            return watts
        self._clock.wait(Event(), AGAIN)
        again = self.read(at + AGAIN, own)
        self._last = low if again.watts is None else again.watts
        if again.watts is None or again.time == watts.time:
            return watts
        return replace(again, witnessed=max(low, again.watts))

    def _read(self, at: float, own: Fraction | None) -> Watts:
        feed = self._feed
        waiting = {name: ask(at) for name, ask in self._parts.items()}
        read = {name: sample() for name, sample in waiting.items()}
        times = [sample.time for name, sample in read.items() if sample.watts is not None and name != WITNESS]
        if times:
            self._oldest.add(min(times))
        if self._recorded is not None:
            self._oldest.apart = self._recorded.apart or self._oldest.apart
        samples = {name: self._check_sample(sample, at) for name, sample in read.items()}
        witness = samples.pop(WITNESS, None)
        for name, sample in samples.items():
            if sample.watts is None:
                return Watts(None, sample.time, f"{name}: {sample.problem}" if name else sample.problem, sample.reason)
        time = min((sample.time for sample in samples.values()), default=at)
        latest = max((sample.time for sample in samples.values()), default=at)
        newest = None if latest == time else latest
        numbers = {name: exact(sample.watts) for name, sample in samples.items()}
        if feed.limit is None:
            watts, seen = feed.budget(numbers[""]), samples[""].witnessed if witness is None else witness.watts
            witnessed = None if seen is None or (feed.map and witness is None) else max(watts, feed.budget(exact(seen)))
            return Watts(watts, time, newest=newest, witnessed=witnessed)
        scaled = {name: number * feed.unit.watts for name, number in numbers.items()}
        limit = scaled["limit"] if feed.limit.watts is None else feed.limit.watts * feed.unit.watts
        if self._shared:
            return Watts(limit, time, newest=newest, consumed=scaled["consumption"])
        if self.needs_own and own is None:
            return Watts(None, time, "the number of running replicas of the targets is unknown", "unreadable")
        mine = scaled.get("own", own if self.needs_own and own is not None else Fraction(0))
        return Watts(remaining(limit, scaled["consumption"], mine), time, newest=newest)

    def close(self) -> None:
        """Closes the HTTP connections; the Prometheus client belongs to the caller."""
        for wire in self._wires:
            with suppress(OSError):
                wire.close()

    def _check_sample(self, sample: PowerSample, at: float) -> PowerSample:
        if sample.watts is None:
            return sample
        age = at - sample.time
        if age > (oldest := self._oldest.seconds):
            old = f"the newest sample is {age:.0f} s old, maxAge is {oldest:g} s"
            return replace(sample, watts=None, problem=old, reason="stale")
        if age < -AHEAD:
            ahead = f"the sample's time is {-age:.0f} s in the future; compare the clocks"
            return replace(sample, watts=None, problem=ahead, reason="future")
        return sample

    def _start_queries(self, feed: FeedSpec) -> dict[str, Ask]:
        parts: dict[str, Ask] = {}
        if feed.watts is not None:
            constant = float(feed.watts)
            parts[""] = lambda at: lambda: PowerSample(constant, at)
        if feed.query is not None:
            parts[""] = self._query(feed.query, feed.freshness, feed.expect_series, signed=feed.signed)
        if feed.url is not None:
            parts[""] = _at_once(self._document(feed, feed.url))
        if feed.csv is not None:
            self._recorded = CsvFeed(Path(feed.csv), signed=feed.signed)
            parts[""] = _at_once(self._recorded)
        if feed.witness is not None:
            parts[WITNESS] = self._query(feed.witness.query, feed.witness.freshness, 1, signed=feed.signed)
        if feed.limit is not None and feed.limit.query is not None:
            parts["limit"] = self._query(feed.limit.query, feed.limit.freshness, 1)
        if feed.consumption is not None:
            consumption = feed.consumption
            parts["consumption"] = self._query(consumption.query, consumption.freshness, feed.expect_series)
        if feed.own is not None:
            parts["own"] = self._query(feed.own.query, feed.own.freshness, 1)
        return parts

    def _document(self, feed: FeedSpec, url: str) -> HttpFeed:
        wire = HttpSession(url, part=PART, timeout=self._timeout, access=access(feed, PART), max_body=MAX_BODY)
        self._wires.append(wire)
        signed = feed.signed
        get = partial(wire.get, url)
        return HttpFeed(get, self._clock, feed.json_path, time_path=feed.time_path, signed=signed, hidden=wire.hidden)

    def _query(self, query: str, freshness: str | None, expected: int, *, signed: bool = False) -> Ask:
        if self._client is None:
            raise UsageError("a power feed asks Prometheus: set BALLAST_PROMETHEUS__URL")
        count = self._metrics.queries
        return PrometheusFeed(
            self._client,
            query,
            freshness=freshness,
            expect_series=expected,
            signed=signed,
            count=lambda result: count.labels("power", result).inc(),
        ).ask


def _at_once(feed: PowerFeed) -> Ask:
    def ask(at: float) -> Callable[[], PowerSample]:
        sample = feed.read(at)
        return lambda: sample

    return ask


def _queries(feed: FeedSpec | None, called: str) -> Iterator[tuple[str, str | None, str]]:
    """Each query with its freshness and the key that holds it."""
    if feed is None:
        return
    parts = {"limit": feed.limit, "consumption": feed.consumption, "own": feed.own, "witness": feed.witness}
    for part, key in ((feed, called), *((part, f"{called}.{name}") for name, part in parts.items())):
        if part is not None and part.query is not None:
            yield part.query, part.freshness, key


class NeedsReader:
    """One query for each member that has `needs`, all at once."""

    def __init__(self, policy: PowerPolicy, client: PrometheusClient, metrics: Metrics) -> None:
        self._needs = {name: place.member.needs for name, place in policy.places.items() if place.member.needs}
        self._client = client
        self._metrics = metrics

    def read(self, at: float, counts: Mapping[str, int]) -> dict[str, Need]:
        """By namespace/name, of the targets with these counts."""
        queries = {
            name: (needs, self._client.start(needs.query, Grid(at, 1.0, 1)))
            for name, needs in self._needs.items()
            if name in counts
        }
        return {name: needs.of(self._value(answer.result), counts[name]) for name, (needs, answer) in queries.items()}

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
