"""`ballast experiment`: what it prints and writes, and what it refuses."""

import json
import sys
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ballast_lab.cli.experiments import everything
from ballast_lab.cli.experiments.everything import EXPERIMENTS
from lab_tests.experiments.traces import write_planetlab
from tests.worlds.commands import Run

REQUESTS = [[(1 + size) * 100, (1 + kind) * 512, 20 * kind] for kind in range(3) for size in range(4)]


@pytest.fixture
def run(ballast: Run) -> Run:
    return partial(ballast, "experiment")


@pytest.fixture
def small(tmp_path: Path) -> str:
    """A world of two small nodes, quickly full."""
    path = tmp_path / "small.json"
    path.write_text(json.dumps({"small": {"R": REQUESTS, "A0": [[8000, 16384, 400], [4000, 32768, 900]]}}))
    return str(path)


def test_the_sweep_stands_beside_the_paper(run: Run, small: str) -> None:
    code, out, _ = run("dominant-residual", "--worlds", small, "--jobs", "1")
    assert code == 0
    assert "744 at λ = 0.1, C = 22 and 50" in out
    assert "sqrt, lambda 0.1, C 2" in out
    assert "…" not in out


def test_both_figures_and_the_numbers_are_written(run: Run, small: str, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "figures"
    code, out, _ = run(
        "dominant-residual", "--worlds", small, "--jobs", "1", "--seeds", "2", "--out", str(folder), "-o", "json"
    )
    assert code == 0
    document = json.loads(out)
    assert document == json.loads((folder / "results.json").read_text())
    assert all(list(row)[:4] == ["table", "name", "published", "measured"] for row in document["rows"])
    assert all("low" in row for row in document["rows"] if row["table"] == "pods placed")
    published = {row["name"]: row["published"] for row in document["rows"] if row["table"] == "pods placed"}
    assert (published["default"], published["lambda 0.1, C 22"], published["lambda 1"]) == (542, 744, None)
    assert len([row for row in document["rows"] if row["table"] == "figure 2"]) == 77
    assert "| kube-scheduler's default | 542 |" in (folder / "table.md").read_text()
    assert (len(document["lambda"]), len(document["c"])) == (7, 11)
    assert [place["seed"] for place in document["places"]] == [0, 1]
    lines, cells = (ElementTree.parse(folder / name).getroot() for name in ("best-by-lambda.svg", "heat-map.svg"))
    numbers = [[each.text for each in found.iter() if each.tag.endswith("text")] for found in (lines, cells)]
    assert set(numbers[0]) >= {f"{max(row):.0f}" for row in document["counts"]}
    shown = [f"{count:.0f}" for row in document["counts"] for count in row]
    assert [text for text in numbers[1] if text in shown][-77:] == shown


def test_redistribution_is_compared(run: Run, small: str) -> None:
    code, out, _ = run("redistribution", "--worlds", small, "--jobs", "1", "-o", "json")
    assert code == 0
    assert set(json.loads(out)["schedulers"]) == {"ballast", "kube-scheduler", "paper, C 22", "paper, C 50"}


def test_redistribution_of_the_papers_scores_alone(run: Run, small: str, tmp_path: Path) -> None:
    options = ["--worlds", small, "--jobs", "1", "--scores", "paper", "--out", str(tmp_path), "-o", "json"]
    code, out, _ = run("redistribution", *options)
    assert code == 0
    document = json.loads(out)
    assert {row["table"] for row in document["rows"]} == {"paper, C 22", "paper, C 50"}
    assert document == json.loads((tmp_path / "results.json").read_text())
    assert "| paper, C 50 | published |" in (tmp_path / "table.md").read_text()


def test_redistribution_has_a_table(run: Run, small: str) -> None:
    code, out, _ = run("redistribution", "--worlds", small, "--world", "small", "--jobs", "1", "--scores", "ballast")
    assert code == 0
    assert [line.split()[:2] for line in out.splitlines()[1:4]] == [
        ["ballast", "none"],
        ["ballast", "gated"],
        ["ballast", "published"],
    ]


def test_several_worlds_stand_side_by_side(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "two.json"
    path.write_text(
        json.dumps({name: {"R": REQUESTS, "A0": [[size, 9000, 90]]} for name, size in (("a", 1), ("b", 999))})
    )
    code, out, _ = run("dominant-residual", "--worlds", str(path), "--jobs", "1")
    assert code == 0
    assert ["PODS", "IN", "a", "b"] in [line.split() for line in out.splitlines()]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--world", "R9"), "--world R9: there is no such world. Choose all or one of R1,"),
        (("--seeds", "3-1"), "--seeds 3-1: give their number, such as 10, or whole numbers"),
        (("--seeds", "x"), "--seeds x: give their number"),
        (("--seeds", "0"), "--seeds 0: give their number, 1 to 1000"),
        (("--seeds", "1001"), "--seeds 1001: give their number, 1 to 1000"),
        (("--scheduler-name", "mine"), "--scheduler-name mine: it needs a cluster. Add --kubeconfig FILE"),
        (("--kubeconfig", "/nowhere", "--redistribute", "gated"), "--redistribute is for the embedded scheduler"),
        (("--kubeconfig", "/nowhere"), "--kubeconfig /nowhere: there is no such file"),
        (("--backend", "spark"), "--backend spark: choose one of processes, dask, ray"),
        (("--seeds", "0-999999999999"), "at most 1000"),
        (("--jobs", "0"), "--jobs 0: give 1 or more"),
        (("--worlds", "/nowhere"), "--worlds /nowhere: No such file"),
        (("--out", "/proc/nowhere"), "--out /proc/nowhere"),
    ],
)
def test_wrong_use_is_named(run: Run, arguments: tuple[str, ...], message: str) -> None:
    code, _, err = run("dominant-residual", *arguments)
    assert code == 2
    assert message in err


@pytest.mark.parametrize("command", ["dominant-residual", "redistribution"])
def test_without_joblib_the_extra_is_named(run: Run, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setitem(sys.modules, "joblib", None)
    code, out, err = run(command)
    assert (code, out) == (2, "")
    assert err == "Experiments need joblib and matplotlib. Install them with: pip install '.[experiments]'\n"


@pytest.mark.parametrize(("name", "module"), [("dask", "distributed"), ("ray", "ray")])
def test_a_backend_that_is_not_installed_is_named(
    run: Run, monkeypatch: pytest.MonkeyPatch, name: str, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    code, out, err = run("redistribution", "--backend", name)
    assert (code, out) == (2, "")
    assert err == (f"--backend {name}: {module} is not installed. Install it with: pip install '.[{name}]'\n")


def test_the_windows_of_small_traces(run: Run, tmp_path: Path) -> None:
    write_planetlab(tmp_path / "data", nodes=6)
    options = ["--data", str(tmp_path / "data"), "--jobs", "1", "--out", str(tmp_path / "out")]
    code, out, err = run("windows", *options)
    assert code == 0, err
    assert "Google is left out" in err
    assert "WINDOW AND STATISTIC" in out
    document = json.loads((tmp_path / "out" / "results.json").read_text())
    assert {row["name"].partition(":")[0] for row in document["rows"]} == {"PlanetLab"}
    assert "| mean 15 m |" in (tmp_path / "out" / "table.md").read_text()
    assert ElementTree.parse(tmp_path / "out" / "windows.svg").getroot().tag.endswith("svg")


def test_windows_without_traces_say_what_to_give(run: Run, tmp_path: Path) -> None:
    for options, message in (((), "give --data DIR"), (("--data", str(tmp_path)), "there is no folder load in it")):
        code, _, err = run("windows", *options)
        assert code == 2
        assert message in err


def test_all_runs_each_experiment_into_its_folder(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def experiment(out: Path, **options: object) -> None:
        calls.append(options)
        (out / "results.json").write_text(json.dumps({"rows": [out.name]}))

    table = {name: (experiment, usual) for name, (_, usual) in EXPERIMENTS.items()}
    monkeypatch.setattr(everything, "EXPERIMENTS", table)
    code, out, error = run("all", "--out", str(tmp_path), "--seeds", "8-39", "--jobs", "1", "-o", "json")
    assert code == 0
    assert set(json.loads(out)) == set(EXPERIMENTS) - set(everything.ON_TRACES)
    assert "windows is left out: it needs traces" in error
    assert all((call["seeds"], call["jobs"], call["backend"]) == ("8-39", 1, "processes") for call in calls)
    code, out, _ = run("all", "--out", str(tmp_path), "--data", str(tmp_path))
    assert code == 0
    assert "openb: seeds 10" in out
    assert run("all", "--out", str(tmp_path), "--seeds", "9-8")[0] == 2


@pytest.mark.parametrize(
    "name", sorted(set(EXPERIMENTS) - {"dominant-residual-worlds", "openb-redrawn", "schedule-full"})
)
def test_all_experiments_take_the_same_options(run: Run, name: str) -> None:
    _, out, _ = run(name, "--help")
    assert all(option in out for option in ("--seeds", "--data", "--backend", "--jobs", "--out", "--output"))
