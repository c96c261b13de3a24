"""The whole daemon over a simulated day in which only noise tells nodes apart, and then one node is too loaded."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ballast.eviction.gate_rules import GateRules
from ballast_lab.bench.even_world import noisy_day, overloaded_node
from ballast_lab.bench.rows import Row

WORLDS = ((5, 20), (40, 20), (200, 30))
RELIEVED = ((6, 20), (12, 20), (40, 20))
NOISES = (0.02, 0.05, 0.1)
QUICK: dict[str, Any] = {"worlds": ((5, 20),), "noises": (0.1,), "hours": 1.0}


def measure(
    worlds: Sequence[tuple[int, int]] = WORLDS, noises: Sequence[float] = NOISES, hours: float = 24.0
) -> list[Row]:
    """Takes hours: every cycle is one of the real daemon."""
    rows = [_row(nodes, each, noise, hours) for nodes, each in worlds for noise in noises]
    return [*rows, *(_relieved(nodes, each, ready_in) for ready_in in (0.0, 30.0) for nodes, each in RELIEVED)]


def _relieved(nodes: int, each: int, ready_in: float) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        cycles, moved = overloaded_node(Path(folder), nodes, each, 0.97, ready_in)
    ready = f"after {ready_in:g} s" if ready_in else "at once"
    return {
        "what": "cycles after the shortest window shows 0.9 until a node that went to 97 % is below 80 %",
        "at": f"{nodes} x {each} pods, 2% noise of each, replacements Ready {ready}, the daemon with its defaults",
        "reach": "≤ 2",
        "measured": f"{cycles} ({moved} evictions)",
        "verdict": "met" if cycles is not None and cycles <= 2 else "not met",
    }


def _row(nodes: int, each: int, noise: float, hours: float) -> Row:
    started = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        moved, cycles = noisy_day(Path(folder), nodes, each, noise, round(60 * hours))
    most = GateRules().confirmations + 1
    met = moved == 0 and cycles is not None and cycles <= most
    first = "none" if cycles is None else f"in cycle {cycles}"
    return {
        "what": "evictions for noise alone; then, with a node at 95 %, the first by relieve",
        "at": f"{nodes} x {each} pods, {noise:.0%} noise of each, {hours:g} h simulated, the daemon with its defaults",
        "reach": f"0; within {most} cycles of a window above HIGH",
        "measured": f"{moved}; {first} ({time.process_time() - started:.0f} s CPU)",
        "verdict": "met" if met else "not met",
    }


if __name__ == "__main__":
    for row in measure(**QUICK):
        print(row)
