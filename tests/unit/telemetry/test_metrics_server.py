import json
from datetime import UTC, datetime
from typing import Any

import pytest

from ballast.base.errors import ClusterError, Forbidden, NotFound
from ballast.base.metrics import Metrics
from ballast.model.node import Node
from ballast.telemetry.metrics_server import PATH, MetricsServerSource
from ballast.telemetry.node_names import NodeNames
from tests.unit.telemetry.fake_prometheus import settings

AT = 1_700_000_000.0
NODES = NodeNames(
    [
        Node(name="a", capacity={"cpu": 4.0, "memory": 8 * 2**30}),
        Node(name="b", capacity={"cpu": 2.0, "memory": 4 * 2**30}),
        Node(name="c"),
    ]
)


def item(name: str, cpu: str = "1", memory: str = "2Gi", time: float = AT - 10) -> dict[str, Any]:
    stamp = datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"metadata": {"name": name}, "timestamp": stamp, "window": "20s", "usage": {"cpu": cpu, "memory": memory}}


class Api:
    def __init__(self, *items: dict[str, Any]) -> None:
        self.items: list[dict[str, Any]] = list(items)
        self.paths: list[str] = []

    def __call__(self, path: str) -> bytes:
        self.paths.append(path)
        return json.dumps({"kind": "NodeMetricsList", "items": self.items}).encode()


def source(get: Any, resources: str = "cpu,memory,disk") -> MetricsServerSource:
    return MetricsServerSource(get, settings({"resources": resources, "source": "metrics-server"}), Metrics())


def test_usage_is_a_share_of_capacity_with_its_own_time() -> None:
    api = Api(item("a"), item("b", cpu="500000000n", memory="1Gi", time=AT - 20))
    watcher = source(api)
    assert watcher.name == "metrics-server"
    assert watcher.resources == ("cpu", "memory")
    reading = watcher.read(AT, NODES)
    assert api.paths == [PATH]
    assert reading.queries == 1
    assert reading.samples["cpu"].values.tolist() == [0.25, 0.25]
    assert reading.samples["memory"].values.tolist() == [0.25, 0.25]
    assert reading.samples["cpu"].times.tolist() == [AT - 10, AT - 20]


def test_the_same_sample_is_not_given_twice() -> None:
    api = Api(item("a"), item("b"))
    watcher = source(api)
    watcher.read(AT, NODES)
    api.items = [item("a"), item("b", time=AT + 5)]
    reading = watcher.read(AT + 30, NODES)
    assert reading.samples["cpu"].rows.tolist() == [1]
    assert not reading.rejected
    assert not reading.problems


def test_a_resource_asked_later_is_still_new() -> None:
    watcher = source(Api(item("a")))
    watcher.read(AT, NODES, ["cpu"])
    assert watcher.read(AT, NODES, ["memory"]).samples["memory"].rows.tolist() == [0]


def test_what_cannot_count_is_counted_by_reason() -> None:
    broken = item("a", cpu="lots")
    reading = source(Api(broken, item("b", time=AT - 900), item("stranger")), "cpu").read(AT, NODES)
    assert reading.samples["cpu"].rows.tolist() == []
    assert reading.rejected == {"unreadable": 1, "stale": 1, "unmatched": 1}
    assert reading.strangers == ("'stranger' is not a node",)


@pytest.mark.parametrize(
    "spoiled",
    [
        *({"usage": {"cpu": cpu, "memory": "2Gi"}} for cpu in ("NaN", "1e9", "1e400", "-1", "50", "", "lots", None, 7)),
        *({"usage": usage} for usage in ({}, None, "much", [1])),
        *({"timestamp": stamp} for stamp in ("", "now", None, 17, "1970-01-01T00:00:00Z", "2999-01-01T00:00:00Z")),
        {"metadata": {"name": "nobody"}},
    ],
    ids=str,
)
def test_what_it_says_of_one_node_stays_with_that_node(spoiled: dict[str, Any]) -> None:
    for items in ([item("a") | spoiled, item("b")], [item("a"), item("b"), item("a", cpu="2") | spoiled]):
        reading = source(Api(*items)).read(AT, NODES)
        assert not reading.problems
        for resource, value in (("cpu", 0.5), ("memory", 0.5)):
            samples = reading.samples[resource]
            assert samples.values[samples.rows == 1].tolist() == [value]


def test_a_node_without_capacity_has_no_sample() -> None:
    reading = source(Api(item("c"))).read(AT, NODES)
    assert reading.samples["cpu"].rows.tolist() == []
    assert not reading.rejected


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (NotFound("no"), "metrics-server is not installed"),
        (ClusterError("no", status=503), "APIService"),
        (Forbidden("nodes.metrics.k8s.io is forbidden", status=403), "nodes.metrics.k8s.io"),
        (ClusterError("timed out"), "timed out"),
    ],
)
def test_a_missing_api_is_a_problem_of_each_resource(error: ClusterError, words: str) -> None:
    def get(path: str) -> bytes:
        raise error

    reading = source(get).read(AT, NODES)
    assert not reading.samples
    assert set(reading.problems) == {"cpu", "memory"}
    assert words in reading.problems["cpu"]


def test_nonsense_and_emptiness_are_problems() -> None:
    assert "is not a list of node metrics" in source(lambda _path: b"<html>").read(AT, NODES).problems["cpu"]
    assert "lists no node" in source(Api()).read(AT, NODES).problems["cpu"]


def test_other_resources_are_not_asked_of_it() -> None:
    api = Api(item("a"))
    assert not source(api).read(AT, NODES, ["disk"]).samples
    assert not api.paths


def test_there_is_no_past() -> None:
    watcher = source(Api(item("a")))
    assert list(watcher.backfill(AT - 900, AT, 30, NODES)) == []
    watcher.close()
