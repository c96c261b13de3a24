"""`make bench`: measures every promise and writes measurements/benchmarks.md."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from collections.abc import Callable
from types import ModuleType

from ballast_lab.bench import book
from ballast_lab.bench.rows import Row

TOPICS = {
    "pipeline": "From Prometheus to what is served",
    "windows": "Windows",
    "watcher": "Reading `/watcher`",
    "honest": "Two honest sources",
    "lies": "What lies, lags or starves",
    "page": "The page in a browser",
    "start": "Starting",
    "large": "Fifteen thousand nodes",
    "doctor": "Doctor",
    "listing": "Listing the cluster",
    "writes": "Writing nodes",
    "scoring": "Scoring",
    "planning": "Planning evictions",
    "placement": "Placing many pods at once",
    "eviction_effect": "The effect of evictions",
    "landing": "Landing by a taint",
    "redistribution": "Redistribution on small worlds",
    "pays": "Moves that pay",
    "trace_day": "Days of recorded load under evictions",
    "rehearsal_truth": "Rehearsals beside what happened",
    "rehearsal_size": "Rehearsing a week of a large cluster",
    "held": "What tests hold evictions to",
    "noise": "Noise alone, and a hot node",
    "consolidation": "Emptying nodes",
    "autoscalers": "Beside autoscalers of nodes",
    "extender": "Answering schedulers",
    "devices": "Answering schedulers about devices",
    "throughput": "Scheduling with Ballast",
    "burst": "Bursts, and Ballast stopped",
    "worlds": "Room for pods",
    "whole": "Answering schedulers, the whole daemon",
    "starved": "On one core, and beside busy loops",
    "batch": "Batches behind the gate",
    "power": "Power budgets",
    "feeds": "Feeds that swing, and wrong constants",
    "hostile": "Under attack",
    "endured": "Under attack for minutes",
    "fuzz": "Mutated input",
    "soak": "A day of `ballast run` alone",
    "faults": "Faults at writes",
    "truth": "The same truth every day",
}


def main() -> None:
    options = _options()
    if options.json:
        print(json.dumps(book.read(book.REPORT.read_text(), TOPICS), indent=1))
        return
    for topic in options.only or TOPICS:
        module = _module(topic)
        if module is None:
            continue
        began, load = time.monotonic(), book.load_average()
        rows = _measure(module, quick=options.quick)
        for row in rows:
            print(
                f"{row['what']} | {row['at']} | {row['reach']} | {row['measured']} | {row.get('verdict', '')}",
                flush=True,
            )
        if not options.quick:
            book.write_down(topic, rows, load, TOPICS)
        print(f"  {topic}: {time.monotonic() - began:.0f} s", file=sys.stderr)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m ballast_lab.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter runs where that changes little; writes nothing")
    parser.add_argument("--json", action="store_true", help="measures nothing; prints what the page holds as JSON")
    parser.add_argument("--only", nargs="+", choices=TOPICS, metavar="TOPIC", help=f"of {', '.join(TOPICS)}")
    return parser.parse_args()


def _module(topic: str) -> ModuleType | None:
    name = f"ballast_lab.bench.{topic}"
    return importlib.import_module(name) if importlib.util.find_spec(name) else None


def _measure(module: ModuleType, *, quick: bool) -> list[Row]:
    measure: Callable[..., list[Row]] = module.measure
    return measure(**getattr(module, "QUICK", {})) if quick else measure()


if __name__ == "__main__":
    main()
