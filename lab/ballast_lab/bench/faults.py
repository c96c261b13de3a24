"""What the judge of faults found when it was run last: `make test-faults ARGS="--record docs/reliability.json"`."""

from __future__ import annotations

from pathlib import Path

from ballast_lab.bench.rows import Row
from ballast_lab.faults import counts

_FOUND = Path(__file__).parents[3] / "docs" / "reliability.json"


def measure() -> list[Row]:
    found = counts.read(_FOUND)
    run = [each for each in found["cells"].values() if each["runs"]]
    broken, kills = found["broken"], found["kills"]
    at = "write x before or after x fault x part, real control plane"
    runs = sum(each["runs"] for each in run)
    enough, kept = len(run) >= 150, not broken and kills >= 500
    return [
        Row(
            what="cells of the fault matrix that were run",
            at=at,
            reach="≥ 150",
            measured=str(len(run)),
            verdict="met" if enough else f"{150 - len(run)} missing",
        ),
        Row(
            what="broken promises, by the API server's audit log",
            at=f"{runs} runs",
            reach="0 over ≥ 500 kills",
            measured=f"{broken} over {kills} kills",
            verdict="met" if kept else "not met",
        ),
    ]
