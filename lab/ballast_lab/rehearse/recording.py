"""A recording: a folder with what nodes and pods used, in the order of time, and where the pods were.

    recording.json   {"version": 1, "from", "to", "step", "unknown": [{"what", "share"}]}   Unix seconds
    nodes            node,cpu,memory[,pods,cpu_capacity,memory_capacity,labels,taints,start,end]
    pods             namespace,pod,node[,kind,workload,cpu,memory,priority,labels,start,end,ready]
    node_usage       time,node,cpu,memory       cores and bytes in use
    pod_usage        time,pod,cpu,memory        `pod` is namespace/name
    budgets          namespace,name,selector,allowed   (optional)
    cluster.json     what kubectl prints of the objects (optional)

Each table is NAME.parquet, NAME.csv or NAME.csv.gz; samples may be a folder NAME of parts called FROM-TO in Unix
seconds. Only what is needed at a time is in memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np

from ballast.base.errors import BadFile, UsageError
from ballast.model.sample import Floats, Ints
from ballast_lab.rehearse import tables
from ballast_lab.rehearse.history import RESOURCES, History, Unknown, read_history
from ballast_lab.rehearse.tables import Batch

HEAD_FILE = "recording.json"
VERSION = 1
NODE_USAGE, POD_USAGE = "node_usage", "pod_usage"
NEWEST = 253_402_300_799.0
"""The last second of the year 9999: what is beyond is no time in seconds."""
HELD = 1.5
"""Distances of samples over which the last one still counts."""


class Head(msgspec.Struct, frozen=True):
    """recording.json."""

    begin: float = msgspec.field(name="from")
    end: float = msgspec.field(name="to")
    step: float
    version: int = VERSION
    unknown: tuple[Unknown, ...] = ()


@dataclass(frozen=True)
class Use:
    """What was used at one time: cores and bytes, NaN where unknown. Numbers of pods are those of their titles."""

    time: float
    nodes: Floats
    """[resource, node]"""
    pods: Floats
    """[resource, title]"""
    latest: Floats
    """[resource, title]: the same, or what was known last; good until the next time."""


@dataclass(frozen=True)
class Recording:
    """A recording that can be played."""

    folder: Path
    head: Head
    history: History

    def play(self, begin: float, end: float, step: float) -> Iterator[Use]:
        """What was used at `begin`, and every `step` seconds until `end`; a sample counts until the next one is due.

        Raises BadFile where a table is damaged or not in the order of time.
        """
        hold = max(step, self.head.step) * HELD
        rows, titles = self.history.rows, self.history.titles
        nodes = _Track(_table(self.folder, NODE_USAGE), "node", rows, hold, begin)
        pods = _Track(_table(self.folder, POD_USAGE), "pod", titles, hold, begin)
        for number in range(math.floor((end - begin) / step + 1e-9) + 1):
            time = begin + number * step
            yield Use(time, nodes.at(time), pods.at(time), pods.latest)


class _Track:
    """Follows one table: the last values until a time."""

    def __init__(self, path: Path, key: str, numbers: Mapping[str, int], hold: float, begin: float) -> None:
        self._path, self._numbers, self._hold = path, numbers, hold
        self._batches = tables.samples(path, key, RESOURCES, begin - hold)
        self.latest = np.full((len(RESOURCES), len(numbers)), np.nan)
        self._times = np.full(len(numbers), -np.inf)
        self._batch: Batch | None = None
        self._rows: Ints = np.empty(0, np.int64)
        self._place = 0
        self._latest = -np.inf
        self._names: Sequence[str] = ()
        self._known: Ints = np.empty(0, np.int64)

    def at(self, time: float) -> Floats:
        """[resource, number]: the newest values that are not older than the hold."""
        while self._batch is not None or self._next():
            assert self._batch is not None
            stop = int(np.searchsorted(self._batch.times, time, side="right"))
            self._take(slice(self._place, stop))
            self._place = max(self._place, stop)
            if stop < len(self._batch.times):
                break
            self._batch = None
        return np.where(self._times > time - self._hold, self.latest, np.nan)

    def _next(self) -> bool:
        batch = next(self._batches, None)
        if batch is None:
            return False
        # What no node or pod can use is not known.
        possible = np.isfinite(batch.values) & (batch.values >= 0)
        self._batch = replace(batch, values=np.where(possible, batch.values, np.nan))
        times = batch.times
        if len(times) and (not np.isfinite(times).all() or times[0] < self._latest or (np.diff(times) < 0).any()):
            raise BadFile(f"{self._path}: the rows are not in the order of time. Sort them by the column time.")
        self._latest = float(times[-1]) if len(times) else self._latest
        if batch.names != self._names:
            self._names = batch.names
            self._known = np.array([self._numbers.get(name, -1) for name in batch.names], np.int64)
        self._rows, self._place = self._known[batch.keys], 0
        return True

    def _take(self, part: slice) -> None:
        assert self._batch is not None
        rows, times = self._rows[part], self._batch.times[part]
        named = rows >= 0
        if not named.all():
            rows, times = rows[named], times[named]
        values = self._batch.values[:, part]
        self.latest[:, rows] = values if named.all() else values[:, named]
        self._times[rows] = times


def open_recording(folder: Path, cluster: object = None, source: str = "") -> Recording:
    """Raises UsageError where there is no such folder, BadFile for what it lacks or what is damaged."""
    if not folder.is_dir():
        raise UsageError(f"--recording {folder}: there is no such folder. Make one with `ballast rehearse record`.")
    for name in (NODE_USAGE, POD_USAGE):
        _table(folder, name)
    head = _head(folder)
    return Recording(folder, head, read_history(folder, cluster, source))


def _head(folder: Path) -> Head:
    path = folder / HEAD_FILE
    if not path.is_file():
        path = _table(folder, NODE_USAGE)
        return _checked(_measured_head(path), path)
    try:
        head = msgspec.json.decode(path.read_bytes(), type=Head)
    except (OSError, msgspec.DecodeError) as error:
        raise BadFile(f"{path}: {error}. Record it again.") from None
    if head.version != VERSION:
        raise BadFile(f"{path}: version {head.version} is not known here; {VERSION} is. Record it again.")
    return _checked(head, path)


def _checked(head: Head, path: Path) -> Head:
    if not 0 <= head.begin < head.end <= NEWEST or not head.step > 0:
        raise BadFile(
            f"{path} goes from {head.begin:g} to {head.end:g} in steps of {head.step:g} s. Times are Unix seconds, the "
            "begin is before the end, and the step is above 0."
        )
    return head


def _measured_head(path: Path) -> Head:
    """From the times of a table."""
    first, last = math.inf, -math.inf
    gaps: list[float] = []
    for batch in tables.samples(path, "node", RESOURCES):
        moments = np.unique(batch.times)
        gaps += np.diff(moments).tolist()
        first, last = min(first, float(moments[0])), max(last, float(moments[-1]))
    if not gaps:
        raise BadFile(f"{path} has samples of fewer than two times. Record for longer.")
    return Head(first, last, float(np.median(gaps)))


def _table(folder: Path, name: str) -> Path:
    path = tables.find(folder, name)
    if path is None:
        raise BadFile(f"{folder} has no {name}.parquet or {name}.csv. Make a recording with `ballast rehearse record`.")
    return path
