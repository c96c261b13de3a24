import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from ballast.cli import files
from ballast.cli.metrics_file import fleet, metrics
from tests.unit.scoring.test_dynamic import POLICY, stamp
from tests.unit.scoring.worlds import NOW, load, node, pod

Run = Callable[..., int]
AMOUNTS = {"cpu": "1", "memory": "1Gi"}
CLUSTER = {"kind": "List", "items": [node("a", AMOUNTS), node("b", AMOUNTS)]}
METRICS = load(a={"cpu": 40, "cpu_std": 16, "memory": 50, "memory_std": 10})
POD = pod({"requests": {"cpu": "100m", "memory": "512Mi"}})


@pytest.fixture
def ballast(status: Run) -> Run:
    return partial(status, "score")


@pytest.fixture
def given(tmp_path: Path) -> list[object]:
    found: list[object] = []
    for name, document in (("cluster", CLUSTER), ("metrics", METRICS), ("pod", POD)):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(document))
        found += [f"--{name}", path]
    return found


def test_the_answer_has_scores_raw_values_terms_and_who_is_unknown(
    ballast: Run, given: list[object], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ballast(*given, "--strategy", "load-variation", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "strategy": "load-variation",
        "scores": {"a": 45, "b": 0},
        "raw": {"a": pytest.approx(45), "b": None},
        "terms": {"a": {"cpu": 67.0, "memory": pytest.approx(45)}, "b": {"cpu": None, "memory": None}},
        "unknown": ["b"],
    }


def test_a_table_is_the_default_best_first(
    ballast: Run, given: list[object], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ballast(*given, "--strategy", "load-variation") == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["NODE", "SCORE", "RAW", "CPU", "MEMORY"],
        ["a", "45", "45", "67", "45"],
        ["b", "0", "unknown", "-", "-", "-"],
    ]


def test_keys_are_json_or_bare_words(
    ballast: Run, given: list[object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = ["--set", 'resources={"cpu": 2}', "--set", "in_flight=full"]
    assert ballast(*given, "--strategy", "least-allocated", *keys, "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["scores"] == {"a": 90, "b": 90}


def test_a_policy_is_an_object_or_the_name_of_a_file(
    ballast: Run, given: list[object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    annotated = node("a", AMOUNTS, annotations={"mem_usage_avg_5m": f"0.5,{stamp(10)}"})
    (tmp_path / "cluster.json").write_text(json.dumps({"items": [annotated]}))
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(POLICY))
    for value in (tmp_path / "policy.yaml", json.dumps(POLICY)):
        assert ballast(*given, "--strategy", "dynamic", "--set", f"policy={value}", "-o", "json") == 0
        assert json.loads(capsys.readouterr().out)["scores"] == {"a": 15}


def test_a_batch_answers_every_line_with_a_result_or_an_error(
    ballast: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = {"cluster": CLUSTER, "metrics": METRICS, "pod": POD, "strategy": "load-variation", "set": {}}
    lines = [
        json.dumps(case),
        json.dumps(case | {"strategy": "magic"}),
        "{",
        json.dumps(case | {"cluster": {"items": []}}),
        json.dumps(case | {"pods": []}),
        json.dumps({name: case[name] for name in ("cluster", "pod")} | {"strategy": "balanced"}),
        "[]",
        json.dumps(case | {"set": [1]}),
        json.dumps(case | {"pod": None}),
        '{"cluster": ' + "[" * 100_000 + "]" * 100_000 + "}",
    ]
    path = tmp_path / "cases.jsonl"
    path.write_text("\n".join(lines) + "\n\n")
    assert ballast("--batch", path) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [list(answer) == ["error"] for answer in answers] == [
        *(False, True, True, True, True),
        *(False, True, True, True, True),
    ]
    assert answers[0]["scores"] == {"a": 45, "b": 0}
    assert "There is no strategy 'magic'" in answers[1]["error"]
    assert "there are no nodes" in answers[3]["error"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--strategy", "magic"], 2, "There is no strategy 'magic'"),
        (["--set", "safe_variance_margin=lots"], 2, "safe_variance_margin cannot be"),
        (["--set", "margin"], 2, "give KEY=VALUE"),
        (["--cluster", "/nowhere/c.json"], 2, "/nowhere/c.json: No such file"),
        (["--batch", "/nowhere/b.jsonl"], 2, "--batch cannot be combined"),
        (["--strategy", "dynamic", "--set", "policy=/nowhere/p.yaml"], 2, "policy /nowhere/p.yaml"),
    ],
)
def test_wrong_use_ends_with_2_and_says_what_is_right(
    ballast: Run, given: list[object], capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    assert ballast(*given, *arguments) == code
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


def test_a_cluster_and_a_pod_are_needed(ballast: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert ballast("--strategy", "balanced") == 2
    assert "Give --cluster and --pod" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([], "there are no nodes"),
        ([node("a", AMOUNTS), node("a", AMOUNTS)], "the node a is listed twice"),
        ([node("a", AMOUNTS), POD, POD], "the pod default/arriving is listed twice"),
        ([node("a", {"cpu": "lots"})], "Node a: cpu: 'lots' is not a Kubernetes quantity"),
        ([node("a", AMOUNTS), pod({"cpu": "1", "memory": "x"})], "Pod arriving: memory: 'x' is not"),
        ([node("a", AMOUNTS), pod({"cpu": "-1"})], "Pod arriving: cpu: '-1' is below 0"),
        ([{"kind": "Node"}], "metadata"),
        (["text"], "an item is not an object"),
    ],
)
def test_a_cluster_file_that_cannot_be_used_ends_with_1(
    ballast: Run, given: list[object], capsys: pytest.CaptureFixture[str], items: list[Any], message: str
) -> None:
    Path(str(given[1])).write_text(json.dumps({"items": items}))
    assert ballast(*given) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("text", ["{", "[1]", "3", '{"data": {"NodeMetricsMap": []}}', '{"timestamp": "now"}'])
def test_a_metrics_file_that_cannot_be_used_ends_with_1(
    ballast: Run, given: list[object], capsys: pytest.CaptureFixture[str], text: str
) -> None:
    Path(str(given[3])).write_text(text)
    assert ballast(*given) == 1
    assert "--metrics" in capsys.readouterr().err


def test_a_pod_may_be_yaml(ballast: Run, given: list[object], capsys: pytest.CaptureFixture[str]) -> None:
    Path(str(given[5])).write_text(yaml.safe_dump(POD))
    assert ballast(*given, "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["scores"]["a"] == 45
    Path(str(given[5])).write_text("a: [")
    assert ballast(*given) == 1


def test_a_limit_fills_a_missing_request_as_the_api_server_does() -> None:
    shape = files.pod(pod({"requests": {"cpu": "1"}, "limits": {"cpu": "3", "memory": "2Gi"}})).shape
    assert shape.requests == {"cpu": 1.0, "memory": 2.0 * 2**30}
    inits = [{"resources": {"limits": {"cpu": "7"}}}]
    assert files.pod(pod({}, initContainers=inits)).shape.requests == {"cpu": 7.0}


def test_requests_of_the_pod_as_a_whole_are_filled_from_its_containers_then_its_limits() -> None:
    whole = {"limits": {"cpu": "4", "memory": "4Gi", "hugepages-2Mi": "4Mi"}}
    shape = files.pod(pod({"cpu": "1"}, resources=whole)).shape
    assert shape.requests == {"cpu": 1.0, "memory": 4.0 * 2**30, "hugepages-2Mi": 4.0 * 2**20}
    assert files.pod(pod({"cpu": "1"}, resources={"requests": {"memory": "1Gi"}})).shape.requests["cpu"] == 1.0


def test_capacity_is_allocatable_where_that_is_missing() -> None:
    found = files.cluster({"items": [{"kind": "Node", "metadata": {"name": "n"}, "status": {"capacity": AMOUNTS}}]})
    assert found.nodes[0].allocatable == {"cpu": 1.0, "memory": 2.0**30}


def test_lists_of_one_kind_and_lists_of_lists_are_read() -> None:
    nodes = {"kind": "NodeList", "items": [{k: v for k, v in node("n", AMOUNTS).items() if k != "kind"}]}
    assert [each.name for each in files.cluster(nodes).nodes] == ["n"]
    pods = {"kind": "PodList", "items": [{k: v for k, v in POD.items() if k != "kind"}]}
    both = files.cluster({"kind": "List", "items": [nodes, pods, {"kind": "HorizontalPodAutoscaler", "spec": {}}]})
    assert ([each.name for each in both.pods], len(both.objects["HorizontalPodAutoscaler"])) == (["arriving"], 1)


def test_now_is_the_time_of_the_metrics_else_the_newest_in_the_cluster_file() -> None:
    conditions = [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2023-11-14T22:13:20Z"}]
    there = {
        "kind": "Node",
        "metadata": {"name": "n", "creationTimestamp": "2023-01-01T00:00:00Z"},
        "status": {"conditions": conditions},
    }
    found = files.cluster({"items": [there]})
    assert fleet(found, metrics(None)).time == NOW
    assert fleet(found, metrics({"timestamp": 7})).time == 7
    assert fleet(found, metrics({"timestamp": 7, "window": {"end": 5}})).window_end == 5


def test_a_value_that_is_no_number_is_unknown_not_zero() -> None:
    found = files.cluster({"items": [node("n", AMOUNTS)]})
    entries = [{"type": "CPU", "operator": "AVG", "value": None}, {"type": "Memory", "operator": "AVG", "value": "9"}]
    scored = fleet(found, metrics({"data": {"NodeMetricsMap": {"n": {"metrics": entries}}}}))
    assert not scored.known.any()


def test_each_strategy_reads_the_entries_its_upstream_reads() -> None:
    entries = [
        ("CPU", "Latest", 10.0),
        ("CPU", "AVG", 20.0),
        ("CPU", "", 30.0),
        ("CPU", "STD", 5.0),
        ("CPU", "Latest", 40.0),
    ]
    scored = fleet(files.cluster({"items": [node("n", AMOUNTS)]}), metrics(load(n=entries)))
    means = [each.mean.tolist() for each in (scored.cpu, scored.packing_cpu, scored.power_cpu)]
    assert means == [[20.0], [40.0], [10.0]]
    assert scored.cpu.std.tolist() == [5.0]
