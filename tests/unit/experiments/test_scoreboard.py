"""docs/scoreboard.md and what it is made of."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

from ballast.experiments.scoreboard import page

ROOT = Path(__file__).resolve().parents[3]


def row(policy: str, allocated: float, seed: int = 42, **others: Any) -> dict[str, Any]:
    return {"workload": "default", "policy": policy, "seed": seed, "allocated_percent": allocated, **others}


def test_openb_stands_beside_the_published_policies() -> None:
    ours = [row("residual", 95.0), row("residual", 96.0, 43), row("fgd", 95.25)]
    text = page({"openb": {"rows": ours, "published": [row("fgd", 95.1), row("best-fit", 93.0)]}})
    assert "| default | 2 | **95.50** | - | - | - | - | 93.00 | 95.10 | 95.25 |" in text
    assert "+0.40 points on average" in text
    assert all(len(line) <= 120 for line in text.splitlines() if not line.startswith("|"))


def test_sections_without_results_are_left_out() -> None:
    assert "OpenB" not in page({})


def test_the_page_is_in_step_with_its_results() -> None:
    results = json.loads((ROOT / "docs/scoreboard.json").read_text())
    assert (ROOT / "docs/scoreboard.md").read_text() == page(results)


def test_results_of_the_same_run_replace_each_other() -> None:
    script = runpy.run_path(str(ROOT / "scripts/scoreboard.py"))
    there = [row("residual", 95.0), row("residual", 96.0, 43)]
    assert script["_merged"](there, [row("residual", 97.0)]) == [row("residual", 97.0), row("residual", 96.0, 43)]
