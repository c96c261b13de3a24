from __future__ import annotations

import json

from responses import RequestsMock

from ballast.errors import ClusterError
from ballast.telemetry.pods import PodUsage, ask_metrics_server, decode
from tests.unit.telemetry.fake_prometheus import FakePrometheus, QueryRefused, Series, settings, source

AT = 1_700_000_000.0


def pods(value: object, **labels: str) -> list[Series]:
    return [({"ballast_pod": f"shop/web-{index}", **labels}, value) for index in range(2)]


def test_usage_of_pods_costs_one_query_per_resource_and_one(wire: RequestsMock) -> None:
    def evaluate(query: str, time: float) -> list[Series]:
        return pods(time - 7 if "timestamp(" in query else 0.5 if "cpu" in query else 3e8)

    prometheus = FakePrometheus(evaluate)
    prometheus.serve(wire)
    usage = decode(source().ask_pods(AT))
    assert len(prometheus.queries) == 3
    assert usage.pods == ("shop/web-0", "shop/web-1")
    assert usage.samples["memory"].values.tolist() == [3e8] * 2
    assert usage.samples["cpu"].times.tolist() == [AT - 7] * 2
    assert not usage.problems


def test_warnings_are_counted_and_infos_are_none(wire: RequestsMock) -> None:
    FakePrometheus(lambda query, time: pods(time if "timestamp(" in query else 0.5), ("partial",), ("odd",)).serve(wire)
    assert decode(source().ask_pods(AT)).warnings == ("partial",)


def test_old_or_undated_usage_does_not_count(wire: RequestsMock) -> None:
    def evaluate(query: str, time: float) -> list[Series]:
        return pods(time - 500)[:1] if "timestamp(" in query else pods(0.5)

    FakePrometheus(evaluate).serve(wire)
    usage = decode(source().ask_pods(AT, ["cpu"]))
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
    usage = decode(source().ask_pods(AT))
    assert not usage.samples
    assert "too many samples" in usage.problems["cpu"]
    assert "east, west" in usage.problems["memory"]


def test_without_ages_nothing_counts(wire: RequestsMock) -> None:
    def evaluate(query: str, time: float) -> list[Series]:
        if "timestamp(" in query:
            raise QueryRefused(500, "storage")
        return pods(1.0)

    FakePrometheus(evaluate).serve(wire)
    assert set(decode(source().ask_pods(AT)).problems) == {"cpu", "memory"}


def test_some_pods_are_asked_by_their_names(wire: RequestsMock) -> None:
    prometheus = FakePrometheus(lambda query, time: pods(time if "timestamp(" in query else 0.5))
    prometheus.serve(wire)
    source().ask_pods(AT, ["cpu"], ["shop/web-1.a", "mail/web-0"])
    assert len(prometheus.queries) == 2
    assert all('namespace=~"mail|shop",pod=~"web-0|web-1[.]a"' in query for query in prometheus.queries)


def metrics_server(*items: dict[str, object]) -> PodUsage:
    body = json.dumps({"kind": "PodMetricsList", "items": items}).encode()
    return decode(ask_metrics_server(lambda path: body, AT, ("cpu", "memory"), settings()))


def item(name: str, *usage: dict[str, str], timestamp: str = "2023-11-14T22:13:15Z") -> dict[str, object]:
    metadata = {"name": name, "namespace": "shop"}
    return {"metadata": metadata, "timestamp": timestamp, "containers": [{"usage": each} for each in usage]}


def test_metrics_server_gives_sums_over_containers() -> None:
    usage = metrics_server(item("web", {"cpu": "250m", "memory": "1Ki"}, {"cpu": "1", "memory": "1Ki"}))
    assert usage.by_pod() == {"shop/web": {"cpu": 1.25, "memory": 2048.0}}


def test_what_metrics_server_does_not_know_is_not_zero() -> None:
    old = item("old", {"cpu": "1", "memory": "1"}, timestamp="2023-11-14T21:00:00Z")
    usage = metrics_server(item("part", {"cpu": "1", "memory": "1"}, {"memory": "1"}), item("none"), old)
    assert usage.by_pod() == {"shop/part": {"memory": 2.0}}
    assert usage.rejected == {"unreadable": 3, "stale": 2}


def test_an_answer_that_is_none_is_a_problem() -> None:
    usage = decode(ask_metrics_server(lambda path: b"<html>", AT, ("cpu",), settings()))
    assert "is not a list of pod metrics" in usage.problems["cpu"]


def test_without_metrics_server_there_is_a_problem() -> None:
    def get(path: str) -> bytes:
        raise ClusterError("no such API")

    assert decode(ask_metrics_server(get, AT, ("cpu",), settings())).problems == {"cpu": "metrics.k8s.io: no such API"}
