import json

from responses import RequestsMock

from ballast.base.errors import ClusterError
from ballast.telemetry import presets
from ballast.telemetry.pod_usage import PodUsage, ask_metrics_server, decode
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


def test_the_mean_over_the_last_hour_is_asked_for_beside_it(wire: RequestsMock) -> None:
    def evaluate(query: str, time: float) -> list[Series]:
        if "avg_over_time" in query:
            return pods(0.25 if "cpu" in query else 2e8)
        return pods(time - 7 if "timestamp(" in query else 0.5 if "cpu" in query else 3e8)

    prometheus = FakePrometheus(evaluate)
    prometheus.serve(wire)
    usage = decode(source().ask_pods(AT, hour=True))
    assert len(prometheus.queries) == 5
    assert usage.by_pod() == {f"shop/web-{row}": {"cpu": 0.5, "memory": 3e8} for row in range(2)}
    assert usage.over_the_hour() == {f"shop/web-{row}": {"cpu": 0.25, "memory": 2e8} for row in range(2)}
    assert (usage.measured, usage.problems) == (2, {})


def test_the_hour_is_that_of_the_containers_that_run_and_of_all_of_them(wire: RequestsMock) -> None:
    def evaluate(query: str, time: float) -> list[Series]:
        def of(pod: str, identity: str, value: object) -> Series:
            return {"ballast_pod": pod, "container": "app", "instance": "n1", "id": identity}, value

        running = [("a/one", "new"), ("a/two", "1"), ("a/two", "2")]
        if "avg_over_time" in query:
            return [of("a/one", "old", 9.0), of("a/one", "new", 0.3), of("a/two", "1", 0.1), of("a/gone", "1", 1.0)]
        return [of(pod, identity, time if "timestamp(" in query else 0.5) for pod, identity in running]

    FakePrometheus(evaluate).serve(wire)
    usage = decode(source().ask_pods(AT, ["cpu"], hour=True))
    assert usage.over_the_hour() == {"a/one": {"cpu": 0.3}}


def test_where_the_hour_cannot_be_read_what_is_now_counts_and_it_is_said(wire: RequestsMock) -> None:
    def evaluate(query: str, time: float) -> list[Series]:
        if "avg_over_time" in query:
            raise QueryRefused(422, "too many samples")
        return pods(time if "timestamp(" in query else 0.5)

    FakePrometheus(evaluate).serve(wire)
    usage = decode(source().ask_pods(AT, ["cpu"], hour=True))
    assert usage.by_pod()["shop/web-0"] == {"cpu": 0.5}
    assert usage.over_the_hour() == {}
    assert "too many samples" in usage.problems["hour of cpu"]


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


def test_a_few_series_of_another_cluster_do_not_count_and_cost_nobody_else(wire: RequestsMock) -> None:
    def evaluate(query: str, time: float) -> list[Series]:
        value = time if "timestamp(" in query else 1.0
        ours = [({"ballast_pod": f"shop/web-{number}", "cluster": "east"}, value) for number in range(9)]
        return [*ours, ({"ballast_pod": "shop/stray", "cluster": "west"}, value)]

    FakePrometheus(evaluate).serve(wire)
    usage = decode(source().ask_pods(AT, ["cpu"]))
    assert not usage.problems
    assert set(usage.by_pod()) == {f"shop/web-{number}" for number in range(9)}


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


def test_what_is_wrong_with_one_pod_is_not_wrong_with_the_answer() -> None:
    good = item("web", {"cpu": "1", "memory": "1"})
    spoiled = [
        item("a") | {"containers": None},
        item("b") | {"containers": [{"usage": None}]},
        item("c", {"cpu": "lots", "memory": "-"}),
        item("d", {"cpu": "1", "memory": "1"}) | {"timestamp": None},
        item("e", {"cpu": "1", "memory": "1"}) | {"timestamp": 7},
    ]
    assert metrics_server(*spoiled, good).by_pod() == {"shop/web": {"cpu": 1.0, "memory": 1.0}}


def test_an_answer_that_is_none_is_a_problem() -> None:
    usage = decode(ask_metrics_server(lambda path: b"<html>", AT, ("cpu",), settings()))
    assert "is not a list of pod metrics" in usage.problems["cpu"]


def test_without_metrics_server_there_is_a_problem() -> None:
    def get(path: str) -> bytes:
        raise ClusterError("no such API")

    assert decode(ask_metrics_server(get, AT, ("cpu",), settings())).problems == {"cpu": "metrics.k8s.io: no such API"}


def container(value: object, instance: str, identity: str, name: str = "web", pod: str = "shop/db-0") -> Series:
    labels = {"ballast_pod": pod, "container": name, "instance": instance, "id": identity}
    return labels, value


def used(wire: RequestsMock, *series: tuple[float, float, str, str, str]) -> dict[str, dict[str, float]]:
    """(value, age, instance, id, container) of one pod."""

    def evaluate(query: str, time: float) -> list[Series]:
        fresh = "timestamp(" in query
        return [container(time - age if fresh else value, *where) for value, age, *where in series]

    FakePrometheus(evaluate).serve(wire)
    return decode(source().ask_pods(AT, ["memory"])).by_pod()


def test_a_pod_that_moved_leaves_what_it_used_there(wire: RequestsMock) -> None:
    moved = used(wire, (900.0, 60, "a:10250", "/old", "web"), (100.0, 5, "b:10250", "/new", "web"))
    assert moved == {"shop/db-0": {"memory": 100.0}}


def test_a_container_that_came_back_counts_once_and_others_beside_it(wire: RequestsMock) -> None:
    again = used(
        wire,
        (700.0, 40, "a:10250", "/old", "web"),
        (100.0, 5, "a:10250", "/new", "web"),
        (50.0, 9, "a:10250", "/side", "proxy"),
    )
    assert again == {"shop/db-0": {"memory": 150.0}}


def test_a_container_that_ended_long_ago_does_not_count(wire: RequestsMock) -> None:
    assert used(wire, (70.0, 200, "a", "/init", "init"), (30.0, 5, "a", "/web", "web")) == {
        "shop/db-0": {"memory": 30.0}
    }


def test_a_kubelet_that_is_scraped_twice_counts_once(wire: RequestsMock) -> None:
    twice = used(wire, (80.0, 5, "10.0.0.1:10250", "/web", "web"), (80.0, 5, "node-1", "/web", "web"))
    assert twice == {"shop/db-0": {"memory": 80.0}}


def test_only_accepted_samples_are_measured(wire: RequestsMock) -> None:
    def evaluate(query: str, time: float) -> list[Series]:
        fresh = "timestamp(" in query
        return [container(time - 5 - 300 * (n > 0) if fresh else 1.0, "a", "/x", pod=f"shop/web-{n}") for n in range(3)]

    FakePrometheus(evaluate).serve(wire)
    usage = decode(source().ask_pods(AT))
    assert usage.measured == 1
    assert usage.rejected == {"stale": 4}


def test_series_per_cpu_are_summed_and_containers_are_told_apart_by_instance_and_id() -> None:
    text = presets.pod_queries(settings())["cpu"]
    labels = "namespace, pod, container, instance, id, cluster"
    assert text.startswith(f"sum by ({labels}) (max by ({labels}, cpu) (rate(container_cpu_usage_seconds_total{{")
