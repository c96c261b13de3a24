import re
import threading
from typing import Any

import pytest

from ballast_lab.demo import hotspot
from ballast_lab.demo.running import Options, run
from ballast_lab.harness.waiting import until
from ballast_lab.simulator.extender_client import Extender
from ballast_lab.simulator.kube.kinds import POD

WELL_FALLEN, FALLEN = 0.75, 0.85
"""Spread of cpu, as a share of the first: at which the test has seen enough, and what it asserts a moment later."""


def test_the_spread_falls_and_the_summary_ends_with_it() -> None:
    stop, sentences = threading.Event(), []

    def say(sentence: str) -> None:
        sentences.append(sentence)
        spread = re.match(r"spread: cpu ([\d.]+) -> ([\d.]+) \([+-]\d+ %\), memory ", sentence)
        if spread and float(spread[2]) < WELL_FALLEN * float(spread[1]):
            stop.set()

    summary = run(Options(nodes=20, speed=10.0, headless=True, scene="hotspot"), stop, say)
    assert summary["spread"]["after"]["cpu"] < FALLEN * summary["spread"]["before"]["cpu"], sentences
    assert set(summary["spread"]["before"]) == set(summary["spread"]["after"]) == {"cpu", "memory"}
    assert summary["writes"]["eviction"] > 0


def test_the_words_of_a_spread() -> None:
    spread = {
        "before": {"cpu": 0.183, "memory": 0.0, "disk": 0.1},
        "after": {"cpu": 0.071, "memory": 0.0, "disk": 0.11},
    }
    assert hotspot.words(spread) == (
        "spread: cpu 0.183 -> 0.071 (-61 %), memory 0.000 -> 0.000, disk 0.100 -> 0.110 (+10 %)"
    )
    assert hotspot.words({"before": {}, "after": {}}) == "spread: unknown"
    assert hotspot.words({"before": {"cpu": 0.2}, "after": {}}) == "spread: cpu 0.200 -> unknown", "Prometheus is gone"


def test_the_scheduler_follows_the_extender(httpserver: Any) -> None:
    from ballast_lab.simulator import EmbeddedCluster, World

    with EmbeddedCluster(World(5, 1, scene="calm")) as cluster:
        names = cluster.world.node_names
        answer = [{"Host": name, "Score": 10 if name == names[3] else 0} for name in names]
        httpserver.expect_request("/scheduler/prioritize", method="POST").respond_with_json(answer)
        cluster.ask_extender(httpserver.url_for("/scheduler"))
        cluster.deploy("shop", "storefront", 2)

        def placed() -> list[str]:
            pods = [pod for pod in cluster.store.all(POD, "shop") if pod.labels.get("app") == "storefront"]
            return [pod.fields["spec.nodeName"] for pod in pods]

        until(lambda: placed() == [names[3]] * 2, "both pods are where the extender says")
    asked = httpserver.log[0][0].get_json()
    assert set(asked) == {"Pod", "NodeNames"}


@pytest.mark.parametrize("answer", ["no JSON", "{}", '[{"Host": "n"}]', "[1]"])
def test_an_extender_without_a_usable_answer_is_ignored(httpserver: Any, answer: str) -> None:
    httpserver.expect_request("/scheduler/prioritize").respond_with_data(answer)
    found = Extender(httpserver.url_for("/scheduler")).scores({}, ["n"])
    assert found is None
    assert Extender("http://127.0.0.1:1").scores({}, ["n"]) is None


def test_nodes_that_the_extender_filters_are_no_candidates(httpserver: Any) -> None:
    httpserver.expect_request("/scheduler/filter").respond_with_json({"NodeNames": ["b"], "FailedNodes": {"a": "full"}})
    httpserver.expect_request("/scheduler/prioritize").respond_with_json([{"Host": "b", "Score": 3}])
    assert Extender(httpserver.url_for("/scheduler")).scores({}, ["a", "b"]) == {"b": 3}
    assert httpserver.log[1][0].get_json()["NodeNames"] == ["b"]


def test_no_node_passes_the_filter_of_the_extender(httpserver: Any) -> None:
    httpserver.expect_request("/scheduler/filter").respond_with_json({"NodeNames": [], "FailedNodes": {"a": "full"}})
    assert Extender(httpserver.url_for("/scheduler")).scores({}, ["a"]) == {}
