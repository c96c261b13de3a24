from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ballast.cli.main import main
from tests.unit.cli.clusters import budget, listed, node, pod, pod_metrics, watcher, workload

Answer = dict[str, Any]
Plan = Callable[..., Answer]


@pytest.fixture
def files(tmp_path: Path) -> Callable[[str, Any], str]:
    def write(name: str, content: Any) -> str:
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    return write


@pytest.fixture
def ballast(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["ballast", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return run


@pytest.fixture
def plan(files: Callable[[str, Any], str], ballast: Callable[..., tuple[int, str, str]]) -> Plan:
    def run(kind: str, cluster: Any, metrics: Any, *options: str) -> Answer:
        given = ["--cluster", files("c.json", cluster), "--metrics", files("m.json", metrics), "-o", "json"]
        code, out, err = ballast("plan", kind, *given, *options)
        assert code == 0, err
        answer: Answer = json.loads(out)
        assert list(answer) == ["kind", "steps", "before", "after", "refused", "placed"]
        keys = ["pod", "from", "to", "gain", "gain_error", "cost", "reason"]
        assert all(list(step) == keys for step in answer["steps"])
        return answer

    return run


def shop(on_n1: int = 6, owners: int = 6) -> Answer:
    """Pods of several workloads on one of three nodes."""
    pods = [pod(f"p{i}", "1", "1Gi", "n1", f"w{i % owners}") for i in range(on_n1)]
    rest = [pod(f"q{i}", "10m", "0", "n2", f"w{i}") for i in range(owners)]
    return listed(*(node(f"n{i}") for i in (1, 2, 3)), pods, rest, *(workload(f"w{i}", 2) for i in range(owners)))


LOADS = watcher({"n1": (60, 60), "n2": (10, 10), "n3": (0, 0)})


def sigma(*loads: float) -> float:
    return float(np.std(loads))


def test_rebalance_tells_what_each_move_gains(plan: Plan) -> None:
    answer = plan("rebalance", shop(), LOADS)
    assert [step["from"] for step in answer["steps"]] == ["n1"] * 3
    assert sorted(step["to"] for step in answer["steps"]) == ["n2", "n3", "n3"]
    assert answer["before"] == pytest.approx({"cpu": sigma(0.6, 0.1, 0), "memory": sigma(0.6, 0.1, 0)})
    assert answer["after"]["cpu"] == pytest.approx(sigma(0.3, 0.2, 0.2))
    fall = sum((answer["before"][k] ** 2 - answer["after"][k] ** 2) / 2 for k in ("cpu", "memory"))
    assert sum(step["gain"] for step in answer["steps"]) == pytest.approx(fall)
    assert answer["placed"] == []
    assert answer["refused"] == {}


def test_load_is_of_allocatable_and_the_document_is_of_capacity(plan: Plan) -> None:
    half = {"cpu": "5", "memory": "5Gi", "pods": "110"}
    answer = plan("rebalance", listed(node("n1", allocatable=half), node("n2")), watcher({"n1": 20, "n2": 40}))
    assert answer["before"] == pytest.approx({"cpu": sigma(0.4, 0.4)})


def test_measured_use_comes_before_requests(plan: Plan, files: Callable[[str, Any], str]) -> None:
    use = files("use.json", pod_metrics({"p0": ("2", "0"), "p1": ("100m", "0")}))
    answer = plan("relieve", shop(), watcher({"n1": 90, "n2": 0, "n3": 0}), "--pod-metrics", use, "--max-moves", "1")
    assert [(step["pod"], step["gain"]) for step in answer["steps"]] == [("shop/p0", pytest.approx(0.2))]


def test_relieve_makes_no_other_node_hot(plan: Plan) -> None:
    cluster = shop(6, 6)
    loads = watcher({"n1": (60, 60), "n2": (25, 25), "n3": (45, 45)})
    answer = plan("relieve", cluster, loads, "--set", "high=0.3", "--set", "low=0.2")
    assert answer["steps"] == []
    assert len(plan("relieve", cluster, loads, "--set", "high=0.35", "--set", "low=0.2")["steps"]) == 1


def test_relieve_stops_at_the_lower_threshold(plan: Plan) -> None:
    loads = watcher({"n1": 85, "n2": 10, "n3": 10})
    answer = plan("relieve", shop(), loads)
    assert [step["gain"] for step in answer["steps"]] == pytest.approx([0.1] * 3)
    assert "85.0% of its cpu" in answer["steps"][0]["reason"]
    assert plan("relieve", shop(), loads, "--set", "high=0.85")["steps"] == []
    assert len(plan("relieve", shop(), loads, "--set", "low=0.79")["steps"]) == 1


def crowd(**more: Any) -> Answer:
    return listed(
        node("n1", "6", metadata={"labels": {"disk": "fast"}}),
        node("n2"),
        pod("a", "4", on="n1", owner="a"),
        pod("b", "2", on="n1", owner="b", **more),
        pod("w1", "2", owner="w", spec={"nodeSelector": {"disk": "fast"}}),
        pod("w2", "2", owner="w", spec={"nodeSelector": {"disk": "fast"}}),
        pod("y", "5", on="n2", owner="y"),
        *(pod(f"other-{name}", "0", on="n2", owner=name) for name in "aby"),
        *(workload(name, 2) for name in "abyw"),
    )


BUSY = watcher({"n1": 50, "n2": 10})


def test_redistribute_starts_waiting_pods(plan: Plan) -> None:
    answer = plan("redistribute", crowd(), BUSY, "--ungated")
    [step] = answer["steps"]
    assert (step["pod"], step["from"], step["to"], step["gain"]) == ("shop/a", "n1", "n2", 2)
    assert answer["placed"] == ["shop/w1", "shop/w2"]
    assert "shop/w1, shop/w2" in step["reason"]


def test_redistribute_moves_on_until_nobody_can_start(plan: Plan) -> None:
    cluster = crowd()
    cluster["items"] = [item for item in cluster["items"] if item["metadata"]["name"] != "y"]
    cluster["items"].append(pod("w3", "2", owner="w", spec={"nodeSelector": {"disk": "fast"}}))
    answer = plan("redistribute", cluster, BUSY, "--ungated")
    assert [step["pod"] for step in answer["steps"]] == ["shop/a", "shop/b"]
    assert answer["placed"] == ["shop/w1", "shop/w2", "shop/w3"]
    assert len(plan("redistribute", cluster, BUSY, "--ungated", "--max-moves", "1")["steps"]) == 1


def test_kappa_decides_nothing(plan: Plan) -> None:
    assert plan("redistribute", crowd(), BUSY, "--set", "kappa=0") == plan("redistribute", crowd(), BUSY)


def test_waiting_is_what_the_scheduler_refused(plan: Plan) -> None:
    for change in ({"schedulingGates": [{"name": "x"}]}, {}):
        cluster = crowd()
        for item in cluster["items"]:
            if item["metadata"]["name"].startswith("w") and item["kind"] == "Pod":
                item["spec"].update(change)
                if not change:
                    item["status"]["conditions"][0]["reason"] = "SchedulingGated"
        answer = plan("redistribute", cluster, BUSY, "--ungated")
        assert (answer["steps"], answer["refused"]) == ([], {})


def test_the_first_check_that_refuses_a_pod_is_counted(plan: Plan) -> None:
    cluster = listed(
        node("n1"),
        node("n2"),
        pod("free", "1", on="n1", owner="two"),
        pod("other", "1", on="n1", owner="two"),
        pod("lonely", "1", on="n1", owner="one"),
        pod("bare", "1", on="n1", metadata={"ownerReferences": []}),
        pod("excluded", "1", on="n1", metadata={"annotations": {"ballast.dev/exclude": "perhaps"}}),
        pod("system", "1", on="n1", metadata={"namespace": "kube-system", "ownerReferences": []}),
        pod("unknown", "1", on="n1", owner="missing"),
        pod("local", "1", on="n1", spec={"volumes": [{"name": "v", "emptyDir": {}}]}),
        pod("huge", "9", on="n1", owner="two"),
        workload("one", 1),
        workload("two", 3),
        workload("web", 3),
    )
    answer = plan("rebalance", cluster, watcher({"n1": 90, "n2": 60}), "--set", "max_unavailable=0")
    assert answer["refused"] == {
        "critical": 1,
        "bare": 1,
        "local-storage": 1,
        "node-fit": 1,
        "single-replica": 2,
        "opt-out": 1,
    }


def test_pods_of_unknown_use_are_stale_however_much_room_there_is(plan: Plan) -> None:
    cluster = listed(node("n1"), node("n2"), [pod(f"p{i}", "0", on="n1") for i in range(3)], workload("web", 3))
    answer = plan("relieve", cluster, watcher({"n1": (95, 50), "n2": (10, 10)}))
    assert (answer["steps"], answer["refused"]) == ([], {"stale": 3})


@pytest.mark.parametrize("state", [{"ready": False}, {"spec": {"unschedulable": True}}])
def test_a_hot_node_that_is_not_relieved_says_why(plan: Plan, state: dict[str, Any]) -> None:
    others = [node(f"n{i}") for i in range(2, 13)]
    cluster = listed(node("n1", **state), others, pod("a", "1", on="n1"), pod("b", "1", on="n1"), workload("web", 2))
    answer = plan("relieve", cluster, watcher({f"n{i}": (95 if i == 1 else 10, 10) for i in range(1, 13)}))
    assert (answer["steps"], answer["refused"]) == ([], {"cluster-health": 2})


def test_an_opt_in_lifts_the_lighter_checks(plan: Plan) -> None:
    pods = [
        pod(f"p{i}", "1", on="n1", metadata={"ownerReferences": [], "annotations": {"ballast.dev/evict": "true"}})
        for i in range(4)
    ]
    answer = plan("rebalance", listed(node("n1"), node("n2"), pods), watcher({"n1": 40, "n2": 0}))
    assert [step["pod"] for step in answer["steps"]] == ["shop/p0", "shop/p1"]


def test_budgets_hold_across_the_whole_plan(plan: Plan) -> None:
    cluster = shop(6, 1)
    cluster["items"].append(budget("b", "w0", 2))
    assert len(plan("rebalance", cluster, LOADS, "--set", "max_unavailable=0")["steps"]) == 2
    cluster["items"].append(budget("c", "w0", 5))
    answer = plan("rebalance", cluster, LOADS, "--set", "max_unavailable=0")
    assert (answer["steps"], answer["refused"]) == ([], {"pdb": 7})


def test_a_budget_that_was_not_worked_out_allows_nothing(plan: Plan) -> None:
    cluster = shop(6, 1)
    cluster["items"].append(budget("b", "w0", 5, generation=2))
    assert plan("rebalance", cluster, LOADS)["refused"] == {"pdb": 7}


def test_replicas_that_may_be_unavailable_hold_across_the_plan(plan: Plan) -> None:
    assert len(plan("rebalance", shop(6, 1), LOADS)["steps"]) == 1
    assert len(plan("rebalance", shop(6, 1), LOADS, "--set", "max_unavailable=2")["steps"]) == 2


@pytest.mark.parametrize("labels", [{"k8s-app": "metrics-server"}, {"app.kubernetes.io/name": "ballast"}])
def test_ballast_and_what_it_needs_stay(plan: Plan, labels: dict[str, str]) -> None:
    cluster = shop(6, 1)
    for item in cluster["items"]:
        if item["kind"] == "Deployment":
            item["spec"]["template"] = {"metadata": {"labels": labels}}
    assert plan("rebalance", cluster, LOADS)["refused"] == {"critical": 7}


def test_limits_hold_when_they_are_set(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("limit_total", "limit_namespace", "max_moves"):
        assert len(plan("rebalance", shop(), LOADS, "--set", f"{limit}=2")["steps"]) == 2
    monkeypatch.setenv("BALLAST_EVICTION__LIMIT_NODE", "1")
    answer = plan("rebalance", shop(), LOADS)
    assert [step["from"] for step in answer["steps"]] == ["n1"]
    assert answer["refused"] == {"limit-node": 5}
    assert len(plan("rebalance", shop(), LOADS, "--set", "limit_node=0")["steps"]) == 3


@pytest.mark.parametrize(
    ("setting", "check"),
    [
        ("exclude_namespaces=shop", "namespace"),
        ("namespaces=other", "namespace"),
        ("pod_selector=app in (db),tier", "pod-selector"),
        ("without_pdb=refuse", "without-pdb"),
        ("priority_below=0", "priority"),
    ],
)
def test_what_is_off_unless_set(plan: Plan, setting: str, check: str) -> None:
    assert plan("rebalance", shop(), LOADS, "--set", setting)["refused"] == {check: 12}


def test_hot_may_be_what_deviates_from_the_mean(plan: Plan) -> None:
    answer = plan("relieve", shop(), LOADS, "--set", "deviation=0.3", "--set", "target_high=0.4")
    assert [step["from"] for step in answer["steps"]] == ["n1"] * 3


def test_only_selected_nodes_count(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = shop()
    for item in cluster["items"][:2]:
        item["metadata"]["labels"] = {"role": "worker"}
    monkeypatch.setenv("BALLAST_CLUSTER__NODE_SELECTOR", "role=worker")
    answer = plan("rebalance", cluster, LOADS)
    assert {step["to"] for step in answer["steps"]} == {"n2"}
    assert answer["before"]["cpu"] == pytest.approx(sigma(0.6, 0.1))


def test_moves_may_be_counted_in_percent_of_all_pods(plan: Plan) -> None:
    assert len(plan("rebalance", shop(), LOADS, "--max-moves-percent", "17")["steps"]) == 2
    assert len(plan("rebalance", shop(), LOADS, "--max-moves-percent", "1")["steps"]) == 1
    assert len(plan("rebalance", shop(), LOADS, "--max-moves", "0")["steps"]) == 3


def test_unknown_leaving_and_young_nodes_are_left_alone(plan: Plan) -> None:
    extra = [node(f"z{i}") for i in range(9)]
    loads = {"n1": (60.0, 60.0), **{f"z{i}": (60.0, 60.0) for i in range(9)}}
    nodes = {
        "stale": node("n1"),
        "cluster-health": node("n1", spec={"unschedulable": True}),
        "cluster-health ": node("n1", metadata={"creationTimestamp": "2023-11-14T22:10:00Z"}),
        "cluster-health  ": node("n1", ready=False),
    }
    for check, hot in nodes.items():
        cluster = listed(hot, extra, pod("a", "1", on="n1"), workload("web", 2), pod("b", "10m", on="z0"))
        known = {name: load for name, load in loads.items() if name != "n1" or check != "stale"}
        answer = plan("rebalance", cluster, watcher({**known, "z1": (0, 0)}), "--set", "price=0")
        assert "n1" not in [step[end] for step in answer["steps"] for end in ("from", "to")]
        assert answer["refused"] == {check.strip(): 1}


def test_too_much_silence_stops_everything(plan: Plan) -> None:
    answer = plan("rebalance", shop(), watcher({"n1": 90, "n2": 10}))
    assert (answer["steps"], answer["refused"]) == ([], {"stale": 6, "cluster-health": 6})
    answer = plan("rebalance", shop(), watcher({}))
    assert answer["before"] == answer["after"] == {"cpu": None, "memory": None}


def test_pools_do_not_mix(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [node(f"n{i}", metadata={"labels": {"pool": "a" if i < 3 else "b"}}) for i in (1, 2, 3, 4)]
    pods = [pod(f"p{i}", "1", "1Gi", "n1", f"w{i}") for i in range(6)]
    cluster = listed(nodes, pods, [pod(f"q{i}", "0", on="n3", owner=f"w{i}") for i in range(6)])
    cluster["items"] += [item for i in range(6) for item in workload(f"w{i}", 2)]
    loads = watcher({"n1": (60, 60), "n2": (20, 20), "n3": (0, 0), "n4": (0, 0)})
    assert {step["to"] for step in plan("rebalance", cluster, loads)["steps"]} == {"n2", "n3", "n4"} - {"n2"}
    monkeypatch.setenv("BALLAST_CLUSTER__POOL_LABEL", "pool")
    answer = plan("rebalance", cluster, loads)
    assert {step["to"] for step in answer["steps"]} == {"n2"}
    assert answer["before"]["cpu"] == pytest.approx(np.sqrt((sigma(0.6, 0.2) ** 2) / 2))


def a_mess() -> tuple[Answer, dict[str, Any]]:
    g = random.Random(7)
    pods = [
        pod(
            f"p{i}",
            f"{g.choice([300, 700, 1500])}m",
            f"{g.choice([256, 700])}Mi",
            f"n{int(8 * g.random() ** 2)}",
            f"w{i % 9}",
        )
        for i in range(72)
    ]
    loads = {f"n{i}": (g.uniform(5, 95), g.uniform(5, 95)) for i in range(8)}
    nodes = [node(f"n{i}", str(g.choice([8, 16]))) for i in range(8)]
    return listed(nodes, pods, *(workload(f"w{i}", 8) for i in range(9)), budget("b", "w2", 1)), loads


@pytest.mark.parametrize("kind", ["relieve", "rebalance", "redistribute"])
def test_the_same_input_in_any_order_gives_the_same_bytes(
    kind: str, files: Callable[[str, Any], str], ballast: Callable[..., tuple[int, str, str]]
) -> None:
    cluster, loads = (crowd(), {"n1": 50, "n2": 10}) if kind == "redistribute" else a_mess()
    options = ["--ungated"] if kind == "redistribute" else ["--seed", "3"]
    g, items, outputs = random.Random(1), cluster["items"], set()
    for _ in range(6):
        g.shuffle(items)
        shuffled = dict(g.sample(sorted(loads.items()), len(loads)))
        given = files("c.json", {"kind": "List", "items": items}), files("m.json", watcher(shuffled))
        code, out, _ = ballast("plan", kind, "--cluster", given[0], "--metrics", given[1], "-o", "json", *options)
        assert code == 0
        outputs.add(out)
    assert len(outputs) == 1
    assert json.loads(outputs.pop())["steps"]


def test_missing_kinds_are_warned_of_once(
    files: Callable[[str, Any], str], ballast: Callable[..., tuple[int, str, str]]
) -> None:
    cluster = files("c.json", {"kind": "List", "items": [node("n1"), pod("a", "1", on="n1")]})
    code, out, err = ballast(
        "plan", "rebalance", "--cluster", cluster, "--metrics", files("m.json", watcher({"n1": 50}))
    )
    assert code == 0
    assert out.startswith("No eviction helps")
    assert "single-replica 1" in out or "node-fit 1" in out
    assert len(err.splitlines()) == 1
    for kind in ("PodDisruptionBudget", "ReplicaSet", "Namespace", "PersistentVolumeClaim"):
        assert f"no {kind}:" in err


def test_a_pause_is_warned_of_and_does_not_stop_a_plan(
    files: Callable[[str, Any], str], ballast: Callable[..., tuple[int, str, str]]
) -> None:
    cluster = shop()
    cluster["items"].append(
        {"kind": "ConfigMap", "metadata": {"name": "ballast-switches"}, "data": {"paused.eviction": "true"}}
    )
    given = ["--cluster", files("c.json", cluster), "--metrics", files("m.json", LOADS)]
    code, out, err = ballast("plan", "rebalance", *given)
    assert code == 0
    assert "shop/p0" in out
    assert "paused by paused.eviction" in err


def test_no_pods_is_an_empty_plan(plan: Plan) -> None:
    for kind in ("relieve", "rebalance", "redistribute"):
        assert plan(kind, listed(node("n1"), node("n2")), watcher({"n1": 90, "n2": 10}))["steps"] == []


@pytest.mark.parametrize(
    ("cluster", "metrics", "code", "message"),
    [
        ({"kind": "List", "items": []}, LOADS, 1, "no nodes"),
        (listed(node("n1"), node("n1")), LOADS, 1, "twice"),
        (listed(node("n1"), pod("a", "1"), pod("a", "1")), LOADS, 1, "twice"),
        (json.dumps(shop())[:3000], LOADS, 1, "--cluster"),
        (shop(), "[", 1, "--metrics"),
        (listed(node("n1"), {**budget("b", "x", 1), "spec": {"selector": 3}}), LOADS, 1, "PodDisruptionBudget b"),
    ],
)
def test_bad_files_are_named(
    cluster: Any,
    metrics: Any,
    code: int,
    message: str,
    files: Callable[[str, Any], str],
    ballast: Callable[..., tuple[int, str, str]],
) -> None:
    given = ["--cluster", files("c.json", cluster), "--metrics", files("m.json", metrics)]
    found, out, err = ballast("plan", "rebalance", *given)
    assert (found, out) == (code, "")
    assert message in err


JUNK = (None, "x", 1, True, [], [None], ["x"], {"a": None})


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_junk_anywhere_is_a_plan_or_a_clear_error(
    data: st.DataObject, files: Callable[[str, Any], str], ballast: Callable[..., tuple[int, str, str]]
) -> None:
    used = pod_metrics({f"p{i}": ("1", "1Gi") for i in range(3)})
    documents = [listed(node("n1"), node("n2"), pod("p1", "1", on="n1"), workload("web", 1), budget("b", "web", 1))]
    documents = [json.loads(json.dumps(each)) for each in (*documents, LOADS, used)]
    place: Any = data.draw(st.sampled_from(documents))
    while True:
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        if not (isinstance(place[key], dict | list) and place[key] and data.draw(st.integers(0, 4))):
            break
        place = place[key]
    place[key] = data.draw(st.sampled_from(JUNK))
    names = ("--cluster", "--metrics", "--pod-metrics")
    options = [part for name, each in zip(names, documents, strict=True) for part in (name, files(name, each))]
    code, out, err = ballast("plan", data.draw(st.sampled_from(["relieve", "redistribute"])), *options, "-o", "json")
    assert (code, bool(out)) == (0, True) or (code == 1 and err and not out)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--max-moves", "1", "--max-moves-percent", "1"), "give one of them"),
        (("--set", "hihg=0.5"), "Did you mean high?"),
        (("--set", "high"), "KEY=VALUE"),
        (("--set", "high=lots"), '"lots" (--set high)'),
        (("--set", "low=0.9"), "LOW < HIGH"),
        (("--max-moves", "-1"), "--max-moves"),
        (("--cluster", "/nowhere"), "/nowhere"),
    ],
)
def test_wrong_use_is_refused_with_a_reason(
    options: tuple[str, ...],
    message: str,
    files: Callable[[str, Any], str],
    ballast: Callable[..., tuple[int, str, str]],
) -> None:
    given = ["--cluster", files("c.json", shop()), "--metrics", files("m.json", LOADS)]
    code, _, err = ballast("plan", "rebalance", *given, *options)
    assert code == 2
    assert message in err


def test_an_unknown_variable_stops_a_plan(
    monkeypatch: pytest.MonkeyPatch,
    files: Callable[[str, Any], str],
    ballast: Callable[..., tuple[int, str, str]],
) -> None:
    monkeypatch.setenv("BALLAST_EVICTION__HIHG", "0.5")
    code, _, err = ballast("plan", "rebalance", "--cluster", files("c", shop()), "--metrics", files("m", LOADS))
    assert code == 2
    assert "BALLAST_EVICTION__HIGH" in err


def claimed(cluster: Answer, *objects: Answer) -> Answer:
    """The cluster with a claim on every pod of n1, and these objects."""
    for item in cluster["items"]:
        if item["kind"] == "Pod" and item["spec"]["nodeName"] == "n1":
            item["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    return {**cluster, "items": [*cluster["items"], *objects]}


def volume(*hosts: str) -> Answer:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": list(hosts)}]}
    spec: Answer = {"csi": {"driver": "d", "volumeHandle": "v"}}
    if hosts:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    return {"kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": spec}


def volume_claim(mode: str = "ReadWriteMany", namespace: str = "a") -> Answer:
    metadata = {"name": "data", "namespace": namespace}
    return {"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": {"volumeName": "v", "accessModes": [mode]}}


def moved(plan: Plan, cluster: Answer) -> tuple[int, int]:
    """Moves of the pods of n1, and pods that node-fit refused."""
    answer = plan("rebalance", cluster, LOADS)
    return sum(step["from"] == "n1" for step in answer["steps"]), answer["refused"].get("node-fit", 0)


def test_pods_go_only_where_their_volumes_are(plan: Plan) -> None:
    space = next(item["metadata"]["namespace"] for item in shop()["items"] if item["kind"] == "Pod")
    claim, once = volume_claim(namespace=space), volume_claim("ReadWriteOnce", space)
    assert moved(plan, claimed(shop())) == (0, 6)
    assert moved(plan, claimed(shop(), claim)) == (0, 6)
    assert moved(plan, claimed(shop(), volume())) == (0, 6)
    assert moved(plan, claimed(shop(), claim, volume())) == (3, 0)
    assert moved(plan, claimed(shop(), claim, volume("n1"))) == (0, 6)
    assert moved(plan, claimed(shop(), once, volume())) == (0, 6)


def test_nodes_that_an_autoscaler_would_remove_are_no_targets(plan: Plan) -> None:
    def targets(taint: Answer | None = None, *claims: Answer) -> set[str]:
        cluster = shop()
        for item in cluster["items"]:
            if item["kind"] == "Node" and item["metadata"]["name"] == "n3" and taint is not None:
                item["spec"] = {**item.get("spec", {}), "taints": [taint]}
        cluster["items"] += claims
        return {step["to"] for step in plan("rebalance", cluster, LOADS)["steps"]}

    def node_claim(*conditions: tuple[str, str], node: str = "n3") -> Answer:
        status = {"nodeName": node, "conditions": [{"type": name, "status": value} for name, value in conditions]}
        return {"kind": "NodeClaim", "metadata": {"name": f"claim-{node}"}, "status": status}

    assert targets() == {"n2", "n3"}
    assert targets({"key": "DeletionCandidateOfClusterAutoscaler", "effect": "PreferNoSchedule", "value": "1"}) == {
        "n2"
    }
    assert targets(None, node_claim(("Consolidatable", "True"))) == {"n2"}
    assert targets(None, node_claim(("Drifted", "True"), ("Consolidatable", "False"))) == {"n2"}
    assert targets(None, node_claim(("Drifted", "False"), ("Initialized", "True"))) == {"n2", "n3"}
    assert targets(None, node_claim(("Consolidatable", "True"), node="")) == {"n2", "n3"}


def test_repair_moves_what_is_not_where_it_asks_to_be(plan: Plan) -> None:
    cluster = shop(on_n1=2, owners=2)
    for item in cluster["items"]:
        if item["kind"] == "Pod" and item["metadata"]["name"] == "p0":
            item["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "n3"}
        if item["kind"] == "Node":
            item["metadata"].setdefault("labels", {})["kubernetes.io/hostname"] = item["metadata"]["name"]
    answer = plan("repair", cluster, LOADS)
    assert [(step["pod"].split("/")[1], step["from"], step["to"]) for step in answer["steps"]] == [("p0", "n1", "n3")]
    assert answer["steps"][0]["reason"] == "n1 is none of the nodes it asks for"
    assert answer["steps"][0]["gain"] == 1


def drained(**more: Any) -> Answer:
    """One pod on each of five nodes, each of a workload of its own."""
    pods = [pod(f"p{i}", "1", "1Gi", f"n{i}", f"w{i}") for i in range(5)]
    rest = [pod(f"q{i}", "10m", "0", f"n{(i + 1) % 5}", f"w{i}") for i in range(5)]
    return listed(*(node(f"n{i}", **more) for i in range(5)), pods, rest, *(workload(f"w{i}", 2) for i in range(5)))


@pytest.fixture
def emptied(files: Callable[[str, Any], str], ballast: Callable[..., tuple[int, str, str]]) -> Callable[..., Answer]:
    def run(cluster: Any, metrics: Any, *options: str) -> Answer:
        given = ["--cluster", files("c.json", cluster), "--metrics", files("m.json", metrics), "-o", "json"]
        code, out, err = ballast("plan", "consolidate", *given, *options)
        assert code == 0, err
        answer: Answer = json.loads(out)
        assert answer["kind"] == "consolidate"
        assert list(answer)[-1] == "empty"
        return answer

    return run


def test_consolidate_names_the_nodes_that_become_empty(emptied: Callable[..., Answer]) -> None:
    loads = {f"n{i}": (10, 10) for i in range(5)}
    answer = emptied(drained(), watcher(loads))
    assert answer["empty"] == ["n0"]
    assert {step["pod"] for step in answer["steps"]} == {"shop/p0", "shop/q4"}
    assert len(emptied(drained(), watcher(loads), "--set", "consolidate_nodes=2")["empty"]) == 2
    assert emptied(drained(), watcher(loads), "--set", "max_moves=1")["empty"] == ["n0"]
    assert emptied(drained(), watcher(loads), "--max-moves", "1")["empty"] == []
    assert emptied(drained(), watcher(loads), "--set", "nodes_reserve=4")["empty"] == []
    assert emptied(drained(), watcher(loads), "--set", "consolidate_nodes=0")["empty"] == []
    assert emptied(drained(), watcher({**loads, "n3": (75, 10)}))["empty"] == []


def test_consolidate_goes_by_the_p95_that_the_document_tells(emptied: Callable[..., Answer]) -> None:
    document = watcher({f"n{i}": (10, 10) for i in range(5)})
    for each in document["data"]["NodeMetricsMap"].values():
        each["metrics"].append({"type": "CPUP95", "operator": "P95", "value": 65})
    assert emptied(drained(), document)["empty"] == []
