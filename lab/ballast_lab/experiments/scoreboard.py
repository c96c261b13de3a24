"""The part of measurements/scoreboard.md about devices: Ballast beside the published results of OpenB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from ballast_lab.experiments import intervals
from ballast_lab.experiments.openb.trace import POLICIES

Document = Mapping[str, Any]

_OPENB = """## OpenB: devices in use

1,213 nodes with 6,212 GPUs, and pod lists with whole GPUs, parts of one and none. Pods arrive in a random order, at
the end drawn from the list at random, until they ask for 130 % of the GPUs; a pod that finds no node is dropped. The
table shows the percent of the GPUs that are in use then, as the mean of the seeds.

    ballast experiment openb --data DIR --workload all --policy all --seeds 10 --out DIR

{table}

Data and published numbers: github.com/hkust-adsl/kubernetes-scheduler-simulator (Apache-2.0), of "Beware of
Fragmentation" (USENIX ATC 2023), with ten seeds each. `ballast` is `dominant-residual` as the daemon has it; columns
with "here" are published policies in the same simulation, which shows how far it can be compared with theirs: the order
of arrivals comes from another random generator, so single runs differ.

{verdict}
"""


def openb_table(document: Document) -> str:
    """Allocated devices of our criterion and of the six published policies, from the `results.json` of a run."""
    workloads = list(dict.fromkeys(row["workload"] for row in document["rows"]))
    here = [
        name
        for name in ("residual-learned", "fgd", "best-fit", "random")
        if any(row["policy"] == name for row in document["rows"])
    ]
    heads = ["workload", "seeds", "ballast", "95 %", *POLICIES.values(), *(f"{name} here" for name in here)]
    rows = []
    for work in workloads:
        ours = _allocated(document["rows"], work, "residual")
        if not ours:
            continue
        theirs = [_allocated(document["published"], work, name) for name in POLICIES.values()]
        others = [*theirs, *(_allocated(document["rows"], work, name) for name in here)]
        cells = [f"{fmean(values):.2f}" if values else "-" for values in others]
        rows.append(
            [work, f"{len(ours)}", f"**{fmean(ours):.2f}**", intervals.shown(intervals.of_mean(ours), ".2f"), *cells]
        )
    lines = [f"| {' | '.join(line)} |" for line in [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]]
    return "\n".join(lines) + "\n"


def openb(table: str) -> str:
    """The section around the table of `openb_table`."""
    head, _, *rows = (line[2:-2].split(" | ") for line in table.splitlines())
    ours, fgd = head.index("ballast"), head.index("fgd")
    ahead = [(float(row[ours].strip("*")) - float(row[fgd]), row[0]) for row in rows if row[fgd] != "-"]
    return _OPENB.format(table=table.rstrip(), verdict=_verdict(ahead)).rstrip() + "\n"


def _verdict(ahead: Sequence[tuple[float, str]]) -> str:
    if not ahead:
        return "There are no published numbers for these workloads."
    least, where = min(ahead)
    return (
        f"Against the published FGD, the best of the six, that is {fmean(gain for gain, _ in ahead):+.2f} points on "
        f"average\nover {len(ahead)} workloads, and {least:+.2f} on the worst of them ({where})."
    )


def _allocated(rows: Sequence[Document], work: str, policy: str) -> list[float]:
    return [row["allocated_percent"] for row in rows if (row["workload"], row["policy"]) == (work, policy)]
