"""What `ballast plan` does with unusual, bad and missing input."""

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from ballast.planners.built_in import BUILT_IN
from tests.properties import examples
from tests.unit.cli.planning.conftest import LOADS, Answer, Plan, crowd, shop
from tests.worlds.commands import Run
from tests.worlds.printed import budget, listed, node, pod, pod_metrics, watcher, workload


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
    kind: str, files: Callable[[str, Any], str], ballast: Run
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


@pytest.mark.parametrize("kind", [planner.name for planner in BUILT_IN])
def test_a_seed_decides_nothing_and_is_not_offered(kind: str, ballast: Run) -> None:
    code, out, _ = ballast("plan", kind, "--help")
    assert code == 0
    assert "--max-moves" in out
    assert "--seed" not in out


def test_missing_kinds_are_warned_of_once(files: Callable[[str, Any], str], ballast: Run) -> None:
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


def test_a_pause_is_warned_of_and_does_not_stop_a_plan(files: Callable[[str, Any], str], ballast: Run) -> None:
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
    cluster: Any, metrics: Any, code: int, message: str, files: Callable[[str, Any], str], ballast: Run
) -> None:
    given = ["--cluster", files("c.json", cluster), "--metrics", files("m.json", metrics)]
    found, out, err = ballast("plan", "rebalance", *given)
    assert (found, out) == (code, "")
    assert message in err


JUNK = (None, "x", 1, True, [], [None], ["x"], {"a": None})


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_junk_anywhere_is_a_plan_or_a_clear_error(
    data: st.DataObject, files: Callable[[str, Any], str], ballast: Run
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
    options: tuple[str, ...], message: str, files: Callable[[str, Any], str], ballast: Run
) -> None:
    given = ["--cluster", files("c.json", shop()), "--metrics", files("m.json", LOADS)]
    code, _, err = ballast("plan", "rebalance", *given, *options)
    assert code == 2
    assert message in err


def test_an_unknown_variable_stops_a_plan(
    monkeypatch: pytest.MonkeyPatch, files: Callable[[str, Any], str], ballast: Run
) -> None:
    monkeypatch.setenv("BALLAST_EVICTION__HIHG", "0.5")
    code, _, err = ballast("plan", "rebalance", "--cluster", files("c", shop()), "--metrics", files("m", LOADS))
    assert code == 2
    assert "BALLAST_EVICTION__HIGH" in err
