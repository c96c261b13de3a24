"""How often each cell was run and what came of it, as docs/reliability.json keeps it: a line for each write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypedDict


class Count(TypedDict):
    """Of one cell: runs that reached the write, processes killed in them, promises broken."""

    runs: int
    kills: int
    broken: int


class Counts(TypedDict):
    """`cells` by the text of the cell; `seeds` are those of the runs that were added up."""

    seeds: list[int]
    kills: int
    broken: int
    cells: dict[str, Count]


def read(path: Path) -> Counts:
    """What a file holds; nothing was run where it is missing."""
    if not path.exists():
        return Counts(seeds=[], kills=0, broken=0, cells={})
    counts = json.loads(path.read_text(encoding="utf-8"))
    cells = {
        f"{write} {fault}": Count(runs=runs, kills=kills, broken=broken)
        for write, faults in counts["cells"].items()
        for fault, (runs, kills, broken) in faults.items()
    }
    return Counts(seeds=counts["seeds"], kills=counts["kills"], broken=counts["broken"], cells=cells)


def write(path: Path, counts: Counts) -> None:
    """A cell is `"fault": [runs, kills, broken]` in the line of its part, write and moment."""
    writes: dict[str, dict[str, list[int]]] = {}
    for cell, count in sorted(counts["cells"].items()):
        name, _, fault = cell.rpartition(" ")
        writes.setdefault(name, {})[fault] = [count["runs"], count["kills"], count["broken"]]
    heads = [f' "{name}": {json.dumps(counts[name])},' for name in ("seeds", "kills", "broken")]
    rows = ",\n".join(f'  "{name}": {json.dumps(faults)}' for name, faults in writes.items())
    path.write_text("\n".join(["{", *heads, ' "cells": {', rows, " }", "}"]) + "\n", encoding="utf-8")
