"""Bad input: one sentence with the next step, and the exit status of the other commands."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from lab_tests.rehearse.worlds import BEGIN, hot_world
from tests.worlds.commands import Run


@pytest.fixture
def run(ballast: Run) -> Run:
    return partial(ballast, "rehearse")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((), "Give --recording DIR"),
        (("--recording", "nowhere"), "there is no such folder. Make one with `ballast rehearse record`"),
        (("--recording", "{r}", "--prometheus", "http://p"), "Give --recording DIR"),
        (("--recording", "{r}", "--step", "soon"), "--step soon is no duration"),
        (("--recording", "{r}", "--step", "0s"), "--step 0s is no duration"),
        (("--recording", "{r}", "--step", "4m"), "Give at most 180 s"),
        (("--recording", "{r}", "--from", "yesterday"), "--from yesterday is no time"),
        (("--recording", "{r}", "--from", "2026-01-02", "--to", "2026-01-01"), "is not before --to 2026-01-01"),
        (("--recording", "{r}", "--settings", "nofile.yaml"), "--settings nofile.yaml: there is no such file"),
        (("--recording", "{r}", "--live", "--cluster", "c.json"), "give one of them"),
        (("--recording", "{r}", "--at-most", "many"), "--at-most many is no number of evictions a day"),
        (("--recording", "{r}", "--at-most", "0/d"), "--at-most 0/d permits no eviction"),
    ],
)
def test_wrong_use_exits_2(run: Run, tmp_path: Path, options: tuple[str, ...], says: str) -> None:
    hot_world(10).write(tmp_path / "r")
    code, out, err = run(*(option.format(r=tmp_path / "r") for option in options))
    assert (code, out) == (2, "")
    assert says in err
    assert len(err.strip().splitlines()) == 1


def _without(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).unlink()


def _append(name: str, text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text((folder / name).read_text() + text)


def _write(name: str, text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(text)


def _in_milliseconds(folder: Path) -> None:
    (folder / "recording.json").unlink()
    head, *rows = (folder / "node_usage.csv").read_text().splitlines()
    _write("node_usage.csv", "\n".join([head, *(row.replace(".0,", "000,", 1) for row in rows)]))(folder)


def _without_a_name(folder: Path) -> None:
    (folder / "node_usage.csv").unlink()
    table = {"time": [BEGIN, BEGIN], "node": ["n1", None], "cpu": [1.0, 1.0], "memory": [1.0, 1.0]}
    parquet.write_table(pyarrow.table(table), folder / "node_usage.parquet")


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (_without("pod_usage.csv"), "has no pod_usage.parquet or pod_usage.csv"),
        (_without("pods.csv"), "Give --cluster FILE"),
        (_write("nodes.csv", "node,cpu,memory\nrenamed,1,1\n"), "Are the names in node_usage those of the nodes?"),
        (_append("node_usage.csv", "1,n1,1,1\n"), "not in the order of time"),
        (_append("node_usage.csv", "x,n1,1,1\n"), "node_usage.csv, line"),
        (_write("node_usage.csv", "time,cpu,memory\n"), "has no column node"),
        (_write("nodes.csv", "node,cpu,memory\nn1,few,1\n"), "node n1"),
        (_write("nodes.csv", "node,cpu,memory\n"), "there are no nodes"),
        (_write("nodes.csv", "node,cpu,memory\nn1,1,1\nn1,1,1\n"), "n1 is listed twice"),
        (_write("recording.json", "{"), "recording.json"),
        (_write("recording.json", json.dumps({"version": 2, "from": 0, "to": 9, "step": 1})), "version 2"),
        (_write("recording.json", json.dumps({"from": 9, "to": 0, "step": 1})), "the begin is before the end"),
        (_write("recording.json", json.dumps({"from": 0, "to": 1e308, "step": 60})), "Times are Unix seconds"),
        (_in_milliseconds, "Times are Unix seconds"),
        (_write("nodes.csv", "node,cpu,memory\nn1,,\n"), "'' is not a Kubernetes quantity"),
        (_write("pods.csv", "namespace,pod,node,priority\nshop,a,n1,1e400\n"), "pod shop/a: cannot convert"),
        (_write("budgets.csv", "namespace,name,selector,allowed\nshop,a,app=b,inf\n"), "budget a: cannot convert"),
        (_without_a_name, "1 rows have no node"),
    ],
)
def test_a_damaged_recording_exits_1(run: Run, tmp_path: Path, damage: Callable[[Path], object], says: str) -> None:
    damage(hot_world(10).write(tmp_path))
    code, out, err = run("--recording", tmp_path)
    assert (code, out) == (1, "")
    assert says in err
    assert len(err.strip().splitlines()) == 1


def test_a_time_that_is_not_recorded_is_refused(run: Run, tmp_path: Path) -> None:
    code, _, err = run("--recording", hot_world(10).write(tmp_path), "--from", "2026-01-01", "--to", "2026-01-02")
    assert code == 1
    assert "it goes from 2025-10-09T08:54:00Z to 2025-10-09T09:04:00Z" in err


def test_two_settings_of_one_name_are_refused(run: Run, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "s.yaml").write_text("eviction: {high: 0.7}\n")
    paths = ("--settings", tmp_path / "a" / "s.yaml", "--settings", tmp_path / "b" / "s.yaml")
    code, _, err = run("--recording", hot_world(10).write(tmp_path / "r"), *paths)
    assert code == 2
    assert "Rename the file" in err


def test_a_setting_that_does_not_exist_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("eviction: {hgih: 0.7}\n")
    code, _, err = run("--recording", hot_world(10).write(tmp_path / "r"), "--settings", tmp_path / "s.yaml")
    assert code == 2
    assert "s.yaml" in err
    assert "hgih" in err
