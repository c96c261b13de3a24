import math
from typing import Any

import numpy as np
import pytest

from ballast_lab.simulator import EmbeddedCluster
from lab_tests.simulator.client import Client
from tests.worlds.clock import FakeClock

CPU = (
    "max by (instance, cluster) ("
    'sum without (cpu, mode) (rate(node_cpu_seconds_total{mode!~"idle|iowait|steal"}[120s]))'
    ' / count without (cpu, mode) (node_cpu_seconds_total{mode="idle"}))'
)
FRESH = "max by (instance, cluster) (timestamp(node_memory_MemTotal_bytes))"


def vector(answer: Any) -> dict[str, float]:
    assert answer.code == 200
    assert answer.json["data"]["resultType"] == "vector"
    return {series["metric"]["instance"]: float(series["value"][1]) for series in answer.json["data"]["result"]}


def test_an_instant_query_answers_every_node_at_the_evaluation_time(client: Client, cluster: EmbeddedCluster) -> None:
    answer = client.prometheus(CPU, time=1_699_999_995)
    series = answer.json["data"]["result"]
    assert [found["value"][0] for found in series] == [1_699_999_995] * 6
    expected = cluster.world.ratio("cpu", [1_699_999_995])[:, 0].tolist()
    assert list(vector(answer).values()) == expected
    assert set(vector(answer)) == {f"{address}:9100" for address in cluster.world.addresses}


def test_a_range_query_gives_what_instant_queries_gave(client: Client, clock: FakeClock) -> None:
    start = clock.wall() - 60
    answer = client.get("/prometheus/api/v1/query_range", query=CPU, start=start, end=start + 60, step="15s").json
    assert answer["data"]["resultType"] == "matrix"
    for series in answer["data"]["result"]:
        assert [point[0] for point in series["values"]] == [start + 15 * n for n in range(5)]
    instant = vector(client.prometheus(CPU, time=start + 30))
    ranged = {series["metric"]["instance"]: float(series["values"][2][1]) for series in answer["data"]["result"]}
    assert ranged == instant


def test_forms_are_answered_like_urls(client: Client) -> None:
    form = f"query={CPU.replace('+', '%2B').replace('&', '%26')}&time=1700000000"
    posted = client.ask("POST", "/prometheus/api/v1/query", form, "application/x-www-form-urlencoded")
    assert vector(posted) == vector(client.prometheus(CPU, time=1_700_000_000))


def test_freshness_is_the_time_of_the_newest_scrape(client: Client, clock: FakeClock) -> None:
    times = vector(client.prometheus(FRESH)).values()
    assert all(0 <= clock.wall() - time < 15 for time in times)
    clock.advance(20)
    assert min(vector(client.prometheus(FRESH)).values()) > max(times) - 15


@pytest.mark.parametrize(
    "query",
    [
        "max by (instance, cluster) (1 - node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes)",
        "max by (instance, cluster) (rate(node_disk_io_time_seconds_total[120s]))",
        "max by (instance, cluster) (rate(node_network_receive_bytes_total[120s]) / node_network_speed_bytes)",
        "max by (instance, cluster) (instance:node_cpu:ratio)",
        "max by (instance, cluster) (instance:node_memory_utilisation:ratio)",
    ],
)
def test_every_resource_of_the_presets_is_a_ratio(client: Client, query: str) -> None:
    values = vector(client.prometheus(query)).values()
    assert len(values) == 6
    assert all(0 <= value <= 1 for value in values)


def test_output_labels_and_matchers_are_honoured(client: Client, cluster: EmbeddedCluster) -> None:
    by_node = client.prometheus('max by (node) (instance:node_cpu:ratio{node=~"node-00[12]"})').json["data"]["result"]
    assert [series["metric"] for series in by_node] == [{"node": "node-001"}, {"node": "node-002"}]
    assert vector(client.prometheus('max by (instance) (instance:node_cpu:ratio{cluster="other"})')) == {}
    plain = client.prometheus("node_memory_MemTotal_bytes").json["data"]["result"][0]["metric"]
    assert plain["job"] == "node-exporter"


def test_pods_are_answered_per_namespace_and_name(client: Client, cluster: EmbeddedCluster) -> None:
    query = 'sum by (namespace, pod, cluster) (container_memory_working_set_bytes{container!=""})'
    result = client.prometheus(query).json["data"]["result"]
    assert len(result) == len(cluster.world.members)
    assert set(result[0]["metric"]) == {"namespace", "pod"}


def test_what_is_not_recognised_is_an_empty_vector(client: Client) -> None:
    assert client.prometheus("sum(rate(unheard_of[5m]))").json == {
        "status": "success",
        "data": {"resultType": "vector", "result": []},
    }


def test_errors_have_prometheus_shape(client: Client) -> None:
    path = "/prometheus/api/v1/query_range"
    for answer, words in (
        (client.prometheus("max by (a) ("), "unclosed left parenthesis"),
        (client.prometheus(""), "no expression found in input"),
        (client.prometheus("up", time="noon"), "cannot parse"),
        (client.get(path, query="up", start=0, end=11_001, step=1), "exceeded maximum resolution of 11,000 points"),
        (client.get(path, query="up", start=9, end=1, step=1), "end timestamp must not be before start time"),
        (client.get(path, query="up", start=0, end=1, step=0), "zero or negative query resolution"),
    ):
        assert answer.code == 400
        assert answer.json["status"] == "error"
        assert answer.json["errorType"] == "bad_data"
        assert words in answer.json["error"]


def test_build_information_and_health(client: Client) -> None:
    assert client.get("/prometheus/api/v1/status/buildinfo").json["data"]["version"].startswith("3.")
    assert "Healthy" in client.get("/prometheus/-/healthy").text
    assert client.get("/prometheus/nothing").code == 404


def test_a_dark_node_stops_and_vanishes_after_five_minutes(
    client: Client, cluster: EmbeddedCluster, clock: FakeClock
) -> None:
    cluster.faults.node_dark("node-001", after=10)
    instance = f"{cluster.world.addresses[1]}:9100"
    end = clock.wall() + 10
    clock.advance(100)
    assert vector(client.prometheus(FRESH))[instance] <= end
    assert instance in vector(client.prometheus(CPU))
    assert client.get("/metrics/node/node-001").code == 503
    assert "node-001" not in client.get("/apis/metrics.k8s.io/v1beta1/nodes").text
    clock.advance(250)
    assert instance not in vector(client.prometheus(CPU))
    assert len(vector(client.prometheus(CPU))) == 5


def test_faults_of_prometheus_look_like_theirs(client: Client, cluster: EmbeddedCluster, clock: FakeClock) -> None:
    faults = cluster.faults
    faults.prometheus_401()
    assert client.prometheus(CPU).code == 401
    faults.clear()
    faults.prometheus_html(seconds=60)
    assert "<html>" in client.prometheus(CPU).text
    clock.advance(61)
    faults.prometheus_500()
    assert client.prometheus(CPU).code == 500
    faults.clear()
    faults.prometheus_empty()
    assert vector(client.prometheus(CPU)) == {}
    faults.clear()
    faults.prometheus_nan()
    assert all(math.isnan(value) for value in vector(client.prometheus(CPU)).values())
    faults.clear()
    faults.exporter_nan("node-002")
    assert [math.isnan(value) for value in vector(client.prometheus(CPU)).values()].count(True) == 1
    faults.clear()
    faults.prometheus_partial(share=0.5)
    partial = client.prometheus(CPU)
    assert len(vector(partial)) == 3
    assert "partial response" in partial.json["warnings"][0]
    faults.clear()
    faults.prometheus_clusters(["a", "b"])
    result = client.prometheus(CPU).json["data"]["result"]
    assert [series["metric"]["cluster"] for series in result] == ["a"] * 6 + ["b"] * 6
    narrowed = client.prometheus('max by (instance, cluster) (instance:node_cpu:ratio{cluster="a"})')
    assert len(narrowed.json["data"]["result"]) == 6
    faults.clear()
    faults.prometheus_duplicates()
    assert len(vector(client.prometheus(CPU))) == 12
    faults.clear()
    faults.prometheus_stale(age=200)
    assert max(vector(client.prometheus(FRESH)).values()) <= clock.wall() - 200


def test_prometheus_and_metrics_server_say_the_same_of_every_pod(client: Client, cluster: EmbeddedCluster) -> None:
    world = cluster.world
    use_of_workloads = world.use_of_pods
    world.use_of_pods = lambda resource, keys, times: (  # type: ignore[method-assign]
        use_of_workloads(resource, keys, times) * (1 + np.arange(len(keys)))[:, None]
    )
    query = 'sum by (namespace, pod) (rate(container_cpu_usage_seconds_total{container!=""}[120s]))'
    result = client.prometheus(query).json["data"]["result"]
    told = {(sample["metric"]["namespace"], sample["metric"]["pod"]): float(sample["value"][1]) for sample in result}
    own = {key: cpu for key, _, cpu, _ in world.pod_usage(cluster.world.clock.wall())}
    assert told.keys() == own.keys()
    assert all(told[key] == pytest.approx(own[key], abs=1e-4) for key in own)


def test_pods_are_joined_aged_and_told_apart(client: Client, cluster: EmbeddedCluster, clock: FakeClock) -> None:
    inner = 'max by (namespace, pod, container, instance, id) (timestamp(container_memory_working_set_bytes{pod!=""}))'
    query = f'label_join({inner}, "ballast_pod", "/", "namespace", "pod")'
    result = client.prometheus(query).json["data"]["result"]
    assert len(result) == len(cluster.world.members)
    metric = result[0]["metric"]
    assert metric["ballast_pod"] == f"{metric['namespace']}/{metric['pod']}"
    assert metric["instance"].endswith(":10250")
    assert all(0 <= clock.wall() - float(series["value"][1]) < 15 for series in result)


def test_labels_of_series_are_what_a_fault_says(client: Client, cluster: EmbeddedCluster) -> None:
    cluster.faults.prometheus_labels({"instance": "{node}:metrics", "region": "eu"})
    result = client.prometheus("node_memory_MemTotal_bytes").json["data"]["result"]
    assert result[1]["metric"] == {"instance": "node-001:metrics", "region": "eu"}
    cluster.faults.prometheus_clusters(["a", "b"], label="k8s_cluster_name")
    result = client.prometheus("node_memory_MemTotal_bytes").json["data"]["result"]
    assert [series["metric"]["k8s_cluster_name"] for series in result] == ["a"] * 6 + ["b"] * 6
    low, high = (vector(client.prometheus(f'{CPU[:-1]}) and up{{k8s_cluster_name="{name}"}}')) for name in "ab")
    assert all(high[name] == pytest.approx(min(low[name] + 0.3, 1.0)) for name in low)
    merged = vector(client.prometheus(CPU))
    assert merged == high, "what an aggregation hides"
