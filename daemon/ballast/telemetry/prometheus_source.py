"""Prometheus as a source: M + 1 queries per cycle for any number of nodes, range queries for the past."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace

from ballast.base.answer_budget import AnswersInFlight
from ballast.base.errors import SourceUnavailable, TelemetryError, without_frames
from ballast.base.metrics import Metrics
from ballast.model.pod import Pod
from ballast.model.sample import Mixture, Reading
from ballast.settings import Settings
from ballast.telemetry import presets
from ballast.telemetry import responses as decoding
from ballast.telemetry.failed_answers import TooLarge, TooSlow
from ballast.telemetry.mixing import Difference
from ballast.telemetry.node_names import Naming, NodeNames
from ballast.telemetry.pod_usage import HOUR, NEWEST, PodAnswers, ages, named_by_pod
from ballast.telemetry.prometheus_client import Grid, PrometheusClient
from ballast.telemetry.queries import FRESHNESS, QuerySet, join_queries, questions
from ballast.telemetry.readings import Answers, QueryWarnings, ReadingBuilder
from ballast.telemetry.responses import SeriesTable
from ballast.telemetry.scrapes import LOOKED_AT, ScrapeIntervals

MAX_POINTS = 11_000
_POINTS_PER_ANSWER = 50_000
_FIRST_PIECE = 10
_TIMES_AT_ONCE = 25
"""A third of a million points with 15,000 nodes. The memory suffices to decode them."""


class PrometheusSource:
    """A `Source`. Raises SettingsError without BALLAST_PROMETHEUS__URL. `pods` are those that the watch shows."""

    name = "prometheus"

    def __init__(self, settings: Settings, metrics: Metrics, pods: Callable[[], Iterable[Pod]] = tuple) -> None:
        self.resources = tuple(resource.name for resource in settings.telemetry.resources)
        self._settings = settings
        self._client = PrometheusClient(settings)
        self._asked_with: tuple[str, dict[str, tuple[str, ...]]] = ("", {})
        self._remarks = QueryWarnings(self.name, metrics)
        self._assembly = ReadingBuilder(self.name, settings, self._remarks, pods)
        self._metrics = metrics
        self._questions = self._current_queries()

    def read(self, at: float, names: NodeNames, resources: Sequence[str] | None = None) -> Reading:
        """The samples at `at` from one instant query per resource and one for their age."""
        query_set = self._current_queries() if resources is None else self._current_queries().only(resources)
        grid = Grid(at, 1.0, 1)
        raw = bool(query_set.raw) and self._assembly.check.due(at)
        without = self._assembly.check.without
        reading = next(self._assembly.readings(grid, query_set, self._ask(query_set, grid, raw=raw), names))
        if self._assembly.check.without != without:
            # What was just asked counts jobs that are left out from now on, or lacks some that count again.
            query_set = self._current_queries() if resources is None else self._current_queries().only(resources)
            again = next(self._assembly.readings(grid, query_set, self._ask(query_set, grid), names))
            return replace(again, queries=reading.queries + again.queries)
        return reading

    def backfill(self, start: float, end: float, step: float, names: NodeNames) -> Iterator[Reading]:
        """Asks in pieces: few enough points for the server's limits and time, the body limit and a short decoding.

        A resource that failed is not asked again; its sentence is in every later reading.
        """
        left = int((end - start) / step + 1e-6) + 1 if end >= start else 0
        query_set, piece, most = self._current_queries(), _FIRST_PIECE, MAX_POINTS
        while left:
            grid = Grid(start, step, min(piece, left))
            answers = self._ask(query_set, grid)
            if grid.count > 1 and _too_much(answers):
                piece = most = grid.count // 2
                continue
            yield from self._assembly.readings(grid, query_set, answers, names)
            if failed := answers.failures(query_set):
                query_set, most = query_set.without(failed), MAX_POINTS
            piece = min(most, _next_piece(answers))
            start, left = grid.time(grid.count), left - grid.count

    def ask_pods(
        self,
        at: float,
        resources: Sequence[str] = ("cpu", "memory"),
        pods: Sequence[str] | None = None,
        *,
        hour: bool = False,
    ) -> PodAnswers:
        """The undecoded usage of `pods`, named namespace/name, or of all, as far as cadvisor measures the resources;
        with its mean over the last `hour`."""
        texts = presets.pod_queries(self._settings, pods)
        known = tuple(name for name in resources if name in texts)
        queries = {name: texts[name] for name in known} | {NEWEST: presets.pod_freshness(self._settings, pods)}
        if hour:
            hours = presets.pod_hour_queries(self._settings, pods)
            queries |= {HOUR + name: hours[name] for name in known}
        bodies, problems = self.ask_about_pods({name: named_by_pod(text) for name, text in queries.items()}, at)
        max_age, skew = ages(self._settings)
        count = None if pods is None else len(pods)
        places, naming = presets.places(self._settings), Naming.of(self._settings)
        return PodAnswers(at, bodies, problems, known, max_age, skew, self._client.url, count, places, naming)

    def ask_about_pods(self, texts: Mapping[str, str], at: float) -> tuple[dict[str, bytes], dict[str, str]]:
        """The undecoded answers to these queries by name, and a sentence for each that failed."""
        grid = Grid(at, 1.0, 1)
        futures = {name: self._client.start(text, grid) for name, text in texts.items()}
        bodies, problems = {}, {}
        for name, future in futures.items():
            try:
                bodies[name], result = future.result(), "ok"
            except TelemetryError as error:
                problems[name], result = str(without_frames(error)), "error"
            self._metrics.queries.labels(f"pod_{name}", result).inc()
        return bodies, problems

    def scrape_intervals(self, start: float, end: float, step: float) -> dict[str, float]:
        """Seconds between scrapes by resource, as far as the ages of the samples since `start` tell them."""
        query_set, scrapes = self._current_queries(), ScrapeIntervals()
        for freshness in query_set.freshness:
            count = int((end - start) / step + 1e-6) + 1
            for first in range(0, count, _TIMES_AT_ONCE):
                grid = Grid(start + first * step, step, min(_TIMES_AT_ONCE, count - first))
                table = self._table(FRESHNESS, self._client.start(freshness, grid), query_set.labels, grid)
                if isinstance(table, SeriesTable):
                    scrapes.add(freshness, table.nodes[:LOOKED_AT], table.values[:LOOKED_AT])
        return scrapes.by_resource(query_set.asked)

    @property
    def differences(self) -> tuple[Difference, ...]:
        """What series of one node differ in, found by the readings so far."""
        return self._assembly.check.differences

    @property
    def copied_labels(self) -> Mapping[str, str]:
        """Ballast's own labels on series, as the newest check found, with the pattern that drops each."""
        return self._assembly.check.copied

    @property
    def several_jobs(self) -> Mixture | None:
        """Nodes that several scrape jobs report, as the newest check found."""
        return self._assembly.check.several_jobs

    @property
    def left_out(self) -> frozenset[str]:
        """The matchers that leave out jobs and pods that do not count."""
        return frozenset(each for matchers in self._assembly.check.without.values() for each in matchers)

    def probe(self, at: float) -> None:
        """Asks the cheapest question. Raises SourceUnavailable or TelemetryError."""
        decoding.instant(self._client.ask("vector(1)", Grid(at, 1.0, 1)), ("instance",), self._client.url)

    def close(self) -> None:
        """Fails the queries under way and frees the connections."""
        self._client.close()

    def _current_queries(self) -> QuerySet:
        """The queries; their rates follow the scrapes, and they leave out jobs that do not count."""
        window = presets.rate_window(self._settings.telemetry.interval, self._assembly.scrapes.slowest())
        without = self._assembly.check.without
        if (window, without) != self._asked_with:
            self._asked_with, self._questions = (window, without), questions(self._settings, window, without)
        return self._questions

    def _ask(self, asked: QuerySet, grid: Grid, *, raw: bool = False) -> Answers:
        """All questions at once; each answer is decoded while the next one arrives. What fails is an answer too.

        With `raw` the age is asked per series, with all labels.
        """
        if not asked.asked:
            return Answers({}, {}, 0)
        texts = {text: asked.raw.get(text, text) if raw else text for text in asked.freshness}
        # Whether values agree is asked along with the ages, so it costs no query of its own.
        lowest = asked.lowest if raw else {}
        freshness = self._client.start(join_queries([*texts.values(), *lowest.values()]), grid)
        futures = [self._client.start(question.query, grid) for question in asked.asked]
        newest, queries = self._newest(asked, freshness, grid, {**texts, **{text: text for text in lowest.values()}})
        values = {
            question: self._table(question.resource, future, question.labels, grid)
            for question, future in zip(asked.asked, futures, strict=True)
        }
        agreeing = {question: newest[text] for question, text in lowest.items() if text in newest}
        return Answers(values, {text: newest[text] for text in texts}, len(values) + queries, agreeing)

    def _newest(
        self, asked: QuerySet, answer: Future[bytes], grid: Grid, texts: Mapping[str, str]
    ) -> tuple[dict[str, SeriesTable | TelemetryError], int]:
        """The answer per freshness expression: one query for all, one for each only where that one failed."""
        raw = any(expression != text for expression, text in texts.items())
        table = self._table(FRESHNESS, answer, asked.labels, grid, every=raw)
        if raw and isinstance(table, TelemetryError) and not isinstance(table, SourceUnavailable):
            again = self._client.start(join_queries(asked.freshness), grid)
            newest, queries = self._newest(asked, again, grid, {text: text for text in asked.freshness})
            return newest, queries + 1
        if len(texts) == 1:
            return dict.fromkeys(texts, table), 1
        if isinstance(table, SourceUnavailable):
            return dict.fromkeys(texts, table), 1
        if isinstance(table, TelemetryError) or not len(table):
            futures = {text: self._client.start(text, grid) for text in asked.freshness}
            alone = {text: self._table(FRESHNESS, future, asked.labels, grid) for text, future in futures.items()}
            return alone, 1 + len(alone)
        return {text: table.group(str(number)) for number, text in enumerate(texts)}, 1

    def _table(
        self, subject: str, answer: Future[bytes], labels: tuple[str, ...], grid: Grid, *, every: bool = False
    ) -> SeriesTable | TelemetryError:
        try:
            body = answer.result()
            if grid.count == 1:
                table = decoding.instant(body, labels, self._client.url, every=every)
            else:
                table = decoding.grid(body, labels, self._client.url, grid.start, grid.step, grid.count)
        except TelemetryError as error:
            self._metrics.queries.labels(subject, "error").inc()
            return without_frames(error)
        self._metrics.queries.labels(subject, "ok" if len(table) else "empty").inc()
        return table


def _too_much(answers: Answers) -> bool:
    """Whether fewer times at once may succeed."""
    reasons = (TooLarge, TooSlow, AnswersInFlight)
    return any(isinstance(one, reasons) for one in (*answers.values.values(), *answers.newest.values()))


def _next_piece(answers: Answers) -> int:
    tables = [one for one in (*answers.values.values(), *answers.newest.values()) if isinstance(one, SeriesTable)]
    series = max((len(table) for table in tables), default=1)
    return max(1, min(_POINTS_PER_ANSWER // max(series, 1), MAX_POINTS))
