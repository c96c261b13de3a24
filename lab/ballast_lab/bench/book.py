"""What was measured, topic by topic: measurements/benchmarks.md, which is read back before a topic is renewed."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict

import numpy as np
import psutil

from ballast_lab.bench.rows import Row

REPORT = Path("measurements/benchmarks.md")
HEAD = """\
# Benchmarks

Written by `make bench`, which measures everything here in about two hours; `make bench ARGS="--only TOPIC"` renews
one section, `make bench ARGS=--quick` prints the same in minutes and writes nothing down. Measured on {machine}.

CPU is processor time, so waiting does not count. The embedded cluster always runs in a process of its own. Absolute
times belong to the machine; numbers from another one are to be compared as ratios. Below each section stands the load
average before it: near the number of cores it means that the section shared them with other work.
"""
PEERS = """\
## Beside other programs

Their numbers were measured with real binaries built from upstream sources and loopback stubs for their inputs:
load-watcher (master 17df8f9, Prometheus provider, 5,000 nodes) on two shared cores. The 97.3 writes a node and hour of
crane-scheduler follow from the constants of its default policy. Counts and bytes are exact; read times and memory as
orders of magnitude, since the machines were not the same.
"""


class Measured(TypedDict):
    """One topic; `note` says when, at what load average of the machine, and what else a reader should know."""

    rows: list[Row]
    note: str


def load_average() -> float:
    return os.getloadavg()[0]


def write_down(topic: str, rows: list[Row], load: float, topics: Mapping[str, str]) -> None:
    """Replaces one topic; `topics` gives the order and the headings of the report."""
    book = read(REPORT.read_text(), topics) if REPORT.exists() else {}
    book[topic] = Measured(rows=rows, note=f"{datetime.now(UTC):%Y-%m-%d}, load average {load:.1f} before.")
    REPORT.write_text(report({name: book[name] for name in topics if name in book}, topics, _machine()))


def read(page: str, topics: Mapping[str, str]) -> dict[str, Measured]:
    """What a report holds, by topic; the inverse of `report`."""
    names = {heading: name for name, heading in topics.items()}
    _, *sections, peers = page.split("\n## ")
    beside = {(what, at, measured): (peer, ratio) for what, at, measured, peer, ratio in _cells(peers)}
    return {names[text.partition("\n")[0]]: _measured(text, beside) for text in sections}


def report(book: Mapping[str, Measured], topics: Mapping[str, str], machine: str) -> str:
    """measurements/benchmarks.md."""
    parts = [HEAD.format(machine=machine)]
    for topic, measured in book.items():
        cells = [
            [row["what"], row["at"], row["reach"], row["measured"], row.get("verdict", "")] for row in measured["rows"]
        ]
        table = _table(["what", "at", "reach", "measured", "result"], cells)
        parts.append(f"## {topics[topic]}\n\n{table}\n{measured['note']}\n")
    beside = [row for measured in book.values() for row in measured["rows"] if "peer" in row]
    cells = [[row["what"], row["at"], row["measured"], row["peer"], row.get("ratio", "")] for row in beside]
    parts.append(f"{PEERS}\n{_table(['what', 'at', 'Ballast', 'the other', 'ratio'], cells)}")
    return "\n".join(parts)


def _measured(section: str, beside: Mapping[tuple[str, str, str], tuple[str, str]]) -> Measured:
    rows: list[Row] = []
    for what, at, reach, measured, verdict in _cells(section):
        row = Row(what=what, at=at, reach=reach, measured=measured)
        if verdict:
            row["verdict"] = verdict
        if (what, at, measured) in beside:
            row["peer"], row["ratio"] = beside[what, at, measured]
        rows.append(row)
    return Measured(rows=rows, note=section.rpartition("|\n\n")[2].rstrip("\n"))


def _cells(section: str) -> Iterator[list[str]]:
    """The cells of the rows of a section's table, without its head."""
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return (line[2:-2].split(" | ") for line in lines[2:])


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)


def _machine() -> str:
    return (
        f"\n{_processor()}, {os.cpu_count()} cores, {psutil.virtual_memory().total / 2**30:.0f} GiB, "
        f"{platform.system()} {platform.machine()}, Python {platform.python_version()}, numpy {np.__version__}"
    )


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "a processor")
