"""The section of measurements/scoreboard.md about devices."""

from typing import Any

from ballast_lab.experiments.scoreboard import openb, openb_table


def row(policy: str, allocated: float, seed: int = 42, **others: Any) -> dict[str, Any]:
    return {"workload": "default", "policy": policy, "seed": seed, "allocated_percent": allocated, **others}


def test_openb_stands_beside_the_published_policies() -> None:
    ours = [row("residual", 95.0), row("residual", 96.0, 43), row("fgd", 95.25)]
    text = openb(openb_table({"rows": ours, "published": [row("fgd", 95.1), row("best-fit", 93.0)]}))
    assert "| default | 2 | **95.50** | 89.15 to 101.85 | - | - | - | - | 93.00 | 95.10 | 95.25 |" in text
    assert "+0.40 points on average" in text
    assert all(len(line) <= 120 for line in text.splitlines() if not line.startswith("|"))
