"""How often two honest sources make a node disputed, on recorded load."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from ballast.jobs.witnesses import WITNESS_EVERY, Disputes, paired_gap
from ballast.model.sample import Floats
from ballast.windows.ring import Ring
from ballast_lab.bench.rows import Row, at_most
from ballast_lab.experiments.load_traces import LoadTrace, load_traces

STEP = 30.0
RATE, SHORT, LATE = 120.0, 30.0, 15.0
"""Seconds: the range of Prometheus' rate, that of metrics-server, and how late both see the node."""
REACH = 0.1


def measure(data: Path) -> list[Row]:
    """A row a trace: five-minute samples hold until the next, so that every change is a jump at once."""
    rows: list[Row] = []
    for trace in load_traces(data)[0]:
        percent, nodes = 100 * _share(trace), sum(map(len, trace.parts))
        rows.append(
            {
                "what": "honest node-hours that are `disputed`",
                "at": f"{trace.name}, {nodes:,} nodes, rate over {RATE:g} s against {SHORT:g} s",
                "reach": f"≤ {REACH} %",
                "measured": f"{percent:.3f} %",
                "verdict": at_most(percent, REACH),
            }
        )
    return rows


def _share(trace: LoadTrace) -> float:
    disputed = total = 0
    for load in trace.parts:
        seen, known = _play(np.repeat(load, max(1, round(trace.step / STEP)), axis=1))
        disputed, total = disputed + seen, total + known
    return disputed / total


def _play(load: Floats) -> tuple[int, int]:
    """Node-cycles that are disputed, and all that are known; `load` is [node, slot of STEP seconds]."""
    keys = [(str(row), "") for row in range(len(load))]
    ours, theirs = (Ring(("cpu",), STEP, 900.0) for _ in range(2))
    disputes, due, disputed, known = Disputes(3600.0), 0.0, 0, 0
    columns = ours.columns(keys)
    theirs.columns(keys)
    wide = round(RATE / STEP)
    for slot in range(wide, load.shape[1]):
        at = slot * STEP
        times = np.full(len(keys), at - LATE)
        ours.write("cpu", at, columns, load[:, slot - wide : slot].mean(axis=1), times)
        if at >= due or disputes.suspects:
            due = at + WITNESS_EVERY
            theirs.write("cpu", at, columns, load[:, slot - 1], times)
            disputes.compare(at, keys, ("cpu",), paired_gap(ours, theirs, keys, at))
        measured = np.isfinite(load[:, slot])
        disputed += int((disputes.disputed(keys) & measured).sum())
        known += int(measured.sum())
    return disputed, known


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    for row in measure(parser.parse_args().data):
        print(row)
