"""Reads the OpenB trace: nodes, pod lists and the published results, and draws the arrivals of a run.

Source: github.com/hkust-adsl/kubernetes-scheduler-simulator, data/csv and
experiments/analysis/expected_results/analysis_allo_discrete.csv (Apache-2.0), of "Beware of Fragmentation: Scheduling
GPU-Sharing Workloads with Fragmentation Gradient Descent" (USENIX ATC 2023); from Alibaba's cluster-trace-gpu-v2023.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np

from ballast.base.errors import BallastError, UsageError
from ballast.model.devices import MILLI
from ballast.model.sample import Bools, Floats, Ints
from ballast_lab.experiments.openb.lists import REDRAWN, PodKind, redraw

T = TypeVar("T")

FOLDER = "openb"
ARRIVING = 1.3
"""Requested devices that arrive, as a share of those there are."""

FIRST_SEED = 42
POLICIES = {
    "01-Random": "random",
    "02-DotProd": "dot-product",
    "03-GpuClustering": "clustering",
    "04-GpuPacking": "packing",
    "05-BestFit": "best-fit",
    "06-FGD": "fgd",
}
"""The published policies, by their name in the results."""

_LIST = "openb_pod_list_"
_ROWS = 1_000_000
_LARGEST = 2**40
_DEVICES = 64


class BadTrace(BallastError):
    """A file of the trace was read, but its content is not what was expected."""


@dataclass(frozen=True)
class TraceWorkload:
    """Nodes in the order of their names, and the pods of a list, in theirs, as rows of `kinds`."""

    name: str
    cpu: Floats
    memory: Floats
    devices: Ints
    models: tuple[str, ...]
    kinds: tuple[PodKind, ...]
    pods: Ints

    @cached_property
    def capacity(self) -> int:
        """Thousandths of devices that there are."""
        return int(self.devices.sum()) * MILLI

    @cached_property
    def volumes(self) -> Ints:
        """[kind]: thousandths of devices."""
        return np.array([kind.volume for kind in self.kinds], np.int64)

    @cached_property
    def allowed(self) -> Bools:
        """[kind, node]: whether the model of the node's devices will do."""
        return np.array([[not kind.models or each in kind.models for each in self.models] for kind in self.kinds])

    def arrivals(self, seed: int) -> tuple[Ints, Ints]:
        """(kinds of pods in the order of their arrival, order of the nodes) for a seed.

        As published (pkg/simulator/simulator.go): the list is shuffled; then pods drawn from it are appended until the
        next one would exceed ARRIVING of the devices, or pods are dropped at random until it is not exceeded any more.
        Nodes get random names, and ties go to the first name. The generator is another one, so the lists differ.
        """
        random = np.random.default_rng(seed)
        found = random.permutation(self.pods).tolist()
        goal, total = ARRIVING * self.capacity, int(self.volumes[self.pods].sum())
        while total > goal:
            total -= int(self.volumes[found.pop(int(random.integers(len(found))))])
        if total < goal and len(found) == len(self.pods):
            while True:
                kind = int(self.pods[random.integers(len(self.pods))])
                if total + self.kinds[kind].milli > goal:
                    break
                total += self.kinds[kind].volume
                found.append(kind)
        return np.array(found, np.int64), random.permutation(len(self.cpu))


def names(data: Path) -> list[str]:
    """The workloads of a folder. Raises UsageError where there is none."""
    found = sorted(
        path.name.removeprefix("pods_").removesuffix(".csv.gz") for path in _folder(data).glob("pods_*.csv.gz")
    )
    if not found:
        raise UsageError(f"--data {data}: there is no {FOLDER}/pods_NAME.csv.gz. Give the folder that holds {FOLDER}/.")
    return found


def workload(data: Path, name: str) -> TraceWorkload:
    """One pod list with its nodes; one of `lists.REDRAWN` that is not in the folder is drawn from those that are.

    Raises UsageError for a file that is missing, BadTrace for one that is broken.
    """
    nodes = sorted(_table(_folder(data) / "nodes.csv.gz", ("sn", "cpu_milli", "memory_mib", "gpu", "model"), _node))
    pods = redraw(name, lambda source: _pods(data, source)) if name in missing(data) else _pods(data, name)
    kinds = sorted(set(pods), key=lambda k: (k.cpu, k.memory, k.count, k.milli, k.models))
    index = {kind: row for row, kind in enumerate(kinds)}
    found = TraceWorkload(
        name,
        np.array([each[1] for each in nodes], float),
        np.array([each[2] for each in nodes], float),
        np.array([each[3] for each in nodes], np.int64),
        tuple(each[4] for each in nodes),
        tuple(kinds),
        np.array([index[kind] for kind in pods], np.int64),
    )
    if not found.capacity or not found.volumes.any():
        raise BadTrace(f"{_folder(data)}: no node has a device, or no pod of {name} asks for one.")
    return found


def missing(data: Path) -> list[str]:
    """The lists of the trace that the folder has not, and that can be drawn from those that it has."""
    return [name for name in REDRAWN if not (_folder(data) / f"pods_{name}.csv.gz").exists()]


def _pods(data: Path, name: str) -> list[PodKind]:
    """In the order of their names."""
    columns = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
    rows = _table(_folder(data) / f"pods_{name}.csv.gz", columns, _pod)
    return [kind for _, kind in sorted(rows, key=lambda row: row[0])]


def published(data: Path, workloads: Sequence[str]) -> list[dict[str, object]]:
    """The published results of these workloads: allocated percent of the devices at 130 % of arrivals, by seed."""
    path = _folder(data) / "published_allocation.csv.gz"
    arriving = str(round(100 * ARRIVING))
    rows = _table(path, ("workload", "sc_policy", "seed", arriving), lambda row: row)
    found: list[dict[str, object]] = []
    for row in rows:
        name, policy = row["workload"].removeprefix(_LIST), POLICIES.get(row["sc_policy"], row["sc_policy"])
        if name in workloads:
            try:
                seed, allocated = int(row["seed"]), float(row[arriving])
            except ValueError as error:
                raise BadTrace(f"{path}: {error}, for {name} by {policy}.") from None
            found.append({"workload": name, "policy": policy, "seed": seed, "allocated_percent": allocated})
    return found


def _folder(data: Path) -> Path:
    return data / FOLDER


def _node(row: Mapping[str, str]) -> tuple[str, int, int, int, str]:
    return (
        row["sn"],
        _whole(row, "cpu_milli", _LARGEST),
        _whole(row, "memory_mib", _LARGEST),
        _whole(row, "gpu", _DEVICES),
        row["model"],
    )


def _pod(row: Mapping[str, str]) -> tuple[str, PodKind]:
    """Some lists have no column gpu_spec."""
    count, milli = _whole(row, "num_gpu", _DEVICES), _whole(row, "gpu_milli", MILLI)
    models = tuple(each for each in (row.get("gpu_spec") or "").split("|") if each)
    asks = count > 0 and milli > 0
    return row["name"], PodKind(
        _whole(row, "cpu_milli", _LARGEST),
        _whole(row, "memory_mib", _LARGEST),
        count if asks else 0,
        milli if asks else 0,
        models if asks else (),
    )


def _whole(row: Mapping[str, str], column: str, most: int) -> int:
    text = row[column]
    if not text.isdecimal() or int(text) > most:
        raise ValueError(f"{column} is {text!r}; a whole number from 0 to {most} is expected")
    return int(text)


def _table(path: Path, columns: Sequence[str], read: Callable[[Mapping[str, str]], T]) -> list[T]:
    return list(_rows(path, columns, read))


def _rows(path: Path, columns: Sequence[str], read: Callable[[Mapping[str, str]], T]) -> Iterator[T]:
    seen: set[str] = set()
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            absent = [column for column in columns if column not in (reader.fieldnames or ())]
            if absent:
                raise BadTrace(f"{path}: the column {absent[0]} is missing.")
            for row in reader:
                if None in row.values() or reader.line_num > _ROWS:
                    raise BadTrace(f"{path}: line {reader.line_num} is cut off, or one of too many.")
                if columns[0] in ("sn", "name"):
                    if row[columns[0]] in seen:
                        raise BadTrace(f"{path}: line {reader.line_num} has {row[columns[0]]} a second time.")
                    seen.add(row[columns[0]])
                try:
                    yield read(row)
                except ValueError as error:
                    raise BadTrace(f"{path}: line {reader.line_num}: {error}.") from None
    except FileNotFoundError:
        raise UsageError(f"--data: {path} is missing.") from None
    except (OSError, EOFError, zlib.error, csv.Error, UnicodeDecodeError) as error:
        raise BadTrace(f"{path} is no complete gzip file of comma-separated values: {error}.") from None
