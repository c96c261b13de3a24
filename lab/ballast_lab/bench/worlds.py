"""How many of 1,000 pods find room on 17 nodes, placed by a real kube-scheduler with and without Ballast.

Every run begins with an empty cluster, a new scheduler and a daemon that has seen no pod yet. A whole measurement takes
about an hour and is kept run by run: begun again, it repeats only what is missing or was measured with other code.
"""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import yaml

from ballast.publishing.scheduler_profiles import extender_profile
from ballast_lab.bench.rows import Row
from ballast_lab.harness.api import Json
from ballast_lab.harness.batches import batch
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.daemon import Daemon
from ballast_lab.harness.machines import Machines
from ballast_lab.harness.objects import PODS, add_nodes, sweep
from ballast_lab.harness.prometheus import prometheus
from ballast_lab.harness.scheduler import STOCK, scheduler
from ballast_lab.harness.tools import Tools
from ballast_lab.harness.waiting import eventually
from ballast_lab.harness.worlds import (
    CALIBRATED,
    ORDINARY,
    SIZES,
    WORLDS,
    accepted_by_size,
    arrivals,
    first_unplaced,
    nodes_of,
    place,
    pods_of,
    volume,
)

SEEDS = (1, 2, 3, 4, 5)
QUICK = {"worlds": ("R1", "base/homog"), "seeds": (1,)}
LOAD = 0.3
ROOT = Path(__file__).parents[3]
DECIDING = (
    "scoring",
    "placement",
    "planners",
    "extender/decisions.py",
    "publishing/scheduler_profiles.py",
    "jobs/batch",
)

STOCKED, DISK, OURS = "default", "default with disk", "extender"
BATCH = "batch"
BATCHED = {"BALLAST_BATCH__MODE": "on", "BALLAST_BATCH__ORDER": "small-first"}
WAYS = (STOCKED, DISK, OURS)
SETTINGS = {
    "BALLAST_TELEMETRY__INTERVAL": "20s",
    "BALLAST_WINDOWS__LENGTHS": "20s",
    "BALLAST_WINDOWS__MIN_SAMPLES": "1",
    "BALLAST_WINDOWS__MIN_COVERAGE": "0.1",
    "BALLAST_WINDOWS__MAX_AGE": "60s",
    "BALLAST_PUBLISHING__MODE": "off",
}

Placed = list[bool]


class Put(Protocol):
    """Creates pods and answers which of them were bound."""

    def __call__(self, plane: ControlPlane, pods: Sequence[Json]) -> Placed: ...


@dataclass(frozen=True)
class Run:
    """One list of pods in one world, placed one way."""

    seed: int
    world: str
    way: str


def configured() -> str:
    """The default scheduler, told to score ephemeral storage as it scores cpu and memory."""
    document = yaml.safe_load(STOCK)
    resources = [{"name": name, "weight": 1} for name in ("cpu", "memory", "ephemeral-storage")]
    document["profiles"][0]["pluginConfig"] = [
        {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "LeastAllocated", "resources": resources}}},
        {"name": "NodeResourcesBalancedAllocation", "args": {"resources": resources}},
    ]
    return yaml.safe_dump(document)


def measure(worlds: Sequence[str] = tuple(WORLDS), seeds: Sequence[int] = SEEDS) -> list[Row]:
    try:
        tools = Tools.find()
    except RuntimeError as error:
        return [{"what": "the 17-node worlds", "at": "", "reach": "", "measured": f"not measured: {error}"}]
    runs = [Run(seed, world, way) for seed in seeds for world in worlds for way in WAYS]
    found = measured(tools, runs)
    return _rows(found, worlds, seeds)


def measured(tools: Tools, runs: Sequence[Run]) -> dict[Run, Placed]:
    journal = _Journal(tools)
    missing = [run for run in runs if run not in journal.runs]
    if missing:
        with _arena(tools) as arena:
            for number, run in enumerate(missing, 1):
                placed = arena.run(run, batch if run.way == BATCH else place)
                journal.write(run, placed)
                print(f"  {number} of {len(missing)}: {run} {sum(placed)}", file=sys.stderr, flush=True)
    return {run: journal.runs[run] for run in runs}


class _Arena:
    def __init__(self, plane: ControlPlane, prometheus_url: str) -> None:
        self._plane = plane
        self._settings = {**SETTINGS, "BALLAST_PROMETHEUS__URL": prometheus_url}
        self._world = ""

    def run(self, run: Run, put: Put = place) -> Placed:
        api, world = self._plane.api, WORLDS[run.world]
        if run.world != self._world:
            sweep(api)
            add_nodes(api, nodes_of(world))
            self._world = run.world
        try:
            with self._asked(run.way) as configuration, scheduler(self._plane, configuration):
                return put(self._plane, pods_of(world, arrivals(run.seed)))
        finally:
            api.delete(PODS, {"gracePeriodSeconds": 0})
            eventually("no pods are left", lambda: not api.items(PODS))

    @contextmanager
    def _asked(self, way: str) -> Iterator[str]:
        if way in (STOCKED, DISK):
            yield STOCK if way == STOCKED else configured()
            return
        settings = {**self._settings, **(BATCHED if way == BATCH else {})}
        with Daemon(self._plane, "worlds", self._plane.kubeconfig("admin"), settings) as daemon:
            eventually("Ballast knows every node", lambda: _knows(daemon), every=0.5)
            yield extender_profile(daemon.url, "default-scheduler", filtering=way == BATCH)


def _knows(daemon: Daemon) -> bool:
    values = {name: value for name, _, value in daemon.samples()}
    return "ballast_nodes" in values and not values.get("ballast_nodes_unknown", 1)


@contextmanager
def _arena(tools: Tools) -> Iterator[_Arena]:
    """A control plane, and a Prometheus that finds every node equally loaded."""
    names = {each["metadata"]["name"] for world in WORLDS.values() for each in nodes_of(world)}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ballast-bench-")))
        plane = ControlPlane(tools, folder)
        stack.callback(plane.stop)
        machines = stack.enter_context(Machines(sorted(names), cpu=LOAD, memory=LOAD))
        server = stack.enter_context(prometheus(tools, folder, machines.targets(), interval="5s"))
        idle = 'rate(node_cpu_seconds_total{mode="idle"}[1m])'
        eventually("Prometheus knows every node", lambda: len(server.query(idle, time.time())) == len(names), every=0.5)
        yield _Arena(plane, server.url)


class _Journal:
    """What was measured, one line a run, with a key of what it was measured with."""

    def __init__(self, tools: Tools) -> None:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self._file = cache / "ballast" / "bench" / "worlds.jsonl"
        built = str(tools.kubernetes.name)
        ours = "".join(_digest(ROOT / "daemon" / "ballast" / part) for part in DECIDING)
        ways = (*WAYS, BATCH)
        self._keys = {way: f"{built} {_hash(ours) if way in (OURS, BATCH) else ''}".strip() for way in ways}
        lines = self._file.read_text().splitlines() if self._file.exists() else []
        self.runs: dict[Run, Placed] = {}
        for each in map(json.loads, lines):
            if self._keys.get(each["way"]) == each["key"]:
                run = Run(each["seed"], each["world"], each["way"])
                self.runs[run] = [there == "1" for there in each["placed"]]

    def write(self, run: Run, placed: Placed) -> None:
        self.runs[run] = placed
        self._file.parent.mkdir(parents=True, exist_ok=True)
        text = "".join("1" if there else "0" for there in placed)
        with self._file.open("a") as file:
            file.write(json.dumps({"key": self._keys[run.way], **vars(run), "placed": text}) + "\n")


def _digest(path: Path) -> str:
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return "".join(_hash(file.read_text()) for file in files)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _rows(found: Mapping[Run, Placed], worlds: Sequence[str], seeds: Sequence[int]) -> list[Row]:
    at = f"real kube-scheduler, 1,000 pods in {len(seeds)} orders, mean"
    calibrated = [world for world in worlds if world in CALIBRATED]
    ordinary = [world for world in worlds if world in ORDINARY]
    rows: list[Row] = []
    for what, some, other, reach, least in (
        (f"pods placed with the extender over the default, {len(calibrated)} calibrated worlds", calibrated, STOCKED,
         "≥ +30 %", 30.0),
        (f"the same over the default with ephemeral-storage, {len(calibrated)} calibrated worlds", calibrated, DISK,
         "≥ +10 %", 10.0),
        (f"the same over the default, {len(ordinary)} ordinary worlds", ordinary, STOCKED, "not below", 0.0),
        (f"the same over the default with ephemeral-storage, {len(ordinary)} ordinary worlds", ordinary, DISK,
         "reported", None),
    ):  # fmt: skip
        if some:
            rows.append(_gain(found, what, at, some, seeds, other, reach, least))
    for world in worlds:
        rows += [_details(found, world, seeds)]
    return rows


def _gain(
    found: Mapping[Run, Placed],
    what: str,
    at: str,
    worlds: Sequence[str],
    seeds: Sequence[int],
    other: str,
    reach: str,
    least: float | None,
) -> Row:
    """The mean over worlds and seeds of the gains, which compare the same pods in the same order."""
    gains = [
        100 * (sum(found[Run(seed, world, OURS)]) / sum(found[Run(seed, world, other)]) - 1)
        for world in worlds
        for seed in seeds
    ]
    mean = statistics.mean(gains)
    row: Row = {
        "what": what,
        "at": at,
        "reach": reach,
        "measured": f"{mean:+.1f} % ({min(gains):+.1f} to {max(gains):+.1f})",
    }
    if least is not None:
        row["verdict"] = "met" if mean >= least else f"{least - mean:.1f} points short"
    return row


def _details(found: Mapping[Run, Placed], world: str, seeds: Sequence[int]) -> Row:
    """Means over the seeds, one way after the other."""
    parts = []
    for way in WAYS:
        each = [(arrivals(seed), found[Run(seed, world, way)]) for seed in seeds]
        count = statistics.mean(sum(placed) for _, placed in each)
        share = statistics.mean(volume(WORLDS[world], kinds, placed) for kinds, placed in each)
        first = statistics.mean(first_unplaced(placed) for _, placed in each)
        sizes = [statistics.mean(size) for size in zip(*(accepted_by_size(*pair) for pair in each), strict=True)]
        accepted = "/".join(f"{100 * size:.0f}" for size in sizes)
        parts.append(f"{way} {count:.0f}; {100 * share:.0f} %; {first:.0f}; {accepted} %")
    return {
        "what": f"world {world}: pods placed; volume; first unplaced; accepted {'/'.join(SIZES)}",
        "at": f"{len(seeds)} orders, mean",
        "reach": "reported",
        "measured": " · ".join(parts),
    }


if __name__ == "__main__":
    for row in measure():
        print(row)
