"""`make bench`: measures every promise and writes docs/benchmarks.md."""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import numpy as np
import psutil

from tests.bench.rows import Row

TARGET = Path("docs/benchmarks.md")
TOPICS = {
    "pipeline": "From Prometheus to what is served",
    "windows": "Windows",
    "watcher": "Reading `/watcher`",
    "start": "Starting",
    "listing": "Listing the cluster",
    "writes": "Writing nodes",
    "scoring": "Scoring",
    "planning": "Planning evictions",
    "eviction_effect": "The effect of evictions",
    "redistribution": "Redistribution on small worlds",
    "extender": "Answering schedulers",
    "throughput": "Scheduling with Ballast",
    "burst": "Bursts, and Ballast stopped",
    "worlds": "Room for pods",
    "power": "Power budgets",
}
HEAD = """\
# Benchmarks

Written by `make bench`, which measures everything here anew; `make bench ARGS=--quick` prints the same in about two
minutes without writing it down. Measured on {date}: {machine}.

CPU is processor time, so waiting does not count. The embedded cluster always runs in a process of its own. Absolute
times belong to the machine; numbers from another one are to be compared as ratios.
"""
PEERS = """\
## Beside other programs

Their numbers were measured with real binaries built from upstream sources and loopback stubs for their inputs:
load-watcher (master 17df8f9, Prometheus provider, 5,000 nodes) on two shared cores. The 97.3 writes a node and hour of
crane-scheduler follow from the constants of its default policy. Counts and bytes are exact; read times and memory as
orders of magnitude, since the machines were not the same.
"""


def main() -> None:
    options = _options()
    found: dict[str, list[Row]] = {}
    for topic in options.only or TOPICS:
        module = _module(topic)
        if module is not None:
            began = time.monotonic()
            found[topic] = _measure(module, quick=options.quick)
            for row in found[topic]:
                print(
                    f"{row['what']} | {row['at']} | {row['reach']} | {row['measured']} | {row.get('verdict', '')}",
                    flush=True,
                )
            print(f"  {topic}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    if options.quick or options.only:
        print(f"{TARGET} is left as it is: not everything was measured in full", file=sys.stderr)
        return
    TARGET.write_text(_report(found))
    print(f"{TARGET} is written", file=sys.stderr)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter runs where that changes little; writes nothing")
    parser.add_argument("--only", nargs="+", choices=TOPICS, metavar="TOPIC", help=f"of {', '.join(TOPICS)}")
    return parser.parse_args()


def _module(topic: str) -> ModuleType | None:
    name = f"tests.bench.{topic}"
    return importlib.import_module(name) if importlib.util.find_spec(name) else None


def _measure(module: ModuleType, *, quick: bool) -> list[Row]:
    measure: Callable[..., list[Row]] = module.measure
    return measure(**getattr(module, "QUICK", {})) if quick else measure()


def _report(found: dict[str, list[Row]]) -> str:
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    parts = [HEAD.format(date=date, machine=_machine())]
    for topic, rows in found.items():
        cells = [[row["what"], row["at"], row["reach"], row["measured"], row.get("verdict", "")] for row in rows]
        parts.append(f"## {TOPICS[topic]}\n\n{_table(['what', 'at', 'reach', 'measured', 'result'], cells)}")
    beside = [row for rows in found.values() for row in rows if "peer" in row]
    cells = [[row["what"], row["at"], row["measured"], row["peer"], row.get("ratio", "")] for row in beside]
    parts.append(f"{PEERS}\n{_table(['what', 'at', 'Ballast', 'the other', 'ratio'], cells)}")
    return "\n".join(parts)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)


def _machine() -> str:
    busy = os.getloadavg()[0]
    return (
        f"{_processor()}, {os.cpu_count()} cores, {psutil.virtual_memory().total / 2**30:.0f} GiB, "
        f"{platform.system()} {platform.machine()},\nPython {platform.python_version()}, numpy {np.__version__}, "
        f"load average {busy:.1f} at the end"
    )


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "a processor")


if __name__ == "__main__":
    main()
