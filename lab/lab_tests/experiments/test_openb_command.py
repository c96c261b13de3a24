"""`ballast experiment openb`: what it writes, and what it refuses."""

import json
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import pytest

from lab_tests.experiments.openb_samples import trace
from tests.worlds.commands import Run


@pytest.fixture
def run(ballast: Run) -> Run:
    return partial(ballast, "experiment", "openb")


def test_results_table_and_figure_are_written(run: Run, tmp_path: Path) -> None:
    data, out = trace(tmp_path / "traces"), tmp_path / "new/out"
    code, said, _ = run(
        "--data", str(data), "--workload", "tiny", "--policy", "residual,random", "--seeds", "2", "--jobs", "1",
        "--out", str(out), "-o", "json",
    )  # fmt: skip
    assert code == 0
    document = json.loads((out / "results.json").read_text())
    assert document == json.loads(said)
    assert [row["seed"] for row in document["rows"]] == [42, 43, 42, 43]
    assert set(document["rows"][0]) == {"workload", "policy", "seed", "allocated_percent", "failed_pods", "pods"}
    assert (out / "table.md").read_text().startswith("| workload | policy |")
    ElementTree.fromstring((out / "allocation.svg").read_text())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seeds", "0"], "--seeds 0"),
        (["--workload", "nothing"], "plain, tiny"),
        (["--workload", "../tiny"], "plain, tiny"),
        (["--policy", "nothing"], "residual, residual-learned, fgd, best-fit, random"),
        (["--jobs", "0"], "--jobs 0"),
    ],
)
def test_wrong_options_are_refused_with_what_is_allowed(
    run: Run, tmp_path: Path, arguments: list[str], said: str
) -> None:
    code, _, error = run("--data", str(trace(tmp_path)), *arguments)
    assert code == 2
    assert said in error
    assert "Traceback" not in error


def test_a_missing_or_broken_file_is_an_error_in_one_line(run: Run, tmp_path: Path) -> None:
    data = trace(tmp_path)
    (data / "openb/nodes.csv.gz").write_bytes(b"\x1f\x8b\x08")
    code, _, error = run("--data", str(data), "--workload", "tiny", "--seeds", "1", "--jobs", "1")
    assert (code, error.count("\n")) == (1, 1)
    (data / "openb/nodes.csv.gz").unlink()
    code, _, error = run("--data", str(data), "--workload", "tiny", "--seeds", "1", "--jobs", "1")
    assert code == 2
    assert "nodes.csv.gz is missing" in error
    code, _, error = run("--data", str(tmp_path / "nowhere"))
    assert code == 2
    assert "pods_NAME.csv.gz" in error
