"""Where a burst of pods lands while the measurements stand still, and what a Ballast that hangs costs."""

from __future__ import annotations

import random
import signal
import statistics
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from ballast.publishing.scheduler_profiles import extender_profile, labels_profile
from ballast.scoring.load_variation import label_score
from ballast.windows.band import label_of
from ballast_lab.bench.rows import Row, at_most
from ballast_lab.harness.burst import CORES, burst, judge, knowing, refreshed
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.objects import add_nodes, node, sweep
from ballast_lab.harness.scheduler import STOCK, scheduler
from ballast_lab.harness.tools import Tools
from ballast_lab.harness.waiting import eventually

NODES, PODS, SEEDS, HANGING = 50, 300, (7, 8, 9), 60
QUICK = {"seeds": (7,)}
NOBODY, LABELS, ASKED = "no Ballast", "labels", "extender"


def measure(seeds: tuple[int, ...] = SEEDS) -> list[Row]:
    try:
        tools = Tools.find()
    except RuntimeError as error:
        return [{"what": "a burst", "at": "", "reach": "", "measured": f"not measured: {error}"}]
    with tempfile.TemporaryDirectory(prefix="ballast-bench-") as folder, ExitStack() as stack:
        plane = ControlPlane(tools, Path(folder))
        stack.callback(plane.stop)
        found = [_bursts(plane, Path(folder), seed) for seed in seeds]
        rate, placed = _hanging(plane, Path(folder))
    fair = PODS / NODES
    busiest = {way: max(each[way][0] for each in found) for way in found[0]}
    spread = {way: statistics.mean(each[way][1] for each in found) for way in found[0]}
    behind = sum(each[ASKED][1] >= each[LABELS][1] for each in found)
    size = f"{PODS} pods of 500m on {NODES} nodes of {CORES} cores"
    at = f"real kube-scheduler, {size}, load 0 to .7, {len(seeds)} worlds"
    beside = "; ".join(f"{way} {busiest[way]}" for way in (LABELS, NOBODY))
    before = statistics.mean(each["before"][1] for each in found)
    others = "; ".join(f"{way} {spread[way]:.4f}" for way in (LABELS, NOBODY))
    return [
        {
            "what": "a burst with the extender: pods on the busiest node",
            "at": at,
            "reach": f"≤ 2 × the fair {fair:g}",
            "measured": f"{busiest[ASKED]} ({beside})",
            "verdict": at_most(busiest[ASKED], 2 * fair),
        },
        {
            "what": "a burst with the extender: sd of real load after",
            "at": at,
            "reach": "below the labels' in each run",
            "measured": f"{spread[ASKED]:.4f} ({others}; before {before:.4f})",
            "verdict": "met" if not behind else f"not in {behind} of {len(found)}",
        },
        {
            "what": "Ballast stopped (SIGSTOP) under the extender profile",
            "at": f"real kube-scheduler, {HANGING} pods",
            "reach": "≥ 3 pods/s, none fails",
            "measured": f"{rate:.1f} pods/s, {HANGING - placed} failed",
            "verdict": "met" if rate >= 3 and placed == HANGING else "too slow",
        },
    ]


def _bursts(plane: ControlPlane, folder: Path, seed: int) -> Mapping[str, tuple[int, float]]:
    """{way: (pods on the busiest node, sd of the load after)}."""
    dice = random.Random(seed)
    loads = {f"n{number:02d}": dice.random() * 0.7 for number in range(NODES)}
    fleet = [
        node(name, cpu=str(CORES), memory="64Gi", labels={"ballast.dev/score": str(label_of(float(label_score(load))))})
        for name, load in loads.items()
    ]
    found = {"before": (0, statistics.pstdev(loads.values()))}
    for way, configuration in {NOBODY: STOCK, LABELS: labels_profile("ballast.dev", "default-scheduler")}.items():
        add_nodes(plane.api, fleet)
        with scheduler(plane, configuration):
            found[way] = judge(loads, burst(plane, PODS))
        sweep(plane.api)
    add_nodes(plane.api, fleet)
    with knowing(plane, folder, loads) as daemon, scheduler(plane, extender_profile(daemon.url, "default-scheduler")):
        eventually("a refresh has just ended", refreshed, every=0.1)
        found[ASKED] = judge(loads, burst(plane, PODS))
    sweep(plane.api)
    return found


def _hanging(plane: ControlPlane, folder: Path) -> tuple[float, int]:
    """(pods a second, pods placed) while Ballast does not answer."""
    loads = {f"n{number}": 0.1 * number for number in range(5)}
    add_nodes(plane.api, [node(name, cpu=str(CORES), memory="64Gi") for name in loads])
    with knowing(plane, folder, loads) as daemon, scheduler(plane, extender_profile(daemon.url, "default-scheduler")):
        daemon.signal(signal.SIGSTOP)
        try:
            began = time.monotonic()
            placed = burst(plane, HANGING)
            return len(placed) / (time.monotonic() - began), len(placed)
        finally:
            daemon.signal(signal.SIGCONT)


if __name__ == "__main__":
    for row in measure():
        print(row)
