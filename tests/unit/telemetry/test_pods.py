from __future__ import annotations

from responses import RequestsMock

from ballast.metrics import Metrics
from tests.unit.telemetry.fake_prometheus import FakePrometheus, QueryRefused, Series, source

AT = 1_700_000_000.0


def pods(value: object, **labels: str) -> list[Series]:
    return [({"ballast_pod": f"shop/web-{index}", **labels}, value) for index in range(2)]


def test_usage_of_pods_costs_one_query_per_resource_and_one(wire: RequestsMock) -> None:
    def evaluate(query: str, time: float) -> list[Series]:
        return pods(time - 7 if "timestamp(" in query else 0.5 if "cpu" in query else 3e8)

    prometheus = FakePrometheus(evaluate)
    prometheus.serve(wire)
    usage = source().read_pods(AT)
    assert len(prometheus.queries) == 3
    assert usage.pods == ("shop/web-0", "shop/web-1")
    assert usage.samples["memory"].values.tolist() == [3e8] * 2
    assert usage.samples["cpu"].times.tolist() == [AT - 7] * 2
    assert not usage.problems


def test_warnings_are_counted_and_infos_are_none(wire: RequestsMock) -> None:
    FakePrometheus(lambda query, time: pods(time if "timestamp(" in query else 0.5), ("partial",), ("odd",)).serve(wire)
    metrics = Metrics()
    assert source(metrics=metrics).read_pods(AT).warnings == ("partial",)
    assert metrics.registry.get_sample_value("ballast_query_warnings_total", {"source": "prometheus"}) == 3


def test_old_or_undated_usage_does_not_count(wire: RequestsMock) -> None:
    def evaluate(query: str, time: float) -> list[Series]:
        return pods(time - 500)[:1] if "timestamp(" in query else pods(0.5)

    FakePrometheus(evaluate).serve(wire)
    usage = source().read_pods(AT, ["cpu"])
    assert usage.samples["cpu"].rows.tolist() == []
    assert usage.rejected == {"stale": 2}


def test_failures_and_mixed_clusters_cost_their_resource(wire: RequestsMock) -> None:
    def evaluate(query: str, time: float) -> list[Series]:
        if "cpu" in query:
            raise QueryRefused(422, "too many samples")
        if "timestamp(" in query:
            return pods(time)
        return [*pods(1.0, cluster="east"), *pods(2.0, cluster="west")]

    FakePrometheus(evaluate).serve(wire)
    usage = source().read_pods(AT)
    assert not usage.samples
    assert "too many samples" in usage.problems["cpu"]
    assert "east, west" in usage.problems["memory"]


def test_without_ages_nothing_counts(wire: RequestsMock) -> None:
    def evaluate(query: str, time: float) -> list[Series]:
        if "timestamp(" in query:
            raise QueryRefused(500, "storage")
        return pods(1.0)

    FakePrometheus(evaluate).serve(wire)
    assert set(source().read_pods(AT).problems) == {"cpu", "memory"}
