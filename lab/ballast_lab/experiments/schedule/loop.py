"""The closed loop: pods arrive, a contestant places them, their recorded use is measured, and it decides again."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
import numpy as np

from ballast.model.node import Node
from ballast.model.node_state import NodeStates
from ballast.model.pod import Owner, Pod
from ballast.model.sample import Bools, Floats, Ints
from ballast.model.shape import ContainerShape, Shape, shape_of
from ballast.model.snapshot import Snapshot, Window
from ballast_lab.experiments.schedule.workloads import DAY, WARM, Workload

CYCLE = 30.0
WINDOW = 900.0
EPOCH = 1_700_000_000.0
"""Unix seconds of the day's start."""
ROUNDING = 1e-9


class Contestant(Protocol):
    """Places pods. Times are Unix seconds, rows are those of the nodes."""

    def observe(self, snapshot: Snapshot) -> None:
        """A cycle has measured the nodes."""

    def choose(self, pod: int, time: float, feasible: Ints) -> int:
        """The row of the best of the nodes where the pod fits; at least one."""

    def bound(self, pod: int, row: int, time: float) -> None:
        """The pod runs there from now on."""

    def left(self, pod: int, row: int, time: float) -> None:
        """It ran there until now."""

    def evict(self, time: float) -> Sequence[int]:
        """The pods that are evicted after a cycle, to be placed again at once."""

    @property
    def writes(self) -> int | None:
        """Labels written so far; None for those that write none."""


@dataclass(frozen=True)
class Outcome:
    """Percent of node-minutes above 80 and 90 % of cpu; core-hours beyond capacity; points of deviation and p99."""

    hot80: float
    hot90: float
    beyond: float
    sigma: float
    p99: float
    pods: int
    turned_away: int
    label_writes: float | None
    evictions: int

    def document(self) -> dict[str, float | int | None]:
        return {name: round(value, 4) if isinstance(value, float) else value for name, value in vars(self).items()}


class Day:
    """The state of one day while a contestant places its pods."""

    def __init__(self, load: Workload) -> None:
        self.load = load
        self.uids: dict[int, str] = {}
        """Of pods that somebody else has named."""
        count = len(load.nodes)
        self.names = [f"n{row:03d}" for row in range(count)]
        self.nodes = [
            Node(name, uid=name, allocatable=amounts, capacity=amounts)
            for name, cpu, memory in zip(self.names, load.nodes.cpu, load.nodes.memory, strict=True)
            for amounts in ({"cpu": float(cpu), "memory": float(memory), "pods": 1000.0},)
        ]
        self.requested: Floats = np.zeros((2, count))
        self.row: Ints = np.full(len(load.start), -1)
        self.running: Ints = np.empty(0, np.int64)
        self.use: Floats = np.empty(0)
        self._samples: Floats = np.empty((0, 2, count))
        self._shapes: dict[tuple[float, float, float], Shape] = {}

    def uid(self, number: int) -> str:
        """Of a pod."""
        return self.uids.get(number, f"u{number}")

    def pod(self, number: int, row: int | None = None, time: float = 0.0) -> Pod:
        """As a watch shows it, waiting or bound to a row at a time."""
        load = self.load
        key = (float(load.cpu[number]), float(load.memory[number]), float(load.size[number]))
        shape = self._shapes.get(key)
        if shape is None:
            requests = {"cpu": key[0], "memory": key[1]} if key[0] else {}
            shape = self._shapes[key] = shape_of([ContainerShape(requests, {"cpu": key[2]} if key[0] else {})])
        owner = Owner("ReplicaSet", f"o{load.owner[number]}", f"o{load.owner[number]}", True)
        pod = Pod(
            "default", f"p{number}", self.uid(number), shape=shape, owner=owner, created=EPOCH + load.start[number]
        )
        if row is None:
            return pod
        return msgspec.structs.replace(pod, node=self.names[row], phase="Running", scheduled_at=time)

    def feasible(self, number: int) -> Bools:
        """[node]: whether its requests fit into the pool's nodes."""
        load, nodes = self.load, self.load.nodes
        fits = (self.requested[0] + load.cpu[number] <= nodes.cpu + ROUNDING) | (load.cpu[number] == 0)
        fits &= self.requested[1] + load.memory[number] <= nodes.memory * (1 + ROUNDING)
        return np.asarray(fits & (nodes.pool == load.pool[number]))

    def start(self, number: int, row: int) -> None:
        """A pod runs on a row."""
        self.row[number] = row
        self.requested[:, row] += self.load.cpu[number], self.load.memory[number]

    def stop(self, number: int) -> None:
        """It does not run where it ran."""
        self.requested[:, self.row[number]] -= self.load.cpu[number], self.load.memory[number]

    def end(self, time: float) -> list[int]:
        """The pods that have ended by now."""
        over = self.load.end[self.running] <= time
        ended: list[int] = self.running[over].tolist()
        self.running = self.running[~over]
        for number in ended:
            self.stop(number)
        return ended

    def measure(self, time: float) -> Floats:
        """[node]: cores that the pods want now; the windows get what the nodes can give."""
        self.use = self.load.use(self.running, time)
        count = len(self.names)
        wanted = np.bincount(self.row[self.running], self.use, count)
        share = np.stack([np.minimum(wanted / self.load.nodes.cpu, 1.0), self.requested[1] / self.load.nodes.memory])
        self._samples = np.concatenate([self._samples, share[None]])[-round(WINDOW / CYCLE) :]
        return np.asarray(wanted)

    def snapshot(self, time: float, nodes: Sequence[Node] | None = None) -> Snapshot:
        """What a cycle knows."""
        samples, count = self._samples, len(self.names)
        everywhere = np.ones((2, count), bool)
        window = Window(
            "15m",
            WINDOW,
            samples.mean(axis=0),
            samples.std(axis=0),
            np.percentile(samples, 95, axis=0),
            np.full((2, count), len(samples)),
            np.ones((2, count)),
            everywhere,
        )
        return Snapshot(
            EPOCH + time,
            tuple(nodes or self.nodes),
            ("cpu", "memory"),
            {"15m": window},
            np.full((2, count), EPOCH + time),
            np.ones((2, count)),
            NodeStates.of(np.ones(count, bool)),
        )

    def recent(self, seconds: float) -> Floats:
        """[sample, resource, node] of the last seconds, at most a window."""
        return self._samples[-max(1, round(seconds / CYCLE)) :]


def simulate(day: Day, contestant: Contestant, until: float = DAY) -> Outcome:
    """A day in cycles; pods that fit on no node are turned away."""
    load, arriving, turned_away, evictions = day.load, 0, 0, 0
    loads, beyond = [], 0.0
    for cycle in range(math.ceil(until / CYCLE)):
        time = cycle * CYCLE
        for number in day.end(time):
            contestant.left(number, int(day.row[number]), EPOCH + float(load.end[number]))
        started = []
        while arriving < len(load.start) and load.start[arriving] <= time:
            if _place(day, contestant, arriving, float(load.start[arriving])):
                started.append(arriving)
            else:
                turned_away += 1
            arriving += 1
        day.running = np.concatenate([day.running, np.array(started, np.int64)])
        wanted = day.measure(time)
        contestant.observe(day.snapshot(time))
        for number in contestant.evict(time):
            day.stop(number)
            contestant.left(number, int(day.row[number]), EPOCH + time)
            _place(day, contestant, number, time)
            evictions += 1
        if time >= WARM:
            loads.append(wanted / load.nodes.cpu)
            beyond += float(np.maximum(wanted - load.nodes.cpu, 0).sum()) * CYCLE / 3600
    every = np.array(loads)
    writes = contestant.writes
    return Outcome(
        hot80=100 * float((every > 0.8).mean()),
        hot90=100 * float((every > 0.9).mean()),
        beyond=beyond,
        sigma=100 * float(every.std(axis=1).mean()),
        p99=100 * float(np.percentile(every, 99)),
        pods=len(load.start) - turned_away,
        turned_away=turned_away,
        label_writes=None if writes is None else writes / len(load.nodes) / (until / 3600),
        evictions=evictions,
    )


def _place(day: Day, contestant: Contestant, number: int, time: float) -> bool:
    """Starts the pod on the row that is chosen; whether it fits anywhere."""
    feasible = np.flatnonzero(day.feasible(number))
    if not len(feasible):
        return False
    row = contestant.choose(number, EPOCH + time, feasible)
    day.start(number, row)
    contestant.bound(number, row, EPOCH + time)
    return True
