from collections.abc import Iterator

import promql_parser
import pytest
from responses import RequestsMock

from ballast.doctor import evidence
from tests.unit.telemetry.fake_prometheus import FakePrometheus, QueryRefused, Series, settings, source

AT = 1_700_000_000.0


@pytest.fixture
def wire() -> Iterator[RequestsMock]:
    with RequestsMock(assert_all_requests_are_fired=False) as mock:
        yield mock


def found() -> evidence.PodCounts:
    return evidence.count_pods(*source().ask_about_pods(evidence.count_queries(settings()), AT))


def counts(cpu: list[Series], memory: list[Series]) -> FakePrometheus:
    return FakePrometheus(lambda query, time: cpu if "cpu" in query else memory)


def test_the_questions_are_promql_with_the_matchers_and_the_limits_of_age() -> None:
    texts = evidence.count_queries(settings({"interval": "60s"}, {"matchers": ['cluster="east"']}))
    for text in texts.values():
        promql_parser.parse(text)
        assert text.startswith("count by (cluster) (max by (namespace, pod, cluster) (")
        assert 'cluster="east"' in text
    assert texts["memory"].endswith(">= time() - 180 <= time() + 60)")


def test_a_pod_is_measured_by_cpu_and_memory(wire: RequestsMock) -> None:
    prometheus = counts([({}, 2_900)], [({}, 3_000)])
    prometheus.serve(wire)
    counted = found()
    assert (counted.measured, dict(counted.problems)) == (2_900, {})
    assert len(prometheus.queries) == 2


@pytest.mark.parametrize("lacking", ["cpu", "memory"])
def test_nothing_counts_where_one_of_both_is_not_there(wire: RequestsMock, lacking: str) -> None:
    FakePrometheus(lambda query, time: [] if (lacking == "cpu") == ("cpu" in query) else [({}, 5)]).serve(wire)
    assert found().measured == 0


def test_what_fails_and_what_is_mixed_is_said(wire: RequestsMock) -> None:
    def evaluate(query: str, time: float) -> list[Series]:
        if "cpu" in query:
            raise QueryRefused(422, "too many samples")
        return [({"cluster": "east"}, 5), ({"cluster": "west"}, 7)]

    FakePrometheus(evaluate).serve(wire)
    counted = found()
    assert counted.measured == 0
    assert "too many samples" in counted.problems["cpu"]
    assert "east, west" in counted.problems["memory"]
