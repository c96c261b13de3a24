"""Where plans of `ballast plan` may put pods, and which nodes they empty."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.cli.planning.conftest import LOADS, Answer, Plan, shop
from tests.worlds.commands import Run
from tests.worlds.printed import listed, node, pod, watcher, workload


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

    assert targets() == {"n3"}, "n2 has a pod of each workload"
    assert targets({"key": "DeletionCandidateOfClusterAutoscaler", "effect": "PreferNoSchedule", "value": "1"}) == {
        "n2"
    }
    assert targets(None, node_claim(("Consolidatable", "True"))) == {"n2"}
    assert targets(None, node_claim(("Drifted", "True"), ("Consolidatable", "False"))) == {"n2"}
    assert targets(None, node_claim(("Drifted", "False"), ("Initialized", "True"))) == {"n3"}
    assert targets(None, node_claim(("Consolidatable", "True"), node="")) == {"n3"}


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
def emptied(files: Callable[[str, Any], str], ballast: Run) -> Callable[..., Answer]:
    def run(cluster: Any, metrics: Any, *options: str) -> Answer:
        given = ["--cluster", files("c.json", cluster), "--metrics", files("m.json", metrics), "-o", "json"]
        code, out, err = ballast("plan", "consolidate", *given, *options)
        assert code == 0, err
        answer: Answer = json.loads(out)
        assert answer["kind"] == "consolidate"
        assert list(answer)[-1] == "empty"
        assert ("the load of a day is not known" in err) == ("note" in answer)
        return answer

    return run


@pytest.fixture
def day(files: Callable[[str, Any], str]) -> Callable[..., tuple[str, str]]:
    """The options for loads at the p95 of a day, of the five nodes."""

    def options(cpu: float = 0.1, nodes: int = 5) -> tuple[str, str]:
        return "--peak", files("day.json", {f"n{i}": {"cpu": cpu, "memory": 0.1} for i in range(nodes)})

    return options


def test_consolidate_names_the_nodes_that_become_empty(emptied: Callable[..., Answer], day: Callable[..., Any]) -> None:
    peak = day()
    loads = {f"n{i}": (10, 10) for i in range(5)}
    answer = emptied(drained(), watcher(loads), *peak)
    assert answer["empty"] == ["n0"]
    assert {step["pod"] for step in answer["steps"]} == {"shop/p0", "shop/q4"}
    assert len(emptied(drained(), watcher(loads), *peak, "--set", "consolidate_nodes=2")["empty"]) == 2
    assert emptied(drained(), watcher(loads), *peak, "--set", "max_moves=1")["empty"] == ["n0"]
    assert emptied(drained(), watcher(loads), *peak, "--max-moves", "1")["empty"] == []
    assert emptied(drained(), watcher(loads), *peak, "--set", "nodes_reserve=4")["empty"] == []
    assert emptied(drained(), watcher(loads), *peak, "--set", "consolidate_nodes=0")["empty"] == []
    assert emptied(drained(), watcher({**loads, "n3": (75, 10)}), *peak)["empty"] == []


def test_consolidate_goes_by_the_p95_that_the_document_tells(emptied: Callable[..., Answer]) -> None:
    document = watcher({f"n{i}": (10, 10) for i in range(5)})
    for each in document["data"]["NodeMetricsMap"].values():
        each["metrics"].append({"type": "CPUP95", "operator": "P95", "value": 65})
    assert emptied(drained(), document, "--set", "no_peak=true")["empty"] == []


def test_consolidate_plans_nothing_without_the_load_of_a_day(
    emptied: Callable[..., Answer], day: Callable[..., Any]
) -> None:
    calm = watcher({f"n{i}": (10, 10) for i in range(5)})
    answer = emptied(drained(), calm)
    assert (answer["steps"], answer["empty"]) == ([], [])
    assert answer["note"].startswith("consolidate begins no node: the load of a day is not known: give --peak FILE")
    assert emptied(drained(), calm, *day(nodes=4))["empty"] == []
    assert emptied(drained(), calm, "--set", "no_peak=false")["empty"] == []
    assert emptied(drained(), calm, "--set", "no_peak=true")["empty"] == ["n0"]
    assert emptied(drained(), calm, *day(cpu=0.65))["empty"] == []
    assert "note" not in emptied(drained(), calm, *day(cpu=0.65))


@pytest.mark.parametrize("content", [[], {"n0": 0.5}, {"n0": {"cpu": "much"}}, {"n0": {"cpu": 60}}])
def test_a_peak_of_another_form_is_refused(content: Any, files: Callable[[str, Any], str], ballast: Run) -> None:
    calm = watcher({f"n{i}": (10, 10) for i in range(5)})
    given = ["--cluster", files("c.json", drained()), "--metrics", files("m.json", calm)]
    code, _, err = ballast("plan", "consolidate", *given, "--peak", files("day.json", content))
    assert code == 1
    assert "--peak" in err
    assert "fractions of allocatable" in err


def quota(used: Any, hard: Any = "10", namespace: str = "shop") -> Answer:
    metadata = {"name": "small", "namespace": namespace}
    return {"kind": "ResourceQuota", "metadata": metadata, "status": {"hard": {"pods": hard}, "used": {"pods": used}}}


@pytest.mark.parametrize(
    ("more", "refused"),
    [(quota("9"), False), (quota("10"), True), (quota("12"), True), (quota("10", namespace="other"), False)],
)
def test_pods_of_a_full_quota_stay(plan: Plan, more: Answer, refused: bool) -> None:
    cluster = shop()
    answer = plan("rebalance", {**cluster, "items": [*cluster["items"], more]}, LOADS)
    assert ("returnable" in answer["refused"]) == refused == (not answer["steps"])


def test_a_quota_that_is_no_quantity_is_named(files: Callable[[str, Any], str], ballast: Run) -> None:
    cluster = shop()
    broken = files("c.json", {**cluster, "items": [*cluster["items"], quota("many")]})
    code, _, err = ballast("plan", "rebalance", "--cluster", broken, "--metrics", files("m.json", LOADS))
    assert code == 1
    assert "ResourceQuota" in err
    assert "many" in err


TIDY = (
    'tidy={"failed": {"minAge": "1h"}, "lifetime": {"maxAge": "30d", "selector": "app=old"}, '
    '"restarts": {"threshold": 50}}'
)


def untidy() -> Answer:
    """p0 has failed, p1 restarts again and again, p2 and p3 are older than 30 days, of which p2 has the label."""
    cluster = drained()
    for item in cluster["items"]:
        name = item["metadata"]["name"]
        if item["kind"] != "Pod":
            continue
        item["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z" if name in ("p0", "p2", "p3") else None
        if name == "p0":
            item["status"] = {"phase": "Failed", "reason": "Evicted"}
        elif name == "p1":
            item["status"]["containerStatuses"] = [{"name": "a", "restartCount": 40}]
            item["status"]["initContainerStatuses"] = [{"name": "b", "restartCount": 10}]
        elif name == "p2":
            item["metadata"].setdefault("labels", {})["app"] = "old"
    return cluster


def test_tidy_removes_failed_restarting_and_old_pods_wherever_they_come_back(plan: Plan) -> None:
    loads = watcher({f"n{i}": (0.2, 0.2) for i in range(5)})
    answer = plan("tidy", untidy(), loads, "--set", TIDY)
    assert [(step["pod"], step["from"], step["to"]) for step in answer["steps"]] == [
        ("shop/p0", "n0", None),
        ("shop/p1", "n1", None),
        ("shop/p2", "n2", None),
    ]
    reasons = [step["reason"] for step in answer["steps"]]
    assert reasons[:2] == ["it has failed", "its containers have restarted 50 times"]
    assert reasons[2].endswith("h old, more than 720.0 h")
    assert answer["before"] == answer["after"], "it moves no load that is known"
    assert plan("tidy", untidy(), loads)["steps"] == [], "nothing is removed unless the setting says so"


def test_tidy_keeps_replicas_but_takes_failed_pods_of_any_workload(plan: Plan) -> None:
    cluster = untidy()
    for item in cluster["items"]:
        if item["kind"] == "Deployment":
            item["spec"]["replicas"] = 1
    answer = plan("tidy", cluster, watcher({f"n{i}": (0.2, 0.2) for i in range(5)}), "--set", TIDY)
    assert [step["pod"] for step in answer["steps"]] == ["shop/p0"]
    assert answer["refused"] == {"single-replica": 2}


@pytest.mark.parametrize(
    "value",
    ['{"old": {}}', '{"failed": {"age": "1h"}}', '{"lifetime": {}}', '{"restarts": {"threshold": 0}}', "[1]", "5"],
)
def test_tidy_says_what_its_setting_may_be(value: str, files: Callable[[str, Any], str], ballast: Run) -> None:
    given = ["--cluster", files("c.json", untidy()), "--metrics", files("m.json", watcher({"n0": (0.2, 0.2)}))]
    code, _, err = ballast("plan", "tidy", *given, "--set", f"tidy={value}")
    assert code == 2
    assert "--set tidy" in err
    assert "expected a" in err
