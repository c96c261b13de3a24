"""Small recordings, written by hand."""

import csv
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

GIB = 2.0**30
BEGIN = 1_760_000_040
"""Unix seconds; a multiple of a minute."""
MINUTE = 60.0
Use = Callable[[float], tuple[float, float]]
"""Cores and bytes at so many seconds after the begin."""


@dataclass
class RecordedPod:
    """A pod of a Deployment, and what it uses."""

    name: str
    node: str
    cpu: float = 1.0
    memory: float = GIB
    workload: str = "web"
    kind: str = "Deployment"
    requests: tuple[float, float] = (0.1, 0.1 * GIB)
    start: float = -86_400.0
    end: float | None = None
    namespace: str = "default"
    use: Use | None = None

    @property
    def title(self) -> str:
        return f"{self.namespace}/{self.name}"

    def used(self, at: float) -> tuple[float, float]:
        return (self.cpu, self.memory) if self.use is None else self.use(at)

    def there(self, at: float) -> bool:
        return self.start <= at and (self.end is None or at < self.end)


@dataclass
class World:
    """Nodes of 10 cores and 40 GiB; what nodes use is what their pods use."""

    pods: list[RecordedPod]
    nodes: Sequence[str] = ("n1", "n2", "n3", "n4")
    minutes: int = 120
    step: float = MINUTE
    cores: float = 10.0
    silent: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """{node: (from, to)} in which it has no samples."""

    def write(self, folder: Path, form: str = "csv") -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        memory = 40 * GIB
        _write(folder, "nodes", ["node", "cpu", "memory"], [(node, self.cores, memory) for node in self.nodes], form)
        head = ["namespace", "pod", "node", "kind", "workload", "cpu", "memory", "start", "end"]
        rows = [
            (
                pod.namespace,
                pod.name,
                pod.node,
                pod.kind,
                pod.workload,
                *pod.requests,
                BEGIN + pod.start,
                None if pod.end is None else BEGIN + pod.end,
            )
            for pod in self.pods
        ]
        _write(folder, "pods", head, rows, form)
        _write(folder, "pod_usage", ["time", "pod", "cpu", "memory"], self._of_pods(), form)
        _write(folder, "node_usage", ["time", "node", "cpu", "memory"], self._of_nodes(), form)
        end = BEGIN + self.minutes * MINUTE
        (folder / "recording.json").write_text(
            json.dumps({"version": 1, "from": BEGIN, "to": end, "step": self.step, "unknown": []})
        )
        return folder

    def _times(self) -> Iterable[float]:
        return (number * self.step for number in range(math.floor(self.minutes * MINUTE / self.step) + 1))

    def _of_pods(self) -> Iterable[tuple[object, ...]]:
        for at in self._times():
            yield from ((BEGIN + at, pod.title, *pod.used(at)) for pod in self.pods if pod.there(at))

    def _of_nodes(self) -> Iterable[tuple[object, ...]]:
        for at in self._times():
            for node in self.nodes:
                since, until = self.silent.get(node, (math.inf, math.inf))
                if not since <= at < until:
                    used = [pod.used(at) for pod in self.pods if pod.node == node and pod.there(at)]
                    yield (BEGIN + at, node, *(sum(each[part] for each in used) for part in (0, 1)))


def hot_world(minutes: int = 120, pods: int = 19) -> World:
    """n1 is at 95 % of its cores by nineteen pods of four workloads; the other three nodes are at a tenth."""
    hot = [RecordedPod(f"w{number % 5}-{number}", "n1", 0.5, GIB / 4, f"w{number % 5}") for number in range(pods)]
    calm = [
        RecordedPod(f"w{app}-{node}-{number}", node, 0.1, GIB / 4, f"w{app}")
        for node in ("n2", "n3", "n4")
        for app in range(5)
        for number in range(2)
    ]
    return World([*hot, *calm], minutes=minutes)


def _write(folder: Path, name: str, head: Sequence[str], rows: Iterable[Sequence[object]], form: str) -> None:
    if form == "csv":
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(head)
            writer.writerows(rows)
        return
    import pyarrow
    from pyarrow import parquet

    columns = list(zip(*rows, strict=True))
    table = {title: list(values) for title, values in zip(head, columns, strict=True)}
    parquet.write_table(pyarrow.table(table), folder / f"{name}.parquet", row_group_size=97)


def noisy(mean: float, memory: float, seed: int) -> Use:
    """Use that wavers by a tenth, the same at each call."""

    def use(at: float) -> tuple[float, float]:
        part = float(np.random.default_rng([seed, int(at)]).uniform(0.9, 1.1))
        return mean * part, memory

    return use
