"""Recordings from Prometheus: what is asked, what is kept, and what is refused."""

import json
import math
import os
import shutil
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from ballast_lab.rehearse import recorder
from ballast_lab.rehearse.recording import open_recording
from lab_tests.rehearse.prometheus import READY_AFTER, TOO_FINE, TOO_MANY, FakePrometheus
from lab_tests.rehearse.worlds import BEGIN, World, hot_world
from tests.worlds.commands import Run

MINUTES = 150
SPAN = ("--from", BEGIN, "--to", BEGIN + MINUTES * 60)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def run(ballast: Run) -> Run:
    return partial(ballast, "rehearse")


@pytest.fixture
def prometheus(httpserver: HTTPServer) -> FakePrometheus:
    return FakePrometheus(httpserver, hot_world(MINUTES))


def cluster_file(world: World, path: Path) -> Path:
    """What kubectl would print."""
    amounts = {"cpu": f"{world.cores:g}", "memory": "40Gi", "pods": "110"}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    nodes = [{"kind": "Node", "metadata": {"name": name, "uid": name}, "status": status} for name in world.nodes]
    pods = [
        {
            "kind": "Pod",
            "metadata": {
                "name": pod.name,
                "namespace": pod.namespace,
                "uid": pod.name,
                "creationTimestamp": "2025-10-01T00:00:00Z",
                "ownerReferences": [
                    {"kind": "ReplicaSet", "name": pod.workload, "uid": pod.workload, "controller": True}
                ],
            },
            "spec": {"nodeName": pod.node, "containers": [{"resources": {"requests": {"cpu": "100m"}}}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }
        for pod in world.pods
    ]
    sets = [
        {
            "kind": "ReplicaSet",
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {"replicas": sum(pod.workload == name for pod in world.pods)},
        }
        for name in sorted({pod.workload for pod in world.pods})
    ]
    path.write_text(json.dumps({"kind": "List", "items": [*nodes, *pods, *sets]}))
    return path


def runs(document: Any) -> dict[str, Any]:
    return {each["name"]: each for each in document["runs"]}


def test_prometheus_is_rehearsed(run: Run, prometheus: FakePrometheus) -> None:
    code, out, err = run("--prometheus", prometheus.url, *SPAN, "-o", "json")
    assert code == 0, err
    document = json.loads(out)
    assert (document["nodes"], document["pods"]) == (4, 49)
    assert runs(document)["as-it-was"]["node_hours_above"]["0.9"]["value"] == pytest.approx(151 / 60, abs=0.02)
    assert runs(document)["today"]["evictions"]["total"] > 0
    assert any("kube-state-metrics does not say" in each["what"] for each in document["unknown"])


def test_a_recording_says_how_long_pods_took_to_be_ready(run: Run, prometheus: FakePrometheus, tmp_path: Path) -> None:
    assert run("record", "--prometheus", prometheus.url, *SPAN, "--out", tmp_path / "recording")[0] == 0
    restarts = open_recording(tmp_path / "recording").history.restarts
    assert restarts == {("default", "Deployment", f"w{number}"): READY_AFTER for number in range(5)}


def test_what_was_read_is_not_asked_again(run: Run, prometheus: FakePrometheus) -> None:
    first = run("--prometheus", prometheus.url, *SPAN, "-o", "json")[:2]
    prometheus.queries.clear()
    assert run("--prometheus", prometheus.url, *SPAN, "-o", "json")[:2] == first
    assert prometheus.queries
    assert all("kube_" in query for query, _ in prometheus.queries)


def test_a_recording_is_resumed_after_a_kill(
    run: Run, prometheus: FakePrometheus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second hour is being written when the process ends: the first stays, and a half part does not count."""
    out = tmp_path / "recording"
    written: list[Path] = []
    write = recorder.tables.write_part

    def stop(path: Path, *arguments: Any) -> None:
        if len(written) == 2:
            path.with_name(f"{path.name}.new").write_bytes(b"half")
            raise KeyboardInterrupt
        written.append(path)
        write(path, *arguments)

    monkeypatch.setattr(recorder.tables, "write_part", stop)
    assert run("record", "--prometheus", prometheus.url, *SPAN, "--out", out)[0] == 130
    kept = {path: path.stat().st_mtime_ns for path in written}
    monkeypatch.setattr(recorder.tables, "write_part", write)
    assert run("record", "--prometheus", prometheus.url, *SPAN, "--out", out)[0] == 0
    assert {path: path.stat().st_mtime_ns for path in written} == kept
    resumed = run("--recording", out, "-o", "json")
    whole = run("--prometheus", prometheus.url, *SPAN, "-o", "json")
    assert resumed[:2] == whole[:2]


@pytest.mark.slow
def test_the_cache_survives_a_kill(run: Run, prometheus: FakePrometheus, cache: Path, tmp_path: Path) -> None:
    """SIGKILL when the first part is there: the same command goes on, and says what it says without a kill."""
    command = [sys.executable, "-m", "ballast", "rehearse", "--prometheus", prometheus.url, *map(str, SPAN)]
    parts = "*/*_usage/*-*.parquet"
    prometheus.slowly = 0.05
    with subprocess.Popen(
        command, env={**os.environ, "XDG_CACHE_HOME": str(cache)}, stdout=subprocess.DEVNULL
    ) as process:
        while not list(cache.rglob(parts)):
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
    kept = {path: path.stat().st_mtime_ns for path in cache.rglob(parts)}
    prometheus.slowly = 0.0
    code, resumed, err = run("--prometheus", prometheus.url, *SPAN, "-o", "json")
    assert code == 0, err
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    shutil.rmtree(cache)
    assert run("--prometheus", prometheus.url, *SPAN, "-o", "json")[1] == resumed


@pytest.mark.parametrize("refusal", [(422, TOO_MANY), (400, TOO_MANY), (400, TOO_FINE)])
def test_answers_that_are_too_large_are_asked_in_smaller_pieces(
    run: Run, prometheus: FakePrometheus, refusal: tuple[int, str]
) -> None:
    whole = run("--prometheus", prometheus.url, *SPAN, "-o", "json")
    prometheus.most, prometheus.refusal = 1000, refusal
    assert run("--prometheus", f"{prometheus.url}/", *SPAN, "-o", "json")[1] == whole[1]


def test_a_query_asks_for_as_many_times_as_the_pods_permit(
    run: Run, prometheus: FakePrometheus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """49 pods at 10 times are 490 samples."""
    monkeypatch.setattr(recorder, "MOST_SAMPLES", 499)
    assert run("--prometheus", prometheus.url, *SPAN)[0] == 0
    assert max(times for query, times in prometheus.queries if "container_" in query) == 10


def test_no_query_takes_more_than_its_share_of_the_limits(run: Run, prometheus: FakePrometheus) -> None:
    """At most 2 % of 11,000 points for each series."""
    run("--prometheus", prometheus.url, *SPAN)
    assert max(times for _, times in prometheus.queries) <= 220


def test_without_kube_state_metrics_the_objects_have_to_be_given(
    run: Run, prometheus: FakePrometheus, tmp_path: Path
) -> None:
    prometheus.kube_state = False
    code, _, err = run("--prometheus", prometheus.url, *SPAN)
    assert code == 1
    assert "Give the objects with --cluster FILE or --live, or run kube-state-metrics" in err
    path = cluster_file(prometheus.world, tmp_path / "cluster.json")
    code, out, err = run("--prometheus", prometheus.url, *SPAN, "--cluster", path, "-o", "json")
    assert code == 0, err
    document = json.loads(out)
    assert runs(document)["as-it-was"]["node_hours_above"]["0.9"]["value"] == pytest.approx(151 / 60, abs=0.02)
    assert runs(document)["today"]["evictions"]["total"] > 0
    assert any("those of the cluster file count all the time" in each["what"] for each in document["unknown"])


def test_a_recording_is_rehearsed_without_the_cluster(run: Run, prometheus: FakePrometheus, tmp_path: Path) -> None:
    prometheus.kube_state = False
    path, out = cluster_file(prometheus.world, tmp_path / "cluster.json"), tmp_path / "recording"
    code, said, err = run("record", "--prometheus", prometheus.url, *SPAN, "--cluster", path, "--out", out)
    assert (code, said) == (0, f"The recording is in {out}. Rehearse it with: ballast rehearse --recording {out}\n"), (
        err
    )
    prometheus.queries.clear()
    assert run("--recording", out)[0] == 0
    assert prometheus.queries == []


def test_where_pyarrow_is_not_installed_parts_are_csv(
    run: Run, prometheus: FakePrometheus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = _without_reasons(run("--prometheus", prometheus.url, *SPAN, "-o", "json")[1])
    monkeypatch.setattr(recorder.tables, "find_spec", lambda name: None)
    out = tmp_path / "recording"
    assert run("record", "--prometheus", prometheus.url, *SPAN, "--out", out)[0] == 0
    assert {path.suffix for path in (out / "pod_usage").iterdir()} == {".gz"}
    assert _without_reasons(run("--recording", out, "-o", "json")[1]) == whole


def _without_reasons(text: str) -> Any:
    """Their numbers are rounded; CSV has fewer digits."""
    document = json.loads(text)
    for move in (move for each in document["runs"] for move in each["moves"]):
        del move["reason"]
    return document


def test_gaps_of_prometheus_are_named(run: Run, prometheus: FakePrometheus) -> None:
    """It was down for the last half hour."""
    prometheus.until = BEGIN + (MINUTES - 30) * 60
    document = json.loads(run("--prometheus", prometheus.url, *SPAN, "-o", "json")[1])
    [gap] = [each for each in document["unknown"] if each["what"].startswith("load of nodes")]
    assert gap["share"] == pytest.approx(30 / 151, abs=0.01)


def test_a_restart_of_prometheus_is_a_gap(run: Run, prometheus: FakePrometheus) -> None:
    """It was down for twenty minutes in the middle: the nodes are not counted then, and it is said."""
    prometheus.downtimes = ((BEGIN + 60 * 60, BEGIN + 80 * 60),)
    document = json.loads(run("--prometheus", prometheus.url, *SPAN, "-o", "json")[1])
    [gap] = [each for each in document["unknown"] if each["what"].startswith("load of nodes")]
    assert gap["share"] == pytest.approx(20 / 151, abs=0.01)
    hot = runs(document)["as-it-was"]["node_hours_above"]["0.9"]
    assert hot["value"] == pytest.approx((151 - 20) / 60, abs=0.05)
    assert hot["low"] < hot["value"]
    assert runs(document)["today"]["evictions"]["total"] > 0


def test_a_prometheus_that_restarts_meanwhile_is_asked_again_by_the_same_command(
    run: Run, prometheus: FakePrometheus, cache: Path
) -> None:
    whole = run("--prometheus", f"{prometheus.url}/", *SPAN, "-o", "json")
    shutil.rmtree(cache)
    prometheus.asked_until = len(prometheus.queries) + len(prometheus.queries) // 2
    code, _, err = run("--prometheus", prometheus.url, *SPAN)
    assert code == 1
    assert "answers 503; look at the server's log" in err
    prometheus.asked_until = math.inf
    assert run("--prometheus", prometheus.url, *SPAN, "-o", "json")[:2] == whole[:2]


def test_nodes_that_were_renamed_are_known_until_then(run: Run, prometheus: FakePrometheus) -> None:
    prometheus.renamed = BEGIN + 60 * 60
    document = json.loads(run("--prometheus", prometheus.url, *SPAN, "-o", "json")[1])
    [gap] = [each for each in document["unknown"] if each["what"].startswith("load of nodes")]
    assert gap["share"] == pytest.approx(90 / 151, abs=0.02)
    assert any(each["what"].startswith("nodes that had other names") for each in document["unknown"])


def test_nodes_that_nobody_lists_are_a_sentence(run: Run, prometheus: FakePrometheus) -> None:
    prometheus.renamed = 0.0
    code, _, err = run("--prometheus", prometheus.url, *SPAN)
    assert code == 1
    assert "has no use of nodes in that time" in err
    assert "renamed-n1" in err


def test_two_clusters_in_one_store_are_refused(run: Run, prometheus: FakePrometheus) -> None:
    prometheus.clusters = ("east", "west")
    code, _, err = run("--prometheus", prometheus.url, *SPAN)
    assert code == 1
    assert "BALLAST_PROMETHEUS__MATCHERS" in err


def test_a_time_without_samples_is_a_sentence(run: Run, prometheus: FakePrometheus, tmp_path: Path) -> None:
    prometheus.until = 0.0
    prometheus.kube_state = False
    path = cluster_file(prometheus.world, tmp_path / "cluster.json")
    code, _, err = run("--prometheus", prometheus.url, *SPAN, "--cluster", path)
    assert code == 1
    assert "has no use of nodes in that time" in err


def test_another_step_needs_another_folder(run: Run, prometheus: FakePrometheus, tmp_path: Path) -> None:
    options = ("record", "--prometheus", prometheus.url, *SPAN, "--out", tmp_path / "r")
    assert run(*options)[0] == 0
    code, _, err = run(*options, "--step", "120s")
    assert code == 1
    assert "Give that or another folder" in err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
@pytest.mark.parametrize("arrow", [True, False])
def test_a_full_disk_is_a_sentence(
    run: Run, prometheus: FakePrometheus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arrow: bool
) -> None:
    """What is there stays, and the same command goes on once there is room."""
    whole, out = tmp_path / "whole", tmp_path / "r"
    monkeypatch.setattr(recorder.tables, "find_spec", lambda name: arrow or None)
    command = ("record", "--prometheus", prometheus.url, *SPAN, "--out")
    assert run(*command, whole)[0] == 0
    last = max((whole / "pod_usage").iterdir())
    full = out / "pod_usage" / f"{last.name}.new"
    full.parent.mkdir(parents=True)
    full.symlink_to("/dev/full")
    code, _, err = run(*command, out)
    assert code == 1
    assert "is full. What is recorded stays: free some space, and run the same command again" in err
    assert len(list((out / "node_usage").iterdir())) == len(list((whole / "node_usage").iterdir()))
    full.unlink(missing_ok=True)
    assert run(*command, out)[0] == 0
    assert run("--recording", out, "-o", "json")[1] == run("--recording", whole, "-o", "json")[1]


def test_a_prometheus_that_is_not_there_is_a_sentence(run: Run) -> None:
    code, _, err = run("--prometheus", "http://127.0.0.1:1", *SPAN)
    assert code == 1
    assert "Traceback" not in err


def test_the_cache_drops_the_oldest_of_others_first(tmp_path: Path) -> None:
    for number, name in enumerate(("old", "older", "own")):
        path = tmp_path / name / "part"
        path.parent.mkdir()
        path.write_bytes(bytes(100))
        os.utime(path, (1000 - number, 1000 - number))
    recorder.make_room(tmp_path, tmp_path / "own", 250)
    assert sorted(path.parent.name for path in tmp_path.rglob("part")) == ["old", "own"]
    with pytest.raises(recorder.BallastError, match="would be larger than"):
        recorder.make_room(tmp_path, tmp_path / "own", 50)
