"""`ballast experiment openb`: what it writes, and what it refuses."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ballast_lab.experiments.openb.lists import PodKind, redraw
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


def test_lists_that_are_not_there_are_drawn_with_the_shares_of_their_name() -> None:
    parts, one, several, bare = (PodKind(1, 1, *devices) for devices in ((1, 300), (1, 1000), (4, 1000), (0, 0)))
    pods = [*[parts] * 400, *[one] * 500, *[several] * 20, *[bare] * 130]

    def volume(name: str, kinds: tuple[PodKind, ...]) -> float:
        drawn = redraw(name, lambda _: pods)
        assert drawn == redraw(name, lambda _: pods)
        return sum(kind.volume for kind in drawn if kind in kinds) / sum(kind.volume for kind in drawn)

    assert volume("gpushare60", (parts,)) == pytest.approx(0.6, abs=0.02)
    assert volume("multigpu30", (several,)) == pytest.approx(0.3, abs=0.005)
    assert redraw("cpu200", lambda _: pods).count(bare) == 230
    assert redraw("cpu0", lambda _: pods).count(bare) == 0
    specified = [replace(kind, models=("T4",)) if kind is one else kind for kind in pods]
    kept = redraw("gpuspec20", lambda _: specified)
    assert sum(bool(kind.models) for kind in kept) == round(0.2 * 920)
