"""`ballast rehearse --recording`: what it writes, what it says, and what it refuses."""

import json
import math
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from lab_tests.rehearse.worlds import BEGIN, GIB, RecordedPod, World, hot_world, noisy
from tests.worlds.commands import Run

KEYS = ["from", "to", "step", "nodes", "pods", "unknown", "runs", "advice"]
RUN_KEYS = [
    "name",
    "node_hours_above",
    "deviation",
    "load_p99",
    "concentration",
    "nodes_emptied",
    "node_hours_saved",
    "evictions",
    "label_writes",
    "refused",
    "power",
    "moves",
]


@pytest.fixture
def run(ballast: Run) -> Run:
    return partial(ballast, "rehearse")


def rehearsed(run: Run, folder: Path, *options: object) -> Any:
    code, out, err = run("--recording", folder, "-o", "json", *options)
    assert code == 0, err
    return json.loads(out)


def by_name(document: Any) -> dict[str, Any]:
    return {each["name"]: each for each in document["runs"]}


def test_a_rehearsal_has_the_documented_keys(run: Run, tmp_path: Path) -> None:
    document = rehearsed(run, hot_world(30).write(tmp_path / "recording"))
    assert list(document) == KEYS
    assert [each["name"] for each in document["runs"]] == ["as-it-was", "low-node-utilization", "today"]
    for each in document["runs"]:
        assert list(each) == RUN_KEYS
        assert list(each["evictions"]) == ["total", "by_planner", "most_of_one_workload", "by_workload"]
        estimates = [*each["node_hours_above"].values(), *each["deviation"].values(), each["load_p99"]]
        assert all(number["low"] <= number["value"] <= number["high"] for number in estimates)
        assert list(each["node_hours_above"]) == ["0.8", "0.9"]
        assert list(each["deviation"]) == ["cpu", "memory"]
    assert (document["nodes"], document["pods"], document["step"]) == (4, 49, 60)
    assert (document["from"], document["to"]) == ("2025-10-09T08:54:00Z", "2025-10-09T09:24:00Z")
    assert document["advice"] is None


def test_as_it_was_is_what_was_recorded(run: Run, tmp_path: Path) -> None:
    """n1 is above 90 % at each of 31 times, and counts a minute for each."""
    was = by_name(rehearsed(run, hot_world(30).write(tmp_path)))["as-it-was"]
    assert was["node_hours_above"]["0.8"]["value"] == pytest.approx(31 / 60, abs=1e-6)
    assert was["node_hours_above"]["0.9"]["value"] == pytest.approx(31 / 60, abs=1e-6)
    spread = ((0.95 - 0.3125) ** 2 + 3 * (0.1 - 0.3125) ** 2) / 4
    assert was["deviation"]["cpu"]["value"] == pytest.approx(spread**0.5, abs=1e-6)
    assert was["concentration"] == 4
    assert was["load_p99"]["value"] == pytest.approx(0.95 - 0.03 * (0.95 - 0.1), abs=1e-6)
    assert was["evictions"] == {"total": 0, "by_planner": {}, "most_of_one_workload": 0, "by_workload": {}}
    assert (was["nodes_emptied"], was["node_hours_saved"]["value"]) == (0, 0.0)
    assert (was["label_writes"], was["refused"]) == (0, {})


def test_ballast_cools_the_hot_node(run: Run, tmp_path: Path) -> None:
    runs = by_name(rehearsed(run, hot_world().write(tmp_path)))
    was, today = runs["as-it-was"], runs["today"]
    assert today["node_hours_above"]["0.8"]["value"] < 0.5 * was["node_hours_above"]["0.8"]["value"]
    assert today["deviation"]["cpu"]["value"] < was["deviation"]["cpu"]["value"]
    assert today["evictions"]["total"] == sum(today["evictions"]["by_planner"].values()) > 0
    assert "relieve" in today["evictions"]["by_planner"]
    assert today["label_writes"] > 0
    assert today["refused"]


def test_the_descheduler_evicts_until_the_node_is_below(run: Run, tmp_path: Path) -> None:
    """3 pods of half a core bring 95 % to 80 %; they land on nodes that have least requested."""
    descheduler = by_name(rehearsed(run, hot_world(30).write(tmp_path)))["low-node-utilization"]
    assert descheduler["evictions"]["by_planner"] == {"low-node-utilization": 3}
    assert descheduler["node_hours_above"]["0.8"]["value"] == pytest.approx(1 / 60, abs=1e-6)


def test_evictions_are_counted_by_workload(run: Run, tmp_path: Path) -> None:
    for each in rehearsed(run, hot_world().write(tmp_path))["runs"]:
        evictions = each["evictions"]
        assert sum(evictions["by_workload"].values()) == evictions["total"]
        assert max(evictions["by_workload"].values(), default=0) == evictions["most_of_one_workload"]
        assert all(name.startswith("default/Deployment/w") for name in evictions["by_workload"])


def test_pods_that_end_leave_a_node_empty_but_for_daemon_sets(run: Run, tmp_path: Path) -> None:
    """n2's only other pod ends after ten minutes, as it did in every run: nothing is saved by anybody."""
    pods = [RecordedPod(f"agent-{node}", node, 0.1, workload="agent", kind="DaemonSet") for node in ("n1", "n2")]
    pods += [RecordedPod("a", "n1"), RecordedPod("b", "n2", end=600.0)]
    for each in rehearsed(run, World(pods, nodes=("n1", "n2"), minutes=30).write(tmp_path))["runs"]:
        assert each["nodes_emptied"] == 1
        assert each["node_hours_saved"] == {"value": 0.0, "low": 0.0, "high": 0.0}


def test_an_emptied_node_saves_its_hours(run: Run, tmp_path: Path) -> None:
    """Nine of ten nodes are nearly empty: `consolidate` empties some of them, and the hours count from then on."""
    (tmp_path / "tight.yaml").write_text(
        "eviction: {planners: [consolidate], rate: 100/10m, limit_total: 100%, limit_node: 100%, workload_window: 1m, "
        "limit_namespace: 100%, limit_workload: 100%}\n"
    )
    nodes = [f"n{number}" for number in range(5)]
    pods = [
        RecordedPod(f"w{number}-{node}", node, 0.2, workload=f"w{number}", requests=(0.5, GIB))
        for node in nodes
        for number in range(3)
    ]
    world = World(pods, nodes=nodes, minutes=26 * 60, step=180.0)
    run_of = by_name(
        rehearsed(run, world.write(tmp_path / "r"), "--settings", tmp_path / "tight.yaml", "--step", "180s")
    )["tight"]
    assert run_of["nodes_emptied"] >= 1
    assert run_of["node_hours_saved"]["value"] > 0
    assert run_of["evictions"]["by_planner"] == {"consolidate": run_of["evictions"]["total"]}


def test_limits_hold_back_the_pods_of_a_node_that_is_emptied(run: Run, tmp_path: Path) -> None:
    """Three pods leave a node in one plan; a rate of two in ten minutes lets two go."""
    (tmp_path / "slow.yaml").write_text(
        "eviction: {planners: [consolidate], rate: 2/10m, rate_shares: {}, limit_total: 100%, limit_node: 100%, "
        "workload_window: 1m, limit_namespace: 100%, limit_workload: 100%}\n"
    )
    nodes = [f"n{number}" for number in range(5)]
    pods = [
        RecordedPod(f"w{number}-{node}", node, 0.2, workload=f"w{number}", requests=(0.5, GIB))
        for node in nodes
        for number in range(3)
    ]
    world = World(pods, nodes=nodes, minutes=24 * 60 + 30, step=180.0)
    run_of = by_name(
        rehearsed(run, world.write(tmp_path / "r"), "--settings", tmp_path / "slow.yaml", "--step", "180s")
    )["slow"]
    assert 2 <= run_of["evictions"]["total"] <= 6, "without the rate it is nine"


def test_parts_that_are_off_do_nothing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "quiet.yaml").write_text("eviction: {mode: off}\npublishing: {mode: off}\n")
    document = rehearsed(run, hot_world(30).write(tmp_path / "r"), "--settings", tmp_path / "quiet.yaml")
    runs = by_name(document)
    assert list(runs) == ["as-it-was", "low-node-utilization", "quiet"]
    assert {**runs["quiet"], "name": "as-it-was"} == runs["as-it-was"]


@pytest.mark.parametrize(("pods", "planners"), [(19, ["relieve"]), (17, [])])
def test_without_landing_only_overloaded_nodes_are_relieved(
    run: Run, tmp_path: Path, pods: int, planners: list[str]
) -> None:
    """n1 is at 95 %: pods leave it at once, for wherever the stock scheduler puts them. At 85 % they stay."""
    (tmp_path / "none.yaml").write_text("eviction: {landing: none}\n")
    world = hot_world(pods=pods).write(tmp_path / "r")
    none = by_name(rehearsed(run, world, "--settings", tmp_path / "none.yaml"))["none"]
    assert list(none["evictions"]["by_planner"]) == planners
    assert none["node_hours_above"]["0.9"]["value"] < 0.5
    assert (none["node_hours_above"]["0.8"]["value"] > 1) is not bool(planners)


def test_several_settings_are_compared(run: Run, tmp_path: Path) -> None:
    (tmp_path / "careful.yaml").write_text("eviction: {rate: 2/1h}\n")
    (tmp_path / "eager.yaml").write_text("eviction: {rate: 100/1h, high: 0.7}\n")
    paths = [part for name in ("careful", "eager") for part in ("--settings", tmp_path / f"{name}.yaml")]
    runs = by_name(rehearsed(run, hot_world().write(tmp_path / "r"), *paths))
    assert runs["careful"]["evictions"]["total"] < runs["eager"]["evictions"]["total"]


def test_the_same_input_gives_the_same_bytes(run: Run, tmp_path: Path) -> None:
    hot_world(40).write(tmp_path / "r")
    bodies = []
    for name in ("a", "b"):
        assert run("--recording", tmp_path / "r", "--out", tmp_path / name)[0] == 0
        bodies.append((tmp_path / name / "rehearsal.json").read_bytes())
        bodies.append((tmp_path / name / "report.html").read_bytes())
    assert bodies[:2] == bodies[2:]


def test_parquet_and_csv_say_the_same(run: Run, tmp_path: Path) -> None:
    hot_world(40).write(tmp_path / "csv")
    hot_world(40).write(tmp_path / "parquet", "parquet")
    assert rehearsed(run, tmp_path / "csv") == rehearsed(run, tmp_path / "parquet")


def test_the_summary_has_at_most_ten_lines(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("--recording", hot_world(40).write(tmp_path), "--out", tmp_path / "out")
    lines = out.splitlines()
    assert code == 0
    assert len(lines) <= 10
    assert lines[0] == "40.0 minutes, 4 nodes, 49 pods, from 2025-10-09T08:54:00Z to 2025-10-09T09:34:00Z."
    assert lines[1].startswith("As it was, 0.7 node-hours were above 80 %")
    assert str(tmp_path / "out" / "report.html") in lines[-1]


class Links(HTMLParser):
    """What a page would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href", "data", "srcset")]


def test_the_report_stands_alone(run: Run, tmp_path: Path) -> None:
    run("--recording", hot_world(40).write(tmp_path / "r"), "--out", tmp_path)
    page = (tmp_path / "report.html").read_text()
    links = Links()
    links.feed(page)
    assert links.fetched == []
    assert "{{" not in page
    assert "@import" not in page
    assert "url(" not in page
    assert "Node-hours above 80 %" in page


def test_a_pod_that_ends_takes_its_use_away(run: Run, tmp_path: Path) -> None:
    """After the hot pods have ended as they did, both runs are as calm."""
    world = hot_world(120)
    for pod in world.pods[:19]:
        pod.end = 3600.0
    runs = by_name(rehearsed(run, world.write(tmp_path), "--from", BEGIN + 3600))
    assert runs["today"]["node_hours_above"] == runs["as-it-was"]["node_hours_above"]
    assert runs["as-it-was"]["node_hours_above"]["0.8"]["value"] == 0


def test_silent_nodes_are_named_and_do_not_count(run: Run, tmp_path: Path) -> None:
    world = hot_world(60)
    world.silent = {"n1": (600.0, 3700.0)}
    document = rehearsed(run, world.write(tmp_path))
    [missing] = [each for each in document["unknown"] if each["what"].startswith("load of nodes")]
    assert missing["share"] == pytest.approx(50 / 244, abs=0.01)
    assert by_name(document)["as-it-was"]["node_hours_above"]["0.8"]["value"] == pytest.approx(11 / 60, abs=0.02)


@pytest.mark.parametrize("impossible", ["nan", "inf", "-inf", "-5"])
def test_use_that_cannot_be_is_unknown(run: Run, tmp_path: Path, impossible: str) -> None:
    """Of n1 in every second minute, and of all its pods always."""
    folder = hot_world(60).write(tmp_path)
    for table, row in (("node_usage", "n1"), ("pod_usage", "default/w")):
        head, *lines = (folder / f"{table}.csv").read_text().splitlines()
        lines = [
            ",".join([*line.split(",")[:2], impossible, impossible])
            if line.split(",")[1].startswith(row) and (table == "pod_usage" or int(line.split(".")[0]) // 60 % 2)
            else line
            for line in lines
        ]
        (folder / f"{table}.csv").write_text("\n".join([head, *lines]))
    document = rehearsed(run, folder)
    shares = {each["what"].partition(":")[0]: each["share"] for each in document["unknown"]}
    assert shares["use of pods"] == 1.0
    assert all(math.isfinite(run["deviation"]["cpu"]["value"]) for run in document["runs"])


def test_pods_on_nodes_that_are_not_listed_are_named(run: Run, tmp_path: Path) -> None:
    world = hot_world(20)
    world.pods.append(RecordedPod("astray", "gone"))
    document = rehearsed(run, world.write(tmp_path))
    [left_out] = [each for each in document["unknown"] if each["what"].startswith("pods on nodes")]
    assert left_out["share"] == 0.02
    assert document["pods"] == 49


def test_samples_that_are_far_apart_are_held_and_it_is_said(run: Run, tmp_path: Path) -> None:
    world = hot_world(120)
    world.step = 300.0
    document = rehearsed(run, world.write(tmp_path))
    assert by_name(document)["as-it-was"]["node_hours_above"]["0.8"]["value"] == pytest.approx(121 / 60, abs=0.01)
    assert any(each["what"].startswith("use between samples") for each in document["unknown"])


def test_noise_alone_moves_nothing(run: Run, tmp_path: Path) -> None:
    pods = [
        RecordedPod(f"a{number}-{node}", node, workload=f"a{number}", use=noisy(0.5, 2e9, number * 10 + row))
        for row, node in enumerate(("n1", "n2", "n3", "n4"))
        for number in range(8)
    ]
    runs = by_name(rehearsed(run, World(pods, minutes=90).write(tmp_path)))
    assert runs["today"]["evictions"]["total"] == 0


def test_advice_keeps_its_bound_and_is_clearly_better(run: Run, tmp_path: Path) -> None:
    """Today's settings see no node as hot; the grid does."""
    (tmp_path / "blind.yaml").write_text("eviction: {high: 0.99, low: 0.97, target_high: 0.98, planners: relieve}\n")
    folder = hot_world(90).write(tmp_path / "r")
    document = rehearsed(run, folder, "--settings", tmp_path / "blind.yaml", "--at-most", "6/d", "--out", tmp_path)
    advice = document["advice"]
    assert list(advice) == ["settings", "why"]
    assert int(advice["settings"]["BALLAST_EVICTION__RATE"].removesuffix("/1d")) <= 6
    assert float(advice["settings"]["BALLAST_EVICTION__HIGH"]) <= 0.9
    assert "fewer" in advice["why"]
    assert [each["name"] for each in document["runs"]] == ["as-it-was", "low-node-utilization", "blind"]
    page = (tmp_path / "report.html").read_text()
    assert f"BALLAST_EVICTION__HIGH={advice['settings']['BALLAST_EVICTION__HIGH']}" in page
    assert "settings:\n  eviction:\n    high:" in page


def test_advice_is_the_same_from_several_processes(run: Run, tmp_path: Path) -> None:
    folder = hot_world(30).write(tmp_path)
    options = ("--recording", folder, "--at-most", "6/d", "-o", "json")
    assert run(*options, "--jobs", "2") == run(*options)


def test_advice_keeps_the_settings_where_nothing_is_hot(run: Run, tmp_path: Path) -> None:
    pods = [RecordedPod(f"a{row}", node, workload="a") for row, node in enumerate(("n1", "n2", "n3", "n4"))]
    advice = rehearsed(run, World(pods, minutes=60).write(tmp_path), "--at-most", "10/d")["advice"]
    assert advice["settings"] == {}
    assert advice["why"].startswith("nothing in the grid is clearly better")


def test_moves_replayed_on_the_recording_give_the_figures(run: Run, tmp_path: Path) -> None:
    """Each run of one hot node: the pods use half a core, and are where the moves say from the step after on."""
    world = hot_world()
    document = rehearsed(run, world.write(tmp_path))
    for each in document["runs"]:
        assert len(each["moves"]) == each["evictions"]["total"]
        place, hot = {pod.title: pod.node for pod in world.pods}, 0
        moves = sorted(each["moves"], key=lambda move: move["time"])
        for minute in range(121):
            now = BEGIN + 60 * minute
            while moves and moves[0]["time"] < now:
                move = moves.pop(0)
                assert (place[move["pod"]], move["planner"] != "") == (move["from"], True)
                place[move["pod"]] = move["to"]
            loads = [sum(pod.cpu for pod in world.pods if place[pod.title] == node) / 10 for node in world.nodes]
            hot += sum(load > 0.8 + 1e-9 for load in loads)
        assert each["node_hours_above"]["0.8"]["value"] == pytest.approx(hot / 60, rel=0.02), each["name"]


def test_what_was_recorded_before_fills_the_windows(run: Run, tmp_path: Path) -> None:
    """With an hour before it Ballast acts in the first minute, as a daemon that reads its past."""
    folder = hot_world().write(tmp_path)
    late, soon = (
        by_name(rehearsed(run, folder, *span))["today"]["moves"][0]["time"]
        for span in ((), ("--from", str(BEGIN + 3600)))
    )
    assert soon - (BEGIN + 3600) < late - BEGIN
