"""What was measured, topic by topic: kept in docs/benchmarks.json, told in docs/benchmarks.md."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from textwrap import fill
from typing import NotRequired, TypedDict

import msgspec
import numpy as np
import psutil

from ballast_lab.bench.rows import Row

DATA = Path("docs/benchmarks.json")
REPORT = Path("docs/benchmarks.md")
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
    """One topic; `load` is the machine's load average when its measurement began, `note` tells more than both."""

    date: str
    load: float
    rows: list[Row]
    note: NotRequired[str]


def load_average() -> float:
    return os.getloadavg()[0]


def write_down(topic: str, rows: list[Row], load: float, topics: Mapping[str, str]) -> None:
    """Replaces one topic; `topics` gives the order and the headings of the report."""
    book = read()
    book[topic] = Measured(date=datetime.now(UTC).strftime("%Y-%m-%d"), load=round(load, 1), rows=rows)
    book = {name: book[name] for name in topics if name in book}
    DATA.write_bytes(msgspec.json.format(msgspec.json.encode(book), indent=1) + b"\n")
    REPORT.write_text(report(book, topics, _machine()))


def read() -> dict[str, Measured]:
    """docs/benchmarks.json."""
    return msgspec.json.decode(DATA.read_bytes(), type=dict[str, Measured]) if DATA.exists() else {}


def report(book: Mapping[str, Measured], topics: Mapping[str, str], machine: str) -> str:
    """docs/benchmarks.md."""
    parts = [HEAD.format(machine=machine)]
    for topic, measured in book.items():
        cells = [
            [row["what"], row["at"], row["reach"], row["measured"], row.get("verdict", "")] for row in measured["rows"]
        ]
        table = _table(["what", "at", "reach", "measured", "result"], cells)
        note = measured.get("note") or f"{measured['date']}, load average {measured['load']:.1f} before."
        parts.append(f"## {topics[topic]}\n\n{table}\n{fill(note, 120)}\n")
    beside = [row for measured in book.values() for row in measured["rows"] if "peer" in row]
    cells = [[row["what"], row["at"], row["measured"], row["peer"], row.get("ratio", "")] for row in beside]
    parts.append(f"{PEERS}\n{_table(['what', 'at', 'Ballast', 'the other', 'ratio'], cells)}")
    return "\n".join(parts)


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
