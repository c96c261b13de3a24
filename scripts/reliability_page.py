#!/usr/bin/env python3
"""Writes docs/reliability.md from the tables of the judge of faults and what it found (docs/reliability.json).

With --check only tells whether it is up to date; with --of FILE only prints the table of what a run has recorded.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from ballast_lab.faults import counts  # noqa: E402
from ballast_lab.faults.cells import AT_START, all_cells  # noqa: E402
from ballast_lab.faults.faults import FAULTS  # noqa: E402
from ballast_lab.faults.judge import PROMISES  # noqa: E402
from ballast_lab.faults.parts.registry import PARTS  # noqa: E402

PAGE = ROOT / "docs" / "reliability.md"
FOUND = ROOT / "docs" / "reliability.json"

KINDS = {
    "lease": "the Lease is renewed",
    "endpoint": "a new leader names itself in the EndpointSlice of the extender's Service",
    "labels": "labels and annotations of a node",
    "taint": "taints of a node: `overloaded` when labels are published, `leaving` when pods are evicted",
    "plan": "`ballast-state` with an open plan, before its first step",
    "state": "`ballast-state` without an open plan",
    "scale": "replicas of a Deployment or StatefulSet",
    "cap": "the maximum of a HorizontalPodAutoscaler or ScaledObject",
    "eviction": "an eviction",
    "gate": "a scheduling gate is removed",
}
_BEGINNING = """# Reliability

<!-- Written by scripts/reliability_page.py; edit that, or run the judge again. -->

Ballast changes a cluster, so it has to keep its promises when it dies in the middle of a change. A judge of faults
(`lab/ballast_lab/faults`) starts daemons against a real etcd, kube-apiserver, kube-controller-manager and
kube-scheduler. A forwarder between each daemon and the API server holds one chosen write, either *before* it arrives or
*after* it was done and before its answer comes back. Then the fault is done. No test hook is in the product. Afterwards
the judge reads the audit log of the API server, which has the body and the answer of every write, and checks each
promise below. Each cell also asks that Ballast acts again: once the fault is over and all is done, the part is given
something to do once more, and has done it within 60 s. Evictions may take 120 s after `drip`, since a workload rests
for a minute, and are not asked after `cut` and `one-way`, since all of them rest. Labels are not asked after
`second-release` and `other-release`: a node that two have written to keeps its taint for ten quiet minutes.

`make test-faults` runs a sample, `make test-faults ARGS=` all cells; each night `kill` is run in all of them, and 60
others are drawn. The seed is printed; the same seed chooses the same cells in the same order.
"""
_NOT = """## What this does not show

* Nodes and kubelets are simulated by kwok; containers do not run. Daemons run as an administrator: their rights are
  tested elsewhere.
* Only the scheduler, the controllers and the driver write beside Ballast. Other writers that change the same labels are
  tested with simulated clocks (`Contended`).
* After a SIGKILL the driver removes the Lease of the dead process, so that cells are short. The faults `freeze` and
  `split` let the Lease run out.
* Most daemons are forked from a process that has imported Ballast. Those with another clock or version are not.
* A former leader's late patch of node labels has no version, so it may pass; the promise is that the leader puts it
  right.
* An eviction that was written down and perhaps not sent is not tried again for a day. The pod stays where it is.
* A former leader's late eviction may arrive after its successor has given the plan up. The promise is that it counts
  among the past ones, for all limits.
* After a cut, evictions stand still while more than 5 % of the requests of the last five minutes failed
  (`EvictionsHalted`). The judge waits 75 s for the end, so some cells of `cut` are not counted.
"""


def page(found: counts.Counts) -> str:
    """The page of these results."""
    return "\n".join([_BEGINNING, *_tables(), *_results(found), _NOT])


def _tables() -> Iterator[str]:
    yield "## Promises\n"
    yield "| promise | what the judge checks |\n|---|---|"
    yield from (f"| `{name}` | {text} |" for name, text in PROMISES.items())
    yield "\n## Faults\n"
    yield "| fault | what happens while the write is held |\n|---|---|"
    yield from (f"| `{fault.name}` | {fault.about} |" for fault in FAULTS.values())
    yield "\n## Writes\n"
    yield "| write | what |\n|---|---|"
    yield from (f"| `{kind}` | {text} |" for kind, text in KINDS.items())
    yield ""


def _results(found: counts.Counts) -> Iterator[str]:
    run = {name: row for name, row in found["cells"].items() if row["runs"]}
    yield "## What was found\n"
    runs = sum(row["runs"] for row in run.values())
    yield f"{len(run)} of {len(all_cells())} cells were run, {runs} times in all, with {found['kills']} kills."
    yield f"Broken promises: {found['broken']}. Seeds: {', '.join(map(str, found['seeds']))}.\n"
    yield "A number is how often a cell was run, before and after the write together; `·` is a cell that was not run,"
    yield "an empty one does not exist.\n"
    names = list(FAULTS)
    yield f"| part | write | {' | '.join(names)} |"
    yield f"|---|---|{'---|' * len(names)}"
    for part in PARTS.values():
        for kind in (*part.kinds, *AT_START):
            counts = [_count(run, part.name, kind, name) for name in names]
            yield f"| {part.name} | `{kind}` | {' | '.join(counts)} |"
    yield ""


def _count(run: Mapping[str, counts.Count], part: str, kind: str, fault: str) -> str:
    both = [str(cell) for cell in all_cells() if (cell.part, cell.kind, cell.fault) == (part, kind, fault)]
    if not both:
        return ""
    count = sum(run[name]["runs"] for name in both if name in run)
    broken = sum(run[name]["broken"] for name in both if name in run)
    return f"**{count}, {broken} broken**" if broken else str(count or "·")


def main() -> int:
    """Writes the page, or compares it."""
    if "--of" in sys.argv:
        sys.stdout.write("\n".join(_results(counts.read(Path(sys.argv[sys.argv.index("--of") + 1])))))
        return 0
    text = page(counts.read(FOUND))
    if "--check" not in sys.argv:
        PAGE.write_text(text, encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != text:
        sys.stderr.write("docs/reliability.md is out of date: run scripts/reliability_page.py\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
