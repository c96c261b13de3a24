"""A day of recorded load under Ballast: each pod follows a virtual machine of PlanetLab, wherever it runs.

The daemon's own windows, planners and gate decide (`ballast_lab.rehearse`); replacements land by the extender and are
Ready a minute later. Beside it: nobody moves anything, and the best moves in hindsight, made at the start by the means
of the whole day that comes.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ballast.eviction.facts import ClusterObjects
from ballast.model.node import Node
from ballast.model.pod import Owner, Pod
from ballast.model.sample import Floats, Ints
from ballast.model.shape import ContainerShape, shape_of
from ballast.model.workload import Workload
from ballast.placement.simulated_placement import ROUNDING
from ballast.settings.loading import load
from ballast_lab.bench.rows import Row
from ballast_lab.experiments.load_traces import load_traces
from ballast_lab.rehearse.as_it_was import AsItWas
from ballast_lab.rehearse.ballast_run import BallastRun
from ballast_lab.rehearse.course import Course
from ballast_lab.rehearse.history import History, Stay, arrange
from ballast_lab.rehearse.measures import Measures
from ballast_lab.rehearse.recording import Use
from ballast_lab.rehearse.rehearsal import Run

CORES, BYTES, GIB = 16.0, 64 * 2.0**30, 2.0**30
STEP, FIVE_MINUTES, MINUTES = 60.0, 300.0, 1440
QUARTERS = range(0, MINUTES, 15)
START = 1.7e9 // 86_400 * 86_400
MEMORY = 0.45
HINDSIGHT = 20
KNOWN = 0.9
"""Of a day: what is missing lies between its neighbours."""
PACKED, PACKED_AT = 0.35, {"20110303": 0, "20110409": 7, "Google": 13, "Alibaba": 18, "Bitbrains": 22}
"""Mean load of cpu where nodes are emptied, and at which hour of each trace that begins."""
PACKING = {
    "BALLAST_EVICTION__PLANNERS": "relieve,redistribute,rebalance,consolidate",
    "BALLAST_EVICTION__RATE": "20/1h",
    "BALLAST_EVICTION__LIMIT_NAMESPACE": "5",
    "BALLAST_EVICTION__INTERVAL": "5m",
}
CASES = (("20110303", 0.5), ("20110409", 0.5), ("20110303", 0.65), ("20110409", 0.65))


@dataclass(frozen=True)
class Day:
    """Where pods begin, and what they use: `cores` is [minute, pod], `memory` [pod] in bytes."""

    history: History
    cores: Floats
    memory: Floats

    def uses(self) -> Iterator[Use]:
        """What each minute uses where pods began."""
        return (self._use(minute) for minute in range(len(self.cores)))

    def hour_before(self) -> Iterator[Use]:
        """What the hour before used, every five minutes: it was like the last one of the day that comes."""
        return (self._use(minute) for minute in range(-60, 0, 5))

    def _use(self, minute: int) -> Use:
        """Before the day for negative minutes."""
        home, nodes, title = self.history.home, len(self.history.nodes), self.history.number
        cores, pods = self.cores[minute], np.empty((2, len(title)))
        pods[:, title] = np.stack([cores, self.memory])
        of_nodes = np.stack([_loads(cores, home, nodes), _loads(self.memory, home, nodes)])
        return Use(START + (minute + 1) * STEP, of_nodes, pods, pods)


def trace_day(
    data: Path, name: str, mean: float, *, nodes: int = 40, each: int = 20, seed: int = 1, minutes: int = MINUTES
) -> Day:
    """Pods of 20 workloads, placed by requests; their traces (a day of PlanetLab such as 20110303, or what
    `load_traces` calls `name`) are scaled to the mean load `mean` of cpu."""
    generator = np.random.default_rng(seed)
    history = _history(nodes, nodes * each, generator, minutes)
    pods = len(history.pods)
    percents = _traces(data, name)
    traces = percents[np.random.default_rng(0).permutation(len(percents))[:pods]]
    traces = traces[np.arange(pods) % len(traces)]
    traces *= mean * nodes * CORES / traces.mean(axis=1).sum()
    at = np.arange(1, minutes + 1) * STEP / FIVE_MINUTES
    low = at.astype(int) % traces.shape[1]
    part = (at - at.astype(int))[:, None]
    cores = (1 - part) * traces[:, low].T + part * traces[:, (low + 1) % traces.shape[1]].T
    memory = generator.lognormal(0, 0.4, pods)
    return Day(history, cores, memory * MEMORY * nodes * BYTES / memory.sum())


def _traces(data: Path, name: str) -> Floats:
    """[machine or day of one, five minutes]: a day of PlanetLab, or all whole days of another trace by its name."""
    if not name.isdigit():
        trace = next(trace for trace in load_traces(data)[0] if trace.name == name)
        within = round(FIVE_MINUTES / trace.step)
        load = np.concatenate(trace.parts)
        days = load.shape[1] // (288 * within)
        minutes = load[:, : days * 288 * within].reshape(-1, 288, within)
        counts = np.isfinite(minutes).sum(axis=2)
        parts = np.nansum(minutes, axis=2) / np.where(counts, counts, np.nan)
        there = np.isfinite(parts)
        whole = [
            np.interp(np.arange(288), np.flatnonzero(known), day[known])
            for day, known in zip(parts, there, strict=True)
            if known.mean() > KNOWN and day[known].any()
        ]
        return 100 * np.array(whole)
    with gzip.open(data / "load" / f"planetlab_{name}.csv.gz", "rt") as lines:
        rows = [[float(value or 0) for value in line.rstrip().split(",")[1:289]] for line in lines]
    return np.array([row for row in rows if len(row) == 288])


def _history(nodes: int, pods: int, generator: np.random.Generator, minutes: int) -> History:
    workloads = _workloads(pods, generator)
    of_pod = np.repeat(np.arange(len(workloads)), [size for size, _, _ in workloads])
    free = np.full(nodes, CORES)
    stays = []
    for number, workload in enumerate(generator.permutation(of_pod).tolist()):
        _, cores, memory = workloads[workload]
        row = int(np.argmax(free + generator.uniform(0, 1.5, nodes)))
        free[row] -= cores
        owner = Owner("StatefulSet", f"app{workload:02d}", f"u-{workload}", controller=True)
        pod = Pod(
            "shop",
            f"app{workload:02d}-{number}",
            uid=f"u-{number}",
            node=f"n{row:03d}",
            phase="Running",
            ready=True,
            created=START - 86_400,
            owner=owner,
            shape=shape_of([ContainerShape({"cpu": cores, "memory": memory})]),
        )
        stays.append(Stay(pod, START - 86_400, START + minutes * STEP + 1))
    whole = {"cpu": CORES, "memory": BYTES, "pods": 110.0}
    listed = [
        Node(f"n{row:03d}", uid=f"n{row}", capacity=whole, allocatable=whole, created=1.0) for row in range(nodes)
    ]
    objects = ClusterObjects(
        workloads=[
            Workload("StatefulSet", "shop", f"app{number:02d}", f"u-{number}", replicas=size)
            for number, (size, _, _) in enumerate(workloads)
        ]
    )
    return arrange([(node, 0.0, np.inf) for node in listed], stays, objects)


def _workloads(pods: int, generator: np.random.Generator) -> list[tuple[int, float, float]]:
    """Replicas, cores and bytes that each asks for: 55 % of the cores, half of the memory."""
    sizes: list[int] = []
    while sum(sizes) < pods:
        sizes.append(min(pods - sum(sizes), int(generator.integers(pods // 40, pods // 13))))
    share = pods / 20 / pods * CORES
    return [
        (size, round(0.55 * share * float(np.clip(generator.lognormal(0, 0.45), 0.4, 2.2)), 2), float(2 * GIB))
        for size in sizes
    ]


def play(day: Day, settings: Mapping[str, str]) -> tuple[Measures, Measures]:
    """What comes of the day where nobody acts, and with Ballast."""
    chosen = load({"BALLAST_EVICTION__MODE": "on", **settings})
    course = Course(day.history, chosen)
    course.remember(day.hour_before())
    runs: list[Run] = [AsItWas(Course(day.history, chosen), STEP), BallastRun("ballast", course, chosen, STEP)]
    for use in day.uses():
        for run in runs:
            run.advance(use)
    return runs[0].measures, runs[1].measures


def emptied(data: Path, name: str, hour: int, settings: Mapping[str, str] = PACKING) -> Row:
    """`consolidate` begins at this hour, with the day before, which was like the day that comes, read back."""
    day = trace_day(data, name, PACKED)
    day = replace(day, cores=np.roll(day.cores, -60 * hour, axis=0))
    chosen = load({"BALLAST_EVICTION__MODE": "on", **settings})
    courses = [Course(day.history, chosen) for _ in range(2)]
    ballast = BallastRun("ballast", courses[1], chosen, STEP)
    memory = float(day.memory.sum())
    of_day = {START - 86_400 + 60 * at: {"cpu": float(day.cores[at].sum()), "memory": memory} for at in QUARTERS}
    assert ballast.evictions is not None
    ballast.evictions.job.moments.day.peak.add({time: {"": used} for time, used in of_day.items()})
    hot, high = [0, 0], chosen.eviction.target_high
    assert isinstance(high, float)
    runs: list[Run] = [AsItWas(courses[0], STEP), ballast]
    for use in day.uses():
        for which, run in enumerate(runs):
            run.advance(use)
            hot[which] += int(np.count_nonzero((courses[which].load() > high + ROUNDING).any(axis=0)))
    saved = float(np.mean(ballast.measures.empty)) / len(day.history.nodes)
    empty, moved = ballast.measures.empty[-1], sum(ballast.measures.evictions.values())
    return {
        "what": "consolidate begun at any hour: node-minutes above TARGET_HIGH without and with it, node-hours saved",
        "at": f"a day of {name} from {hour:02d}:00, 40 x 20 pods, mean cpu {PACKED}, RATE 20/1h, LIMIT_NAMESPACE 5",
        "reach": "none more; ≥ 15 %",
        "measured": f"{hot[0]:,} and {hot[1]:,}; {saved:.1%} of the first day, {empty} nodes at its end, {moved} moves",
        "verdict": "met" if hot[1] <= hot[0] and saved >= 0.15 else "not met",
    }


def in_hindsight(day: Day, moves: int = HINDSIGHT) -> tuple[float, int]:
    """Cpu's mean deviation over the day and node-minutes above 80 %, after the steepest moves by the means of that day,
    made at its start."""
    history, on = day.history, day.history.home.copy()
    used = np.stack([day.cores.mean(axis=0) / CORES, day.memory / BYTES])
    for _ in range(moves):
        pod, target = _steepest(used, on, len(history.nodes))
        on[pod] = target
    loads = np.array([_loads(cores, on, len(history.nodes)) for cores in day.cores / CORES])
    return float(loads.std(axis=1).mean()), round(float((loads > 0.8).mean(axis=0).sum()) * 1440)


def _loads(used: Floats, on: Ints, nodes: int) -> Floats:
    return np.asarray(np.bincount(on, used, nodes), float)


def _steepest(used: Floats, on: Ints, nodes: int) -> tuple[int, int]:
    """The move with the largest fall of the sum of the variances of both resources."""
    fall = np.zeros((len(on), nodes))
    for amounts in used:
        load = _loads(amounts, on, nodes)
        away = load - load.mean()
        fall += 2 * amounts[:, None] * (away[on][:, None] - away[None, :]) - 2 * amounts[:, None] ** 2
    fall[np.arange(len(on)), on] = -np.inf
    best = int(np.argmax(fall))
    return best // nodes, best % nodes


def measure(cases: Sequence[tuple[str, float]] = CASES) -> list[Row]:
    """The traces are read from BALLAST_DATA, a folder with load/planetlab_DAY.csv.gz."""
    data = Path(os.environ.get("BALLAST_DATA", "data"))
    return [*(_row(data, name, mean) for name, mean in cases), *(emptied(data, *at) for at in PACKED_AT.items())]


def _row(data: Path, name: str, mean: float, **settings: str) -> Row:
    day = trace_day(data, name, mean)
    without, with_it = play(day, settings)
    deviation = float(np.nanmean(np.array(with_it.deviation)[:, 0]))
    (best, hot), before = in_hindsight(day), float(np.nanmean(np.array(without.deviation)[:, 0]))
    above = [[sum(run.hot[level]) for level in ("0.8", "0.9")] for run in (without, with_it)]
    fall = 1 - above[1][0] / max(above[0][0], 1)
    least = 0.87 if mean <= 0.5 else 0.75
    met = fall >= least and deviation <= 1.15 * best
    return {
        "what": "node-minutes above 80 % in a day of recorded load; mean deviation beside the best moves in hindsight",
        "at": f"PlanetLab {name}, 40 x 20 pods, mean cpu {mean:.2f}, landing by the extender, default settings",
        "reach": f"-{least:.0%}; ≤ 1.15 × that of the {HINDSIGHT} best moves in hindsight",
        "measured": (
            f"{above[0][0]:,} to {above[1][0]:,} (-{fall:.0%}), above 90 % {above[0][1]:,} to {above[1][1]:,}, with "
            f"{sum(with_it.evictions.values())} evictions, {hot:,} in hindsight; deviation {before:.4f} to "
            f"{deviation:.4f}, {deviation / best:.2f} × {best:.4f}"
        ),
        "verdict": "met" if met else "not met",
    }


if __name__ == "__main__":
    for row in measure():
        print(row)
