"""The generated pages are those of the committed results."""

import subprocess
import sys
from pathlib import Path

import pytest

from ballast_lab.experiments.dominant_residual import sweep
from ballast_lab.experiments.dominant_residual_results import beside_paper
from ballast_lab.experiments.power import results as power
from ballast_lab.experiments.redistribution import PAPER, compare, results
from ballast_lab.experiments.worlds import worlds

ROOT = Path(__file__).parents[3]


def test_the_pages_are_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "experiment_pages.py"), "--check"]
    found = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert found.returncode == 0, found.stderr


def table(name: str) -> str:
    return (ROOT / "measurements" / "experiments" / name / "table.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_page_has_the_sweep_of_the_first_list() -> None:
    found = sweep([worlds()["R3"]], [0])
    lines = table("dominant-residual").splitlines()
    for what, published, here, _ in beside_paper(found):
        assert any(line.startswith(f"| {what} | {published} | {here} |") for line in lines), (what, here)


@pytest.mark.slow
def test_the_page_has_what_redistribution_does_to_the_first_list() -> None:
    found = compare([worlds()["R3"]], [0], PAPER)
    text = " ".join((ROOT / "measurements" / "experiments.md").read_text(encoding="utf-8").split())
    (at_22, as_published_22), (at_50, as_published_50) = (
        (case["none"]["count"], case["published"]["count"]) for case in results(found).details["cases"]
    )
    assert f"{at_22} pods become {as_published_22} (C = 22), and {at_50} become {as_published_50} (C = 50)" in text


@pytest.mark.slow
def test_the_page_has_the_power_rows_that_no_seed_changes() -> None:
    again = power.results(seeds=(0,)).table.splitlines()
    shown = table("power").split("Public series")[0].splitlines()
    assert [line for line in shown if line.startswith("|") and "±" not in line and line not in again] == []
