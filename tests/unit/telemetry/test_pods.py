import json
import math
from collections.abc import Mapping

import pytest
from responses import RequestsMock

from ballast.base.errors import ClusterError
from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.telemetry import presets
from ballast.telemetry.pod_usage import Homes, PodAnswers, PodUsage, ask_metrics_server
from ballast.telemetry.pod_usage import decode as decode_at
from tests.unit.telemetry.fake_prometheus import FakePrometheus, QueryRefused, Series, settings, source

AT = 1_700_000_000.0


NODES = [Node(name=name, addresses=(("InternalIP", f"10.0.0.{row}"),)) for row, name in enumerate(("a", "b", "c"))]


def decode(said: PodAnswers, node_of: Mapping[str, str] | None = None) -> PodUsage:
    """Where no other node is said, pods run on node a."""
    names = {f"shop/web-{number}" for number in range(9)} | {"shop/db-0", "shop/stray", "a/one", "a/two", "a/gone"}
    homes = dict.fromkeys(names, "a") | dict(node_of or {})
    pods = [Pod(name=name.partition("/")[2], namespace=name.partition("/")[0], node=at) for name, at in homes.items()]
    return decode_at(said, Homes(NODES, pods))


def pods(value: object, **labels: str) -> list[Series]:
    return [({"ballast_pod": f"shop/web-{index}", "instance": "a:10250", **labels}, value) for index in range(2)]


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
            return {"ballast_pod": pod, "container": "app", "instance": "a", "id": identity}, value

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
        here = {"instance": "a", "cluster": "east"}
        ours = [({"ballast_pod": f"shop/web-{number}", **here}, value) for number in range(9)]
        return [*ours, ({"ballast_pod": "shop/stray", "instance": "a", "cluster": "west"}, value)]

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


def used(wire: RequestsMock, *series: tuple[float, float, str, str, str], on: str = "a") -> dict[str, dict[str, float]]:
    """(value, age, instance, id, container) of one pod, which runs on this node."""

    def evaluate(query: str, time: float) -> list[Series]:
        fresh = "timestamp(" in query
        return [container(time - age if fresh else value, *where) for value, age, *where in series]

    FakePrometheus(evaluate).serve(wire)
    return decode(source().ask_pods(AT, ["memory"]), {"shop/db-0": on}).by_pod()


def test_a_pod_that_moved_leaves_what_it_used_there(wire: RequestsMock) -> None:
    moved = used(wire, (900.0, 60, "a:10250", "/old", "web"), (100.0, 5, "b:10250", "/new", "web"), on="b")
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
    twice = used(wire, (80.0, 5, "10.0.0.0:10250", "/web", "web"), (81.0, 5, "a", "/web", "web"))
    assert twice == {"shop/db-0": {"memory": 81.0}}


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
    labels = "namespace, pod, container, id, cluster, job, instance, node"
    assert text.startswith(f"sum by ({labels}) (max by ({labels}, cpu) (rate(container_cpu_usage_seconds_total{{")


def told(*rows: tuple[str, float, float, dict[str, str]]) -> PodUsage:
    """(pod, cores, age, labels) of series; the pods run on node a, whose kubelet is job kubelet at 10.0.0.0:10250."""

    def answer(column: int) -> bytes:
        genuine = {"job": "kubelet", "instance": "10.0.0.0:10250", "container": "app", "id": "/app"}
        result = [
            {"metric": {"ballast_pod": row[0], **genuine, **row[3]}, "value": [AT, str((row[1], AT - row[2])[column])]}
            for row in rows
        ]
        return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()

    bodies = {"cpu": answer(0), "newest": answer(1)}
    return decode(PodAnswers(AT, bodies, {}, ("cpu",), 120.0, 15.0, places=("instance", "node")))


HONEST: list[tuple[str, float, float, dict[str, str]]] = [("shop/web-0", 3.0, 20.0, {}), ("shop/web-1", 0.1, 20.0, {})]


@pytest.mark.parametrize("cores", [0.001, 2.5, 40.0, math.nan, math.inf, -1.0])
@pytest.mark.parametrize("age", [0.0, 10.0, 20.0, -300.0, 500.0])
@pytest.mark.parametrize(
    "labels",
    [
        {"instance": "10.0.0.1:8080", "job": "tenant"},
        {"instance": "10.0.0.1:8080", "node": "a", "job": "kubelet"},
        {"instance": "elsewhere:80", "job": "kubelet"},
        {"instance": "", "job": "kubelet"},
        {"instance": "10.0.0.0:10250", "node": "b", "job": "kubelet"},
    ],
)
def test_who_tells_of_a_pod_that_runs_elsewhere_changes_nothing(
    cores: float, age: float, labels: dict[str, str]
) -> None:
    honest = told(*HONEST).by_pod()
    assert honest == {"shop/web-0": {"cpu": 3.0}, "shop/web-1": {"cpu": 0.1}}
    assert told(*HONEST, *((pod, cores, age, labels) for pod, *_ in HONEST)).by_pod() == honest


@pytest.mark.parametrize("age", [0.0, 10.0, 20.0])
def test_a_pod_of_which_two_jobs_of_its_node_say_different_things_is_not_measured(age: float) -> None:
    usage = told(*HONEST, ("shop/web-1", 2.5, age, {"job": "tenant"}))
    assert usage.by_pod() == {"shop/web-0": {"cpu": 3.0}}
    assert usage.rejected == {"duplicate": 1}


@pytest.mark.parametrize("age", [-300.0, 500.0])
def test_a_job_that_is_late_or_ahead_of_time_contradicts_nobody(age: float) -> None:
    forged = (("shop/web-1", 2.5, age, {"job": "tenant"}),)
    assert told(*HONEST, *forged).by_pod() == told(*HONEST).by_pod()


@pytest.mark.parametrize("cores", [math.nan, math.inf, -1.0])
def test_a_number_that_is_none_contradicts_nobody(cores: float) -> None:
    assert told(*HONEST, ("shop/web-1", cores, 5.0, {"job": "tenant"})).by_pod() == told(*HONEST).by_pod()


def test_two_jobs_that_agree_about_a_pod_count_as_one() -> None:
    again = [(pod, 1.1 * cores, 5.0, {"job": "cadvisor", "id": ""}) for pod, cores, *_ in HONEST]
    found = told(*HONEST, *again).by_pod()
    assert found == {"shop/web-0": {"cpu": pytest.approx(3.3)}, "shop/web-1": {"cpu": pytest.approx(0.11)}}


def test_series_that_name_no_node_are_said_with_the_setting_that_names_the_label() -> None:
    usage = told(*((pod, cores, age, {"instance": "agent"}) for pod, cores, age, _ in HONEST))
    assert not usage.by_pod()
    assert "instance='agent' of shop/web-0" in usage.problems["cpu"]
    assert "BALLAST_TELEMETRY__NODE_LABEL" in usage.problems["cpu"]
