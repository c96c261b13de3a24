"""`ballast explain`, and plans of a cluster itself or of its daemon."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from typer.testing import CliRunner

from ballast.base.metrics import Metrics
from ballast.cli.app import app
from ballast.cli.observing import remote
from ballast.cluster.client import connect
from ballast.eviction.gate import NAMES
from ballast.settings import load as load_settings
from ballast_lab.simulator import EmbeddedCluster, World
from tests.worlds.clock import FakeClock
from tests.worlds.commands import Run
from tests.worlds.printed import budget, listed, node, pod, watcher, workload


@pytest.fixture
def explained(tmp_path: Path, ballast: Run) -> Callable[..., dict[str, Any]]:
    def run(name: str, *objects: Any, options: tuple[str, ...] = ()) -> dict[str, Any]:
        cluster, metrics = tmp_path / "c.json", tmp_path / "m.json"
        nodes = [each for each in objects if isinstance(each, dict) and each["kind"] == "Node"]
        cluster.write_text(json.dumps(listed(*objects)))
        metrics.write_text(json.dumps(watcher({each["metadata"]["name"]: (30, 30) for each in nodes})))
        given = ["--cluster", str(cluster), "--metrics", str(metrics), "-o", "json"]
        code, out, err = ballast("explain", name, *given, *options)
        assert code == 0, err
        answer: dict[str, Any] = json.loads(out)
        assert list(answer) == ["pod", "node", "workload", "allowed", "checks", "notes", "targets", "pending"]
        assert [each["check"] for each in answer["checks"]] == list(NAMES)
        assert [each["number"] for each in answer["checks"]] == list(range(1, len(NAMES) + 1))
        return answer

    return run


def refused(answer: dict[str, Any]) -> dict[str, str]:
    return {each["check"]: each["reason"] for each in answer["checks"] if each["verdict"] == "refused"}


PLAIN = (node("n1"), node("n2"), pod("a", "1", on="n1"), pod("b", "1", on="n2"), *workload("web", 2))


def test_a_pod_that_may_be_moved(explained: Callable[..., dict[str, Any]]) -> None:
    answer = explained("shop/a", *PLAIN)
    assert answer["allowed"] is True
    assert (answer["node"], answer["workload"], answer["notes"]) == ("n1", "Deployment shop/web", [])
    assert refused(answer) == {}


def test_it_counts_why_other_nodes_are_no_targets_and_names_the_best(explained: Callable[..., dict[str, Any]]) -> None:
    cluster = (
        node("n1"),
        node("n2"),
        node("n3"),
        node("full", cpu="500m"),
        node("tainted", spec={"taints": [{"key": "a", "effect": "NoSchedule"}]}),
        node("down", ready=False),
        pod("a", "1", on="n1"),
        pod("b", "10m", on="n2"),
        *workload("web", 2),
    )
    targets = explained("shop/a", *cluster)["targets"]
    assert targets["feasible"] == 1
    assert targets["why_not"] == {
        "has a pod of its workload": 1,
        "Insufficient cpu": 1,
        "node selector, affinity or taints": 1,
        "not Ready": 1,
    }
    best = targets["best"]
    assert best is None or (set(best) == {"node", "gain", "gain_error", "cost", "pays"} and best["node"] == "n3")


def test_a_pending_pod_is_told_why_no_node_takes_it(explained: Callable[..., dict[str, Any]]) -> None:
    waiting = pod("w", "11", owner="w")
    cluster = (node("n1"), node("n2"), node("down", ready=False), waiting, *workload("w", 2))
    answer = explained("shop/w", *cluster)
    assert answer["pending"] == {"why_not": {"Insufficient cpu": 2, "not Ready": 1}, "gated": False}
    assert answer["targets"] is None
    assert explained("shop/a", *PLAIN)["pending"] is None


@pytest.mark.parametrize(("cpu", "why_not"), [("11", {"Insufficient cpu": 2}), ("1", {})])
def test_a_gated_pod_is_told_what_would_keep_it_pending(
    explained: Callable[..., dict[str, Any]], cpu: str, why_not: dict[str, int]
) -> None:
    gated = pod("w", cpu, owner="w", spec={"schedulingGates": [{"name": "example.com/wait"}]})
    answer = explained("shop/w", node("n1"), node("n2"), gated, *workload("w", 1))
    assert answer["pending"] == {"why_not": why_not, "gated": True}
    assert answer["node"] is None


@pytest.mark.parametrize("cpu", [90, 32])
def test_whether_the_best_move_pays_is_what_the_plan_says(tmp_path: Path, ballast: Run, cpu: int) -> None:
    objects = listed(
        *(node(f"n{row}") for row in range(4)), pod("a", "1", on="n0"), pod("b", "1", on="n1"), *workload("web", 2)
    )
    loads = watcher({"n0": (cpu, 30), "n1": (30, 30), "n2": (30, 30), "n3": (30, 30)})
    given = []
    for option, content in (("--cluster", objects), ("--metrics", loads)):
        path = tmp_path / f"{option[2:]}.json"
        path.write_text(json.dumps(content))
        given += [option, str(path)]
    options = ("--set", "target_high=0.95", "--set", "high=0.97")
    _, out, _ = ballast("explain", "shop/a", *given, *options, "-o", "json")
    answer = json.loads(out)
    _, out, _ = ballast("plan", "rebalance", *given, *options, "-o", "json")
    planned = [step for step in json.loads(out)["steps"] if step["pod"] == "shop/a"]
    best = answer["targets"]["best"]
    assert bool(planned) == (best is not None and best["pays"])
    assert ("gain" in refused(answer)) == (best is not None and not best["pays"])
    for step in planned:
        assert best["gain"] == pytest.approx(step["gain"])
        assert best["cost"] == pytest.approx(step["cost"])
        assert best["gain_error"] == pytest.approx(step["gain_error"])


def test_all_that_keeps_a_pod_where_it_is_with_its_numbers(explained: Callable[..., dict[str, Any]]) -> None:
    spec = {"volumes": [{"name": "data", "hostPath": {"path": "/data"}}]}
    crowded = node("n2", cpu="1")
    found = explained(
        "shop/a",
        node("n1"),
        crowded,
        pod("a", "2", on="n1", spec=spec),
        pod("b", "1", on="n2"),
        *workload("web", 2),
        budget("one", "web", 0),
        options=("--set", "min_replicas=3"),
    )
    assert found["allowed"] is False
    reasons = refused(found)
    assert list(reasons) == ["local-storage", "pdb", "node-fit", "single-replica"]
    assert reasons["pdb"] == "disruption budget one is used up"
    budgets = next(each for each in found["checks"] if each["check"] == "pdb")
    assert budgets["numbers"] == {"allowed": 0, "planned": 0}


def test_a_pod_of_unknown_use_is_stale_however_much_room_there_is(explained: Callable[..., dict[str, Any]]) -> None:
    answer = explained(
        "shop/a", node("n1"), node("n2"), pod("a", "0", on="n1"), pod("b", "1", on="n2"), *workload("web", 2)
    )
    assert refused(answer) == {"stale": "its resource usage is unknown"}


def test_room_on_nodes_that_would_be_too_loaded_has_its_own_reason(explained: Callable[..., dict[str, Any]]) -> None:
    answer = explained("shop/a", *PLAIN, options=("--set", "target_high=0.35"))
    assert refused(answer) == {"node-fit": "all other nodes that have room for it would be too loaded"}


@pytest.mark.parametrize(
    ("objects", "tool"),
    [
        ((node("n1", ready=False), node("n2"), pod("a", "1", on="n1")), "node lifecycle controller"),
        (
            (node("n1", spec={"taints": [{"key": "old", "effect": "NoSchedule"}]}), node("n2"), pod("a", "1", on="n1")),
            "does not tolerate the taints of n1: the planner `repair` moves such pods",
        ),
        (
            (node("n1"), node("n2"), pod("a", "1", on="n1", spec={"nodeSelector": {"disk": "fast"}})),
            "n1 is none of the nodes it asks for: the planner `repair` moves such pods",
        ),
    ],
)
def test_what_others_see_to_is_named(
    explained: Callable[..., dict[str, Any]], objects: tuple[Any, ...], tool: str
) -> None:
    assert tool in " ".join(explained("shop/a", *objects, *workload("web", 2))["notes"])


def test_pods_that_repel_one_another_are_named(explained: Callable[..., dict[str, Any]]) -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
    apart = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    hosts = [node(f"n{i}", metadata={"labels": {"kubernetes.io/hostname": f"n{i}"}}) for i in (1, 2)]
    together = [pod(name, "1", on="n1", spec=apart) for name in ("a", "b")]
    assert "anti-affinity" in explained("shop/a", *hosts, *together, *workload("web", 2))["notes"][0]


def test_a_waiting_pod_is_nowhere(explained: Callable[..., dict[str, Any]]) -> None:
    answer = explained("shop/w", *PLAIN, pod("w", "1"))
    assert answer["allowed"] is False
    assert "not on a node" in answer["notes"][0]


def test_a_table_says_it_in_one_line_first(tmp_path: Path, ballast: Run) -> None:
    (tmp_path / "c.json").write_text(json.dumps(listed(*PLAIN)))
    (tmp_path / "m.json").write_text(json.dumps(watcher({"n1": 30, "n2": 30})))
    files = ["--cluster", str(tmp_path / "c.json"), "--metrics", str(tmp_path / "m.json")]
    code, out, _ = ballast("explain", "shop/a", *files)
    lines = out.splitlines()
    assert (code, lines[0]) == (0, "shop/a on n1 of Deployment shop/web may be moved.")
    assert [line.split()[1] for line in lines if line.split()[0].isdigit()] == list(NAMES)
    code, out, _ = ballast("explain", "shop/a", *files, "--set", "min_replicas=3")
    assert out.splitlines()[0].endswith("may not be moved: single-replica.")
    assert "(replicas 2, at least 3)" in " ".join(out.split())


def test_a_pod_that_is_not_there_is_an_error(tmp_path: Path, ballast: Run) -> None:
    (tmp_path / "c.json").write_text(json.dumps(listed(*PLAIN)))
    (tmp_path / "m.json").write_text(json.dumps(watcher({"n1": 30})))
    files = ["--cluster", str(tmp_path / "c.json"), "--metrics", str(tmp_path / "m.json")]
    code, _, err = ballast("explain", "shop/none", *files)
    assert (code, err.strip().splitlines()[-1][:19]) == (1, "shop/none: there is")
    code, _, err = ballast("explain", "none", *files)
    assert code == 2
    assert "NAMESPACE/POD" in err


@pytest.mark.parametrize(
    "command",
    [
        ("plan", "relieve"),
        *(
            (*command, *options)
            for command in (("plan", "relieve"), ("explain", "shop/a"))
            for options in (("--cluster", "c.json", "--live"), ("--cluster", "c.json"), ("--set", "min_replicas=1"))
        ),
    ],
)
def test_a_cluster_and_its_load_are_needed(ballast: Run, command: tuple[str, ...]) -> None:
    code, _, err = ballast(*command)
    assert code == 2
    assert "Give --" in err


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(World(6, 1, FakeClock(wall=1_700_000_000.0), scene="calm")) as one:
        yield one


@pytest.fixture
def kubeconfig(cluster: EmbeddedCluster, tmp_path: Path) -> str:
    return str(cluster.kubeconfig(tmp_path / "kubeconfig"))


@pytest.fixture
def load(cluster: EmbeddedCluster, tmp_path: Path) -> str:
    path = tmp_path / "m.json"
    path.write_text(
        json.dumps(watcher({name: (95.0 if i == 0 else 10.0, 30.0) for i, name in enumerate(cluster.world.node_names)}))
    )
    return str(path)


def test_a_plan_of_a_cluster_itself(ballast: Run, kubeconfig: str, load: str) -> None:
    code, out, err = ballast("plan", "relieve", "--kubeconfig", kubeconfig, "--metrics", load, "-o", "json")
    assert code == 0, err
    assert {step["from"] for step in json.loads(out)["steps"]} == {"node-000"}


def test_a_placement_of_a_cluster_itself(
    ballast: Run, cluster: EmbeddedCluster, kubeconfig: str, load: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ("plan", "place", "--metrics", load, "--seconds", "0", "-o", "json")
    code, out, err = ballast(*given, "--kubeconfig", kubeconfig)
    assert code == 0, err
    answer = json.loads(out)
    assert set(answer["placement"].values()) <= set(cluster.world.node_names)
    assert answer["objective"]["value"] < answer["before"]["value"]
    monkeypatch.setenv("BALLAST_CLUSTER__KUBECONFIG", kubeconfig)
    code, out, err = ballast(*given, "--live")
    assert code == 0, err
    assert json.loads(out)["placement"] == answer["placement"]


def test_a_pause_of_a_cluster_itself_is_warned_of(
    ballast: Run, cluster: EmbeddedCluster, kubeconfig: str, load: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    switches = "/api/v1/namespaces/ballast/configmaps"
    api = connect(load_settings({"BALLAST_CLUSTER__KUBECONFIG": kubeconfig}).cluster, Metrics())
    named = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ballast-switches"}}
    monkeypatch.setenv("POD_NAMESPACE", "ballast")
    given = ("plan", "relieve", "--kubeconfig", kubeconfig, "--metrics", load)
    assert "paused" not in ballast(*given)[2]
    api.request("POST", switches, body={**named, "data": {"paused.eviction": "true"}})
    try:
        assert "warning: evictions are paused by paused.eviction of ConfigMap ballast-switches." in ballast(*given)[2]
    finally:
        api.request("DELETE", f"{switches}/ballast-switches")
        api.close()


def test_a_pod_of_a_cluster_itself(
    ballast: Run, cluster: EmbeddedCluster, kubeconfig: str, load: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace, name = next(key for key in sorted(cluster.world.members) if key[0] == "shop")
    monkeypatch.setenv("BALLAST_CLUSTER__KUBECONFIG", kubeconfig)
    code, out, err = ballast("explain", f"{namespace}/{name}", "--live", "--metrics", load, "-o", "json")
    assert code == 0, err
    assert json.loads(out)["workload"].split()[0] in ("Deployment", "StatefulSet")


def test_without_a_daemon_in_the_cluster_there_is_no_load(ballast: Run, kubeconfig: str) -> None:
    code, _, err = ballast("plan", "relieve", "--kubeconfig", kubeconfig)
    assert code == 1
    assert "No Ballast was found in any namespace" in err
    code, _, err = ballast("plan", "relieve", "--kubeconfig", kubeconfig, "-n", "shop")
    assert code == 1
    assert "namespaces/shop/services/ballast:2020/proxy/watcher" in err


PLAN = {
    "kind": "relieve",
    "steps": [{"pod": "shop/a", "from": "n1", "to": None, "gain": 0.1, "reason": "n1 is hot"}],
    "before": {"cpu": 0.2},
    "after": {"cpu": 0.1},
    "refused": {"pdb": 3},
    "placed": [],
    "id": "later",
    "time": 1_700_000_100.0,
    "mode": "dry-run",
    "verdicts": [],
    "sentence": "relieve: would evict 1 of 1 pod",
}


def test_what_a_daemon_planned_last(ballast: Run, httpserver: HTTPServer) -> None:
    plans = [PLAN, {**PLAN, "id": "earlier", "time": 1.0}, {**PLAN, "id": "other", "kind": "rebalance"}]
    httpserver.expect_request("/api/v1/status").respond_with_json({"modes": {}})
    httpserver.expect_request("/api/v1/plans").respond_with_json(plans)
    address = httpserver.url_for("/")
    code, out, err = ballast("plan", "relieve", "--url", address, "-o", "json")
    assert code == 0, err
    assert json.loads(out)["id"] == "later"
    code, out, _ = ballast("plan", "relieve", "--url", address)
    assert out.startswith("2023-11-14 22:15:00 UTC, dry-run: relieve: would evict 1 of 1 pod")
    code, _, err = ballast("plan", "redistribute", "--url", address)
    assert code == 1
    assert "has made no plan to redistribute yet" in err
    code, _, err = ballast("plan", "relieve", "--url", address, "--max-moves", "3")
    assert code == 2


def test_a_url_without_a_daemon_is_an_error(ballast: Run, httpserver: HTTPServer) -> None:
    httpserver.expect_request("/api/v1/plans").respond_with_data("<html>")
    code, _, err = ballast("plan", "relieve", "--url", httpserver.url_for("/"))
    assert code == 1
    assert "no Ballast daemon answers there" in err
    code, _, err = ballast("plan", "relieve", "--url", "http://127.0.0.1:1")
    assert code == 1
    assert "no Ballast daemon answers there (no connection)" in err


ANSWER = {
    "pod": "shop/web-0",
    "node": "node-1",
    "workload": "Deployment shop/web",
    "allowed": False,
    "checks": [
        {"number": 1, "check": "mirror", "verdict": "allowed", "reason": "it is no mirror pod", "numbers": {}},
        {"number": 2, "check": "pdb", "verdict": "refused", "reason": "no disruption is left", "numbers": {"left": 0}},
    ],
    "notes": [],
}


def test_a_daemon_is_asked_what_its_checks_say(httpserver: HTTPServer, ballast: Run) -> None:
    httpserver.expect_request("/api/v1/status").respond_with_json({"modes": {}})
    httpserver.expect_request("/api/v1/pods/shop/web-0/explain").respond_with_json(ANSWER)
    url = httpserver.url_for("/")
    code, out, _ = ballast("explain", "shop/web-0", "--url", url, "-o", "json")
    assert (code, json.loads(out)) == (0, ANSWER)
    code, out, _ = ballast("explain", "shop/web-0", "--url", url)
    assert code == 0
    assert "may not be moved: pdb" in out


def test_a_daemon_that_cannot_explain_says_why(httpserver: HTTPServer, ballast: Run) -> None:
    path = "/api/v1/pods/shop/web-0/explain"
    httpserver.expect_request("/api/v1/status").respond_with_json({"modes": {}})
    httpserver.expect_request(path).respond_with_json({"error": "no pod shop/web-0"}, status=404)
    code, _, err = ballast("explain", "shop/web-0", "--url", httpserver.url_for("/"))
    assert code == 1
    assert "no pod shop/web-0" in err
    code, _, err = ballast("explain", "shop/web-0", "--url", httpserver.url_for("/nowhere"))
    assert code == 1
    assert "no Ballast daemon answers there" in err
    code, _, err = ballast("explain", "shop/web-0", "--url", httpserver.url_for("/"), "--set", "min_replicas=1")
    assert code == 2


NODE = {
    "name": "node-5",
    "state": "known",
    "lost": [],
    "score": 3,
    "published": {"score": "0", "load": "high"},
    "windows": {"15m": {"cpu": {"mean": 0.96, "std": 0.01, "p95": 0.98}, "gpu": {"mean": None}}},
}
MOVED = {
    "pod": "shop/web-1",
    "from": "node-5",
    "to": "node-7",
    "landed_on": "node-7",
    "kind": "relieve",
    "time": 2.0,
    "why": "node-5 is at 96% of its cpu, above 80%",
    "status": "ready",
    "measured": {"share": 0.875},
    "plan": "relieve-1",
}


@pytest.fixture
def url(httpserver: HTTPServer) -> str:
    silent = {**NODE, "state": "silent", "lost": ["cpu"], "score": None, "published": {"score": None, "load": None}}
    documents: dict[str, Any] = {
        "/api/v1/status": {"version": "0.1.0", "modes": {}},
        "/api/v1/nodes/node-5": NODE,
        "/api/v1/nodes/node-5/score": {"strategy": "load-variation", "score": 3, "terms": {"cpu": 3.25}},
        "/api/v1/nodes/dark": {**silent, "name": "dark"},
        "/api/v1/nodes/dark/score": {"strategy": "load-variation", "score": None, "terms": {}},
        "/api/v1/evictions": {"recent": [{**MOVED, "time": 1.0, "plan": "relieve-0", "measured": {}}, MOVED]},
    }
    for path, document in documents.items():
        httpserver.expect_request(path).respond_with_json(document)
    for gone in ("/api/v1/nodes/nobody", "/api/v1/pods/shop/web-1/explain", "/api/v1/pods/shop/web-2/explain"):
        httpserver.expect_request(gone).respond_with_json({"error": "no such thing"}, status=404)
    return httpserver.url_for("").rstrip("/")


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["explain", *arguments])


def test_a_node_is_explained_by_the_terms_of_its_score(url: str) -> None:
    said = run("node-5", "--url", url)
    assert said.exit_code == 0, said.output
    assert "node-5 has score 3 of 100" in said.stdout
    assert "label score 0, load high" in said.stdout
    assert "load-variation: cpu 3.25" in said.stdout
    assert "cpu: mean 96.0%, deviation 1.0%, p95 98.0% over 15m" in said.stdout
    assert "gpu" not in said.stdout
    assert json.loads(run("node-5", "--url", url, "-o", "json").stdout)["terms"] == {"cpu": 3.25}
    assert "dark is silent, it lost cpu: its load is unknown, so it has no score" in run("dark", "--url", url).stdout


def test_a_pod_that_was_moved_says_why_the_newest_first(url: str) -> None:
    said = run("shop/web-1", "--url", url)
    assert said.exit_code == 0, said.output
    first, second = said.stdout.splitlines()
    assert "moved off node-5 by relieve, to node-7: node-5 is at 96% of its cpu, above 80%." in first
    assert "88% of what was predicted" in first
    assert "not measured yet" in second
    found = json.loads(run("shop/web-1", "--url", url, "-o", "json").stdout)
    assert [each["plan"] for each in found["evictions"]] == ["relieve-1", "relieve-0"]


@pytest.mark.parametrize("name", ["nobody", "shop/web-2"])
def test_what_nobody_knows_is_an_error(url: str, name: str) -> None:
    said = run(name, "--url", url)
    assert said.exit_code != 0
    assert said.exception is not None


def test_a_node_needs_a_daemon() -> None:
    said = run("node-5", "--live")
    assert "A node is explained by a daemon" in str(said.exception)


def test_without_other_input_the_daemon_is_found_as_by_status(httpserver: HTTPServer, monkeypatch: Any) -> None:
    monkeypatch.setattr(remote, "NEAR", httpserver.url_for("").rstrip("/"))
    httpserver.expect_request("/api/v1/status").respond_with_json({"modes": {}})
    httpserver.expect_request("/api/v1/pods/shop/web-0/explain").respond_with_json(ANSWER)
    said = run("shop/web-0")
    assert said.exit_code == 0
    assert "may not be moved: pdb" in said.stdout
