from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.unit.cli.planning.conftest import BUSY, LOADS, Plan, crowd, shop
from tests.worlds.printed import budget, listed, node, pod, pod_metrics, watcher, workload


def sigma(*loads: float) -> float:
    return float(np.std(loads))


def test_rebalance_tells_what_each_move_gains(plan: Plan) -> None:
    answer = plan("rebalance", shop(), LOADS)
    assert [step["from"] for step in answer["steps"]] == ["n1"] * 3
    assert {step["to"] for step in answer["steps"]} == {"n3"}, "n2 has a pod of each workload"
    assert {tuple(step["siblings"].values()) for step in answer["steps"]} == {(0, 1)}
    assert answer["concentration"] == {"before": 1, "after": 1}
    assert answer["before"] == pytest.approx({"cpu": sigma(0.6, 0.1, 0), "memory": sigma(0.6, 0.1, 0)})
    assert answer["after"]["cpu"] == pytest.approx(sigma(0.3, 0.1, 0.3))
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
        pod("local", "1", on="n1", spec={"volumes": [{"name": "v", "hostPath": {"path": "/v"}}]}),
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
        ("namespace_selector=moves", "namespace"),
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
    cluster = listed(nodes, pods, [pod(f"q{i}", "0", on="n1", owner=f"w{i}") for i in range(6)])
    cluster["items"] += [item for i in range(6) for item in workload(f"w{i}", 2)]
    loads = watcher({"n1": (60, 60), "n2": (20, 20), "n3": (0, 0), "n4": (0, 0)})
    assert {step["to"] for step in plan("rebalance", cluster, loads)["steps"]} == {"n2", "n3", "n4"} - {"n2"}
    monkeypatch.setenv("BALLAST_CLUSTER__POOL_LABEL", "pool")
    answer = plan("rebalance", cluster, loads)
    assert {step["to"] for step in answer["steps"]} == {"n2"}
    assert answer["before"]["cpu"] == pytest.approx(np.sqrt((sigma(0.6, 0.2) ** 2) / 2))
