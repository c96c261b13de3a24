import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab_tests.solvers.problems import broken, value
from tests.worlds.commands import Run
from tests.worlds.printed import node, pod, pod_metrics, watcher

Json = dict[str, Any]
KEYS = [
    "solver",
    "placement",
    "moves",
    "objective",
    "before",
    "violations",
    "evaluations",
    "generations",
    "bound",
    "seconds",
    "gap",
    "timed_out",
    "devices",
]


@pytest.fixture
def ballast(ballast: Run) -> Run:
    return partial(ballast, "plan", "place")


@pytest.fixture
def place(tmp_path: Path, ballast: Run) -> Run:
    def run(document: Any, *options: str) -> tuple[int, str, str]:
        path = tmp_path / "problem.yaml"
        path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
        return ballast("--problem", str(path), *options)

    return run


def problem(**more: Any) -> Json:
    return {
        "resources": ["cpu", "memory"],
        "nodes": [{"name": f"n{row}", "capacity": {"cpu": 4, "memory": 8}} for row in range(3)],
        "pods": [
            {"name": f"p{row}", "request": {"cpu": 1, "memory": 1}, "use": {"cpu": 0.5 + 0.1 * row}, "node": "n0"}
            for row in range(4)
        ],
        **more,
    }


@pytest.mark.parametrize("solver", ["auto", "genetic", "late-acceptance", "longest-first", "steepest", "exact"])
def test_it_answers_with_the_fixed_keys_and_keeps_every_rule(place: Run, solver: str) -> None:
    rules = {
        "affine": [["p0", "n1", "n2"]],
        "forbid": [["p1", "n0"]],
        "together": [["p1", "p2"]],
        "apart": [["p2", "p3"]],
    }
    document = problem(rules=rules, weights={"cpu": 2, "memory": 1})
    code, out, _ = place(document, "--solver", solver, "--evaluations", "500", "-o", "json")
    answer = json.loads(out)
    assert code == 0
    assert list(answer) == KEYS
    assert broken(document, answer["placement"]) == []
    assert answer["violations"] == []
    assert list(answer["objective"]) == list(answer["before"]) == ["sigma", "sigma_of_mean", "value"]
    for pod_ in document["pods"]:
        pod_["use"]["memory"] = 1
    assert answer["objective"]["value"] == pytest.approx(value(document, answer["placement"]))
    assert answer["before"]["value"] == pytest.approx(value(document, {f"p{row}": "n0" for row in range(4)}))
    assert answer["moves"] == sum(each != "n0" for each in answer["placement"].values())
    assert 0 <= answer["bound"] <= answer["objective"]["value"]
    assert (answer["generations"] is not None) == (answer["solver"] == "genetic")


def test_the_same_evaluations_give_the_same_bytes(place: Run) -> None:
    answers = [json.loads(place(problem(), "--evaluations", "300", "--seed", "7", "-o", "json")[1]) for _ in range(2)]
    assert answers[0] | {"seconds": 0} == answers[1] | {"seconds": 0}


def test_zero_seconds_make_one_pass(place: Run) -> None:
    code, out, _ = place(problem(), "--solver", "late-acceptance", "--seconds", "0", "-o", "json")
    assert code == 0
    assert json.loads(out)["evaluations"] == 1


def test_a_pod_without_a_node_leaves_before_empty(place: Run) -> None:
    document = problem()
    del document["pods"][0]["node"]
    answer = json.loads(place(document, "--evaluations", "100", "--max-moves", "1", "-o", "json")[1])
    assert answer["before"] is None
    assert answer["moves"] <= 1


def test_the_published_solver_says_what_it_breaks(place: Run) -> None:
    document = problem(rules={"apart": [[f"p{row}" for row in range(3)]], "together": [["p0", "p1"]]})
    code, out, _ = place(document, "--solver", "genetic-paper", "--evaluations", "200", "-o", "json")
    answer = json.loads(out)
    assert code == 0
    assert len(answer["violations"]) > 0
    code, _, err = place(document, "--evaluations", "200")
    assert code == 1
    assert "apart [p0, p1, p2]" in err
    assert "together [p0, p1]" in err


def with_devices(*capacities: float, pods: int = 3, amount: float = 600) -> Json:
    document = problem()
    document["nodes"] = document["nodes"][:1]
    document["nodes"][0]["devices"] = [{"resource": "gpu", "capacity": capacity} for capacity in capacities]
    share = {"resource": "gpu", "amount": amount}
    document["pods"] = [{"name": f"p{row}", "devices": [share]} for row in range(pods)]
    return document


def test_a_part_of_a_device_is_on_one_device(place: Run) -> None:
    code, out, err = place(with_devices(1000, 1000, pods=2), "--evaluations", "100", "-o", "json")
    assert code == 0, err
    assert json.loads(out)["devices"] == {"p0": [0], "p1": [1]}
    for solver in ("auto", "exact", "late-acceptance", "genetic", "steepest", "longest-first"):
        code, _, err = place(with_devices(1000, 1000), "--evaluations", "100", "--solver", solver)
        assert code == 1
        assert "single devices of n0 for p0, p1, p2. Change or remove one of them, ask for less of a device" in err
    code, _, err = place(with_devices(500, 500, pods=1), "--evaluations", "100")
    assert code == 1
    assert "No node that rules leave has the single devices for p0." in err
    code, out, _ = place(with_devices(1000, 1000), "--solver", "genetic-paper", "--evaluations", "100", "-o", "json")
    assert json.loads(out)["violations"] == ["node n0: its devices cannot hold p0, p1, p2"]


def test_a_proved_optimum_has_no_gap_and_a_wrong_solver_a_hint(place: Run) -> None:
    answer = json.loads(place(problem(), "--solver", "exact", "--evaluations", "1000000", "-o", "json")[1])
    assert answer["gap"] == 0
    for word, hint in (("exat", True), ("zzz", False)):
        code, _, err = place(problem(), "--solver", word)
        assert code == 2
        assert ("Did you mean exact?" in err) is hint


def test_devices_may_have_several_amounts_and_a_count(place: Run) -> None:
    document = with_devices(pods=2)
    document["nodes"][0]["devices"] = [{"resource": "gpu", "capacity": {"milli": 1000, "memory": "16Gi"}, "count": 2}]
    for pod_ in document["pods"]:
        pod_["devices"] = [{"resource": "gpu", "amount": {"milli": 100, "memory": "9Gi"}}]
    code, out, err = place(document, "--evaluations", "100", "-o", "json")
    assert code == 0, err
    assert json.loads(out)["devices"] == {"p0": [0], "p1": [1]}
    document["pods"][0]["devices"][0]["amount"] = 1
    code, _, err = place(document, "--evaluations", "100")
    assert code == 1
    assert "devices of gpu have a number here and a mapping there" in err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"rules": {"affine": [["p0", "n1"]], "forbid": [["p0", "n1"], ["p1", "n2"]]}},
            "affine [p0, n1]; forbid [p0, n1]",
        ),
        ({"rules": {"apart": [["p0", "p1", "p2", "p3"]]}}, "apart [p0, p1, p2, p3]"),
        ({"rules": {"apart": [["p0", "nobody"]]}}, "there is no pod nobody"),
        ({"rules": {"forbid": [["p0", "nowhere"]]}}, "there is no node nowhere"),
        ({"rules": {"affine": [["p0"]]}}, "names no node"),
        ({"rules": {"affine": "p0"}}, "give a list"),
        ({"rules": {"sticky": []}}, "sticky"),
        ({"weights": {"cpu": 0, "memory": 0}}, "all weights are 0"),
        ({"weights": {"gpu": 1}}, "gpu"),
        ({"weights": {"cpu": -1}}, "at least 0"),
        ({"nodes": []}, "There are no nodes"),
        ({"nodes": None}, "There are no nodes"),
        ({"nodes": [{"name": "a", "capacity": {"cpu": 1}}] * 2}, "listed twice"),
        ({"nodes": [{"name": "n0", "capacity": {"cpu": 2, "memory": 9}}]}, "cpu"),
        ({"pods": [{"name": "big", "request": {"cpu": 9}}]}, "Pod big asks for 9 of cpu (largest node: 4)"),
        ({"pods": [{"name": "a"}, {"name": "a"}]}, "a is listed twice"),
        ({"pods": [{"name": "a", "node": "gone"}]}, "there is no node gone"),
        ({"pods": [{"name": "a", "use": {"cpu": float("nan")}}]}, "pod a: use: cpu is nan"),
        ({"pods": [{"name": "a", "use": {"cpu": "many"}}]}, "'many'"),
        ({"pods": [{"name": "a", "use": {"gpu": 1}}]}, "gpu"),
        ({"pods": [{"name": "a", "request": {"cpu": True}}]}, "True"),
        ({"pods": ["a"]}, "pods[0]"),
        (
            {"pods": [{"name": "a", "devices": [{"resource": "gpu"}]}]},
            "Pod a asks for 1 of devices of gpu (largest node: 0)",
        ),
        ({"pods": [{"name": "a", "devices": {"gpu": 1}}]}, "pod a: devices is {'gpu': 1}; give a list"),
        ({"pods": [{"name": "a", "devices": [{"resource": "gpu", "amount": -1}]}]}, "pod a: devices[0].amount is -1"),
        ({"pods": [{"name": "a", "devices": [{"resource": "gpu", "size": 1}]}]}, "has 'size'"),
        ({"pods": [{"name": "a", "devices": [{"amount": 1}]}]}, "devices[0].resource"),
        ({"pods": [{"name": "a", "devices": [{"resource": "g", "count": 1e9}]}]}, "devices[0].count is 1e+09"),
        ({"pods": [], "nodes": [{"name": "a", "weight": {"gpu": 1}}]}, "node a: weight has 'gpu'"),
        ({"pods": [], "nodes": [{"name": "a", "weight": {"cpu": "x"}}]}, "node a: weight: cpu is 'x'"),
        ({"resources": []}, "resources is empty"),
        ({"resources": ["cpu", "cpu"]}, "listed twice"),
        ({"colour": 1}, "colour"),
    ],
)
def test_bad_problems_are_refused_with_the_reason(place: Run, change: Json, said: str) -> None:
    code, out, err = place(problem() | change, "--evaluations", "100", "-o", "json")
    assert code == 1
    assert said in err
    assert out == ""
    assert "Traceback" not in err


@pytest.mark.parametrize("text", ["", "[1, 2]", "a: [", "17", "{nodes: {}}"])
def test_files_that_are_no_problem_are_refused(place: Run, text: str) -> None:
    code, _, err = place(text)
    assert code == 1
    assert "--problem" in err


@pytest.mark.parametrize(
    "options",
    [
        ("--weights", "cpu=0,memory=0"),
        ("--weights", "gpu=1"),
        ("--weights", "cpu"),
        ("--weights", "cpu=nan"),
        ("--seconds", "-1"),
        ("--seconds", "nan"),
        ("--solver", "magic"),
        ("--evaluations", "-5"),
        ("--max-moves", "-1"),
        ("--quirk", "flat=true"),
        ("--solver", "genetic-paper", "--quirk", "steep=true"),
        ("--cluster", "other.json"),
    ],
)
def test_wrong_use_is_exit_2(place: Run, options: tuple[str, ...]) -> None:
    assert place(problem(), *options)[0] == 2


def test_without_any_input_it_says_what_to_give(ballast: Run) -> None:
    code, _, err = ballast()
    assert code == 2
    assert "--cluster" in err


def test_an_empty_list_of_pods_is_an_answer(place: Run) -> None:
    code, out, _ = place(problem(pods=[]), "--evaluations", "10", "-o", "json")
    assert code == 0
    assert json.loads(out)["placement"] == {}


def test_the_table_names_deviations_and_moves(place: Run) -> None:
    code, out, _ = place(problem(), "--evaluations", "200")
    assert code == 0
    assert "4 pods on 3 nodes by exact" in out
    assert "mean of them" in out


def files(tmp_path: Path, cluster: Any, metrics: Any, usage: Any = None) -> list[str]:
    given = []
    for option, content in (("--cluster", cluster), ("--metrics", metrics), ("--pod-metrics", usage)):
        if content is not None:
            path = tmp_path / f"{option[2:]}.json"
            path.write_text(json.dumps(content))
            given += [option, str(path)]
    return given


def spread_out(**more: Any) -> Json:
    return {"spec": {"nodeSelector": {"disk": "ssd"}, **more}}


def cluster_of(pods: list[Json]) -> Json:
    nodes = [
        node(name, metadata={"labels": labels})
        for name, labels in (
            ("a", {"disk": "ssd", "zone": "1"}),
            ("b", {"disk": "ssd", "zone": "2"}),
            ("c", {"zone": "2"}),
        )
    ]
    return {"kind": "List", "items": [*nodes, *pods]}


def test_pod_specs_are_hard_rules(tmp_path: Path, ballast: Run) -> None:
    anti = {
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}}
                ]
            }
        }
    }
    pods = [pod(f"ssd{row}", "1", "1Gi", "a", "web", **spread_out()) for row in range(4)]
    pods += [pod(f"db{row}", "1", "1Gi", "b" if row else "", "db", spec=dict(anti)) for row in range(2)]
    pods.append(
        pod(
            "agent",
            "1",
            "1Gi",
            "a",
            "agent",
            metadata={"ownerReferences": [{"kind": "DaemonSet", "name": "agent", "uid": "x", "controller": True}]},
        )
    )
    metrics = watcher({"a": (60, 60), "b": (20, 20), "c": (5, 5)})
    code, out, err = ballast(*files(tmp_path, cluster_of(pods), metrics), "--evaluations", "3000", "-o", "json")
    answer = json.loads(out)
    assert code == 0, err
    placement = answer["placement"]
    assert {placement[f"shop/ssd{row}"] for row in range(4)} <= {"a", "b"}
    assert {placement["shop/db0"], placement["shop/db1"]} in ({"a", "b"}, {"a", "c"})
    assert placement["shop/agent"] == "a"
    assert answer["before"] is None
    assert answer["violations"] == []


def sharing(name: str, on: str = "", index: str | None = None) -> Json:
    notes = {"alibabacloud.com/gpu-milli": "600", **({"alibabacloud.com/gpu-index": index} if index else {})}
    return pod(name, "100m", "1Mi", on, name, metadata={"annotations": notes})


def test_shared_gpus_of_a_cluster_are_single_devices(tmp_path: Path, ballast: Run) -> None:
    gpus = node("g", allocatable={"cpu": "4", "memory": "8Gi", "alibabacloud.com/gpu-count": "2"})
    metrics = watcher({"g": (10, 10)})
    two = {"kind": "List", "items": [gpus, sharing("p0"), sharing("p1")]}
    code, out, err = ballast(*files(tmp_path, two, metrics), "--evaluations", "100", "-o", "json")
    assert code == 0, err
    assert json.loads(out)["devices"] == {"shop/p0": [0], "shop/p1": [1]}
    three = {"kind": "List", "items": [*two["items"], sharing("p2")]}
    code, _, err = ballast(*files(tmp_path, three, metrics), "--evaluations", "100")
    assert code == 1
    assert "single devices" in err


def test_pods_with_device_claims_are_not_moved_nor_placed(tmp_path: Path, ballast: Run) -> None:
    claims = {"nodeSelector": {"disk": "ssd"}, "resourceClaims": [{"name": "gpu", "resourceClaimName": "one"}]}
    pods = [pod(f"p{row}", "1", "1Gi", "a", f"w{row}", spec=claims) for row in range(3)]
    pods += [pod("waits", "1", "1Gi", "", "waits", spec=claims), pod("free", "1", "1Gi", "a", "free")]
    metrics = watcher({"a": (60, 60), "b": (0, 0), "c": (0, 0)})
    code, out, err = ballast(*files(tmp_path, cluster_of(pods), metrics), "--evaluations", "500", "-o", "json")
    assert code == 0, err
    placement = json.loads(out)["placement"]
    assert {name: where for name, where in placement.items() if name != "shop/free"} == {
        f"shop/p{row}": "a" for row in range(3)
    }
    assert placement["shop/free"] in ("b", "c")
    assert "3 have resource claims" in err
    assert "shop/waits is left out" in err


def test_disk_and_network_come_from_shares_of_bytes(tmp_path: Path, ballast: Run) -> None:
    pods = [pod(f"p{row}", "100m", "1Gi", "a" if row < 3 else "b", f"w{row}") for row in range(4)]
    metrics = watcher({"a": (30, 30), "b": (10, 10), "c": (0, 0)})
    for name, ratio in (("a", 60), ("b", 10)):
        metrics["data"]["NodeMetricsMap"][name]["metrics"].append(
            {"type": "Bandwidth", "operator": "AVG", "value": ratio}
        )
    usage = pod_metrics({f"p{row}": ("1", "1Gi") for row in range(4)})
    for row, item in enumerate(usage["items"]):
        item["containers"][0]["usage"]["network"] = str(100 * (row + 1))
    given = files(tmp_path, cluster_of(pods), metrics, usage)
    code, out, err = ballast(*given, "--evaluations", "2000", "--weights", "network=1", "-o", "json")
    answer = json.loads(out)
    assert code == 0, err
    assert "network does not count for c" in err
    # Of the 60 % of a, its pods have 10, 20 and 30 points; b has 10.
    assert answer["before"]["sigma"]["network"] == pytest.approx(0.25)
    assert answer["objective"]["sigma"]["network"] <= 0.05 + 1e-9


def test_a_node_without_load_keeps_its_pods_and_gets_none(tmp_path: Path, ballast: Run) -> None:
    pods = [pod(f"p{row}", "1", "1Gi", "ab"[row % 2], f"w{row}") for row in range(6)]
    given = files(tmp_path, cluster_of(pods), watcher({"a": (40, 40), "c": (0, 0)}))
    code, out, err = ballast(*given, "--evaluations", "500", "-o", "json")
    answer = json.loads(out)
    assert code == 0, err
    assert "The load of b is unknown" in err
    assert {name for name, where in answer["placement"].items() if where == "b"} == {"shop/p1", "shop/p3", "shop/p5"}


def test_nodes_of_a_cluster_have_the_weights_of_the_settings(
    tmp_path: Path, ballast: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pods = [pod(f"p{row}", "1", "1Gi", "a", f"w{row}") for row in range(8)]
    given = files(tmp_path, cluster_of(pods), watcher({"a": (80, 20), "b": (0, 0), "c": (0, 0)}))
    monkeypatch.setenv("BALLAST_SCORING__NODE_WEIGHTS", '{"a": {"cpu": 0.5, "memory": 0.5}}')
    code, out, err = ballast(*given, "--evaluations", "2000", "-o", "json")
    assert code == 0, err
    assert Counter(json.loads(out)["placement"].values()) == {"a": 4, "b": 2, "c": 2}


def test_pods_that_stay_say_why(tmp_path: Path, ballast: Run) -> None:
    pods = [pod(f"p{row}", "1", "1Gi", "ab"[row % 2], f"w{row}") for row in range(4)]
    metrics = watcher({"a": (40, 40), "b": (20, 20), "c": (0, 0)})
    for name in "abc":
        metrics["data"]["NodeMetricsMap"][name]["metrics"].append({"type": "Storage", "operator": "AVG", "value": 50})
    given = files(tmp_path, cluster_of(pods), metrics, pod_metrics({"p0": ("1", "1Gi")}))
    code, _, err = ballast(*given, "--evaluations", "500", "--weights", "cpu=1,disk=1", "-o", "json")
    assert code == 0, err
    assert "4 of 4 pods stay on their node: 4 have no figure for disk (containers[].usage.disk in --pod-metrics)" in err
