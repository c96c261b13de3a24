"""Fifty-two falsified answers of Prometheus: the right check names each in the right words, with a line to try."""

import json
import re
import shlex
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from ballast.base.metrics import Metrics
from ballast.cluster.client import connect
from ballast.doctor import series, source_checks
from ballast.doctor.checks import CHECKS, examine
from ballast.doctor.evidence import Evidence
from ballast.doctor.outlook import outlook
from ballast.jobs.telemetry_cycle import TelemetryCycle, rules_of
from ballast.settings import load
from ballast.telemetry.metrics_server import MetricsServerSource
from ballast.telemetry.prometheus_source import PrometheusSource
from ballast_lab.simulator import EmbeddedCluster, World
from ballast_lab.simulator.prometheus_api import PrometheusApi, QueryError
from tests.unit.doctor.conftest import Patient, wrong
from tests.worlds.clock import FakeClock

NODES = 20
Labels = dict[str, str]
Series = tuple[Labels, str]
Edit = Callable[[str, Labels, str, int], list[Series]]
"""(what is asked for, labels, value, row of the node) → what Prometheus says instead; no series: it says nothing."""


def asks_for(query: str) -> str:
    """What a query is about."""
    if "container_" in query:
        return "pods"
    if "timestamp(" in query:
        return "time"
    if "node_cpu" in query or "container_cpu" in query:
        return "cpu"
    return "memory" if "node_memory" in query else "probe"


_CLUSTER = re.compile(r',?\bcluster="(\w+)"')


def unmatched(query: str) -> str:
    """For the Prometheus behind, which knows no clusters: those are falsified."""
    return _CLUSTER.sub("", query)


@dataclass
class Falsifier:
    """Stands between Prometheus and whoever asks."""

    edit: Edit | None = None
    body: Callable[[str, bytes], bytes] | None = None
    fails: QueryError | None = None
    fails_for: tuple[str, ...] = field(default_factory=tuple)

    def answer(self, query: str, body: bytes) -> bytes:
        what = asks_for(query)
        if self.fails is not None and (not self.fails_for or what in self.fails_for):
            raise self.fails
        if self.edit is not None and what != "probe":
            document = json.loads(body)
            asked = _CLUSTER.search(query)
            document["data"]["result"] = [
                entry
                for each in document["data"]["result"]
                for entry in self._edited(what, each)
                if asked is None or entry["metric"].get("cluster") == asked[1]
            ]
            body = json.dumps(document).encode()
        return self.body(what, body) if self.body is not None else body

    def _edited(self, what: str, entry: dict[str, Any]) -> list[dict[str, Any]]:
        assert self.edit is not None
        labels, row = entry["metric"], _row(entry["metric"])
        if "value" in entry:
            time, value = entry["value"]
            return [{"metric": name, "value": [time, text]} for name, text in self.edit(what, labels, value, row)]
        edited: dict[str, dict[str, Any]] = {}
        for time, value in entry["values"]:
            for name, text in self.edit(what, labels, value, row):
                key = json.dumps(name, sort_keys=True)
                edited.setdefault(key, {"metric": name, "values": []})["values"].append([time, text])
        return list(edited.values())


def _row(labels: Mapping[str, str]) -> int:
    """The number of a node, from its address."""
    address = labels.get("instance", "").partition(":")[0].rpartition(".")[2]
    return int(address) - 1 if address.isdigit() else -1


def numbers(
    of: str, change: Callable[[float, int], float | str], only: Callable[[int], bool] = lambda row: True
) -> Edit:
    """Changes the values of what is asked for, on some nodes."""

    def edit(what: str, labels: Labels, value: str, row: int) -> list[Series]:
        if what not in of.split(",") or not only(row):
            return [(labels, value)]
        return [(labels, str(change(float(value), row)))]

    return edit


def names(of: str, change: Callable[[Labels, int], list[Labels]]) -> Edit:
    """Changes the labels of what is asked for."""

    def edit(what: str, labels: Labels, value: str, row: int) -> list[Series]:
        if what not in of.split(",") or row < 0:
            return [(labels, value)]
        return [(other, value) for other in change(labels, row)]

    return edit


def gone(of: str, only: Callable[[int], bool] = lambda row: True) -> Edit:
    """Series that are not there."""
    return lambda what, labels, value, row: [] if what in of.split(",") and only(row) else [(labels, value)]


def twice(label: str, *values: str, by: float = 0.1, of: str = "cpu,memory,time") -> Edit:
    """Each series once more for each further value of a label, differing."""

    def edit(what: str, labels: Labels, value: str, row: int) -> list[Series]:
        if what not in of.split(","):
            return [(labels, value)]
        shift = 0.0 if what == "time" else by
        return [
            (labels | {label: name}, str(round(max(float(value) - number * shift, 0), 4)))
            for number, name in enumerate(values)
        ]

    return edit


def histograms(what: str, body: bytes) -> bytes:
    if what not in ("cpu", "memory"):
        return body
    document = json.loads(body)
    for entry in document["data"]["result"]:
        for old, new in (("value", "histogram"), ("values", "histograms")):
            if old in entry:
                points = entry.pop(old)
                entry[new] = (
                    [points[0], {"count": "1", "sum": "1"}] if new == "histogram" else [[at, {}] for at, _ in points]
                )
    return json.dumps(document).encode()


def warned(what: str, body: bytes) -> bytes:
    return body[:-1] + b',"warnings":["store 10.0.0.7 did not answer"]}'


def as_kind(kind: str) -> Callable[[str, bytes], bytes]:
    return lambda what, body: body.replace(b'"resultType":"vector"', b'"resultType":"' + kind.encode() + b'"')


FEW = lambda row: row < 7  # noqa: E731
TWO = lambda row: row < 2  # noqa: E731
MOST = lambda row: row < NODES - 1  # noqa: E731
BOTH = "cpu,memory"
LINES = tuple[str, Falsifier, str, str]

FALSIFIED: dict[str, tuple[Falsifier, str, str]] = {
    # what is falsified: how, the check that names it, words of the finding
    "percent": (Falsifier(numbers(BOTH, lambda v, _: 100 * v)), "units", "percent"),
    "cpu in percent": (Falsifier(numbers("cpu", lambda v, _: 100 * v)), "units", "cpu"),
    "memory in bytes": (Falsifier(numbers("memory", lambda v, _: v * 6.4e10)), "units", "memory"),
    "cpu in cores": (Falsifier(numbers("cpu", lambda v, _: 16 * v + 2)), "units", "cpu"),
    "cpu in milli-cores": (Falsifier(numbers("cpu", lambda v, _: 16000 * v)), "units", "cpu"),
    "cpu halved": (Falsifier(numbers("cpu", lambda v, _: v / 4)), "sources-disagree", "below"),
    "cpu constant": (Falsifier(numbers("cpu", lambda v, _: 0.99)), "sources-disagree", "above"),
    "cpu zero": (Falsifier(numbers("cpu", lambda v, _: 0.0)), "sources-disagree", "cpu"),
    "cpu idle instead of busy": (Falsifier(numbers("cpu", lambda v, _: 0.99 - v / 9)), "sources-disagree", "above"),
    "memory zero": (Falsifier(numbers("memory", lambda v, _: 0.0)), "sources-disagree", "memory"),
    "memory full": (Falsifier(numbers("memory", lambda v, _: 1.0)), "sources-disagree", "memory"),
    "another cluster's numbers": (Falsifier(numbers(BOTH, lambda v, _: min(v + 0.4, 1))), "sources-disagree", "above"),
    "samples 150 s old": (Falsifier(numbers("time", lambda v, _: v - 150)), "clock-skew", "old"),
    "samples 150 s ahead": (Falsifier(numbers("time", lambda v, _: v + 150)), "clock-skew", "ahead"),
    "samples an hour old": (Falsifier(numbers("time", lambda v, _: v - 3600)), "clock-skew", "stopped"),
    "times in milliseconds": (Falsifier(numbers("time", lambda v, _: 1000 * v)), "clock-skew", ""),
    "times of the epoch": (Falsifier(numbers("time", lambda v, _: 0.0)), "clock-skew", "no Unix seconds"),
    "times that are NaN": (Falsifier(numbers("time", lambda v, _: "NaN")), "freshness", ""),
    "19 of 20 samples old": (Falsifier(numbers("time", lambda v, _: v - 400, MOST)), "unmeasured-nodes", "stale"),
    "7 of 20 samples old": (Falsifier(numbers("time", lambda v, _: v - 400, FEW)), "unmeasured-nodes", "stale"),
    "7 of 20 samples ahead": (Falsifier(numbers("time", lambda v, _: v + 400, FEW)), "unmeasured-nodes", "future"),
    "no times": (Falsifier(gone("time")), "freshness", ""),
    "7 of 20 without times": (Falsifier(gone("time", FEW)), "unmeasured-nodes", "7 of 20"),
    "cpu NaN on 7": (Falsifier(numbers("cpu", lambda v, _: "NaN", FEW)), "unmeasured-nodes", "of cpu"),
    "cpu infinite on 7": (Falsifier(numbers("cpu", lambda v, _: "+Inf", FEW)), "unmeasured-nodes", "non_finite"),
    "cpu NaN": (Falsifier(numbers("cpu", lambda v, _: "NaN")), "units", "cpu"),
    "memory infinite": (Falsifier(numbers("memory", lambda v, _: "+Inf")), "units", "memory"),
    "memory negative on 4": (
        Falsifier(numbers("memory", lambda v, r: -0.5, lambda r: r < 4)),
        "unmeasured-nodes",
        "negative",
    ),
    "memory negative": (Falsifier(numbers("memory", lambda v, _: -0.5)), "units", "memory"),
    "cpu 5.0 on 2": (Falsifier(numbers("cpu", lambda v, _: 5.0, TWO)), "unmeasured-nodes", "unreadable"),
    "memory 1e9 on 7": (Falsifier(numbers("memory", lambda v, _: 1e9, FEW)), "unmeasured-nodes", "unreadable"),
    "cpu 1e308": (Falsifier(numbers("cpu", lambda v, _: 1e308)), "units", "cpu"),
    "no cpu of 7": (Falsifier(gone("cpu", FEW)), "unmeasured-nodes", "of cpu"),
    "no memory of 7": (Falsifier(gone("memory", FEW)), "unmeasured-nodes", "of memory"),
    "half of the series gone": (
        Falsifier(gone("cpu,memory,time", lambda r: r % 2 == 0)),
        "unmeasured-nodes",
        "10 of 20",
    ),
    "only one node": (Falsifier(gone("cpu,memory,time", lambda r: r > 0)), "unmeasured-nodes", "19 of 20"),
    "no cpu at all": (Falsifier(gone("cpu")), "preset-data", "cpu"),
    "no memory at all": (Falsifier(gone("memory")), "preset-data", "memory"),
    "nothing": (Falsifier(gone("cpu,memory,time,pods")), "preset-data", "memory"),
    "no cadvisor": (Falsifier(gone("pods")), "pod-usage", ""),
    "pod IPs": (
        Falsifier(names("cpu,memory,time", lambda one, r: [{"instance": f"172.16.0.{r + 1}:9100"}])),
        "node-label",
        "172.16.0.",
    ),
    "names of a cloud": (
        Falsifier(names("cpu,memory,time", lambda one, r: [{"instance": f"ip-10-9-8-{r}.internal:9100"}])),
        "node-label",
        "ip-10-9-8-",
    ),
    "no instance": (Falsifier(names("cpu,memory,time", lambda one, r: [{}][: r == 0])), "node-label", ""),
    "two clusters": (Falsifier(twice("cluster", "blue", "green")), "clusters-mixed", "blue"),
    "three clusters": (Falsifier(twice("cluster", "a", "b", "c")), "clusters-mixed", "cluster"),
    "histograms": (Falsifier(body=histograms), "units", "histogram"),
    "a warning": (Falsifier(body=warned), "preset-data", "did not answer"),
    "truncated": (Falsifier(body=lambda what, body: body[: len(body) // 2]), "prometheus-reachable", "ends after"),
    "another type": (Falsifier(body=as_kind("string")), "prometheus-reachable", ""),
    "status error": (
        Falsifier(fails=QueryError("out of bounds", "internal", 200)),
        "prometheus-reachable",
        "out of bounds",
    ),
    "429": (Falsifier(fails=QueryError("slow down", "too_many", 429)), "prometheus-reachable", "slow down"),
    "too many samples": (
        Falsifier(
            fails=QueryError("query processing would load too many samples", "execution", 422), fails_for=("cpu",)
        ),
        "preset-data",
        "too many samples",
    ),
}


@pytest.fixture(scope="module")
def twenty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Patient]:
    with EmbeddedCluster(World(nodes=NODES, scene="calm")) as cluster:
        kubeconfig = cluster.kubeconfig(tmp_path_factory.mktemp("kube") / "config")
        yield Patient(cluster, cluster.environment(kubeconfig))


@pytest.fixture
def falsify(monkeypatch: pytest.MonkeyPatch) -> Callable[[Falsifier], None]:
    def install(falsifier: Falsifier) -> None:
        for name in ("_instant", "_range"):
            answer = getattr(PrometheusApi, name)

            def falsified(self: PrometheusApi, values: dict[str, str], answer: Any = answer) -> bytes:
                return falsifier.answer(query := values["query"], answer(self, values | {"query": unmatched(query)}))

            monkeypatch.setattr(PrometheusApi, name, falsified)

    return install


@pytest.mark.parametrize(
    ("falsifier", "check", "words"), [pytest.param(*each, id=name) for name, each in FALSIFIED.items()]
)
def test_a_falsified_answer_is_named(
    twenty: Patient, falsify: Callable[[Falsifier], None], falsifier: Falsifier, check: str, words: str
) -> None:
    falsify(falsifier)
    report = twenty.examine()
    findings = wrong(report)
    assert check in findings, findings
    assert words in findings[check].message + findings[check].subject
    assert findings[check].fix, findings[check]


def test_there_are_52_of_them_and_a_true_answer_is_none(twenty: Patient) -> None:
    assert len(FALSIFIED) == 52
    assert not wrong(twenty.examine())


class HandClock(FakeClock):
    """Moves by hand alone, whoever waits."""

    def wait(self, event: threading.Event, timeout: float | None) -> bool:
        return event.wait(0.01)


FORETOLD = sorted(set(FALSIFIED) - {"truncated", "another type", "status error", "429"})


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Patient, HandClock]]:
    clock = HandClock(wall=1_700_000_010.0)
    with EmbeddedCluster(World(nodes=NODES, scene="calm", clock=clock)) as cluster:
        kubeconfig = cluster.kubeconfig(tmp_path_factory.mktemp("kube") / "config")
        yield Patient(cluster, cluster.environment(kubeconfig)), clock


@pytest.mark.parametrize("name", FORETOLD)
def test_the_daemon_is_ten_minutes_later_what_was_foretold(
    standing: tuple[Patient, HandClock], falsify: Callable[[Falsifier], None], name: str
) -> None:
    patient, clock = standing
    falsify(FALSIFIED[name][0])
    settings = load(patient.environment)
    api = connect(settings.cluster, Metrics())
    evidence = Evidence(settings, api, clock)
    foretold = outlook(evidence)
    primary, second = PrometheusSource(settings, Metrics()), MetricsServerSource(api.get, settings, Metrics())
    cycle = TelemetryCycle(primary, second, rules_of(settings), clock=clock, metrics=Metrics())
    try:
        for _ in range(21):
            snapshot = cycle.cycle(evidence.names)
            clock.advance(30.0)
    finally:
        primary.close()
        evidence.close()
        api.close()
    assert {state.value: count for state, count in snapshot.states.counts.items()} == foretold.states
    silent = snapshot.states.silent_share > settings.publishing.max_unknown
    assert silent == (foretold.frozen_in_seconds is not None)


@pytest.mark.parametrize("name", FALSIFIED)
def test_one_of_the_lines_mends_it(twenty: Patient, falsify: Callable[[Falsifier], None], name: str) -> None:
    falsifier, check, _ = FALSIFIED[name]
    falsify(falsifier)
    lines = [
        line for line in wrong(twenty.examine(check))[check].fix if line.startswith("BALLAST_") and "..." not in line
    ]
    if not lines:
        pytest.skip("what is to be done is no setting")
    settings = [shlex.split(line)[0].removeprefix("BALLAST_").partition("=") for line in lines]
    assert any(check not in wrong(twenty.examine(check, **{key: value})) for key, _, value in settings), lines


TELEMETRY = [check for check, run in CHECKS.items() if run.__module__ in (series.__name__, source_checks.__name__)]


@pytest.mark.slow
def test_nothing_is_wrong_in_a_healthy_week(standing: tuple[Patient, HandClock]) -> None:
    patient, clock = standing
    settings = load(patient.environment)
    for hour in range(7 * 24):
        clock.advance(3600.0 + hour % 30)
        api = connect(settings.cluster, Metrics())
        evidence = Evidence(settings, api, clock)
        report = examine(evidence, TELEMETRY)
        evidence.close()
        api.close()
        assert not wrong(report), (hour, wrong(report))
        assert report.outlook.frozen_in_seconds is None
