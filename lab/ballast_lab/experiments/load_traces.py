"""Public traces of load: read from a folder that the user fetched; none of them is part of Ballast.

* PlanetLab, `planetlab_DAY.csv.gz`: a name and 288 percents of CPU in a line, one every 5 minutes (CoMon, from GitHub
  Cloudslab/cloudsim).
* Google 2011, `google2011_jobs.csv.gz`: a head, then a name, 288 percents of CPU and 288 of memory in a line (GitHub
  dnhua/CPU-and-Memory-resource-usage-from-Google-Cluster-Data).
* Alibaba 2018, `alibaba2018_machines.csv.gz`: `machine_id,time_stamp,cpu_util,…` in percent, every 10 to 60 s (GitHub
  gohsyi/cluster_optimization, from alibaba/clusterdata).
* Bitbrains, `bitbrains.parquet` and `bitbrains_meta.parquet`: MHz of virtual machines whenever they change (GitHub
  atlarge-research/opendc).
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ballast.base.errors import UsageError
from ballast.model.sample import Floats

SAMPLES = 288
"""Samples of a day, one every 5 minutes."""

MINUTE, FIVE_MINUTES = 60.0, 300.0


@dataclass(frozen=True)
class LoadTrace:
    """`parts` are [node, time] fractions of CPU, NaN where nothing is known, with a sample every `step` seconds.

    Nodes are compared within a part only.
    """

    name: str
    step: float
    parts: tuple[Floats, ...]


def load_traces(data: Path) -> tuple[list[LoadTrace], list[str]]:
    """The traces in `data`/load, and one sentence for each that is not there or cannot be read here.

    Raises UsageError where there is none, and for a file that is damaged.
    """
    folder = data / "load"
    if not folder.is_dir():
        raise UsageError(
            f"--data {data}: there is no folder load in it. Give the folder that has load/ with the traces."
        )
    found, missing = [], []
    for name, read in _READERS.items():
        try:
            trace = read(folder)
        except ModuleNotFoundError as error:
            missing.append(f"{name} is left out: {error.name} is not installed. Install it with: {_INSTALL}")
            continue
        if trace is None:
            missing.append(f"{name} is left out: it is not in {folder}.")
        else:
            found.append(trace)
    others, unreadable = _others(folder)
    found += others
    missing += unreadable
    if not found:
        raise UsageError(f"--data {data}: no trace can be read. {' '.join(missing)}")
    return found, missing


def _others(folder: Path) -> tuple[list[LoadTrace], list[str]]:
    """Traces of other names in one of the two formats: a day in a line, or a sample of a machine in a line."""
    found, unreadable = [], []
    for path in sorted(path for suffix in ("*.csv.gz", "*.csv") for path in folder.glob(suffix)):
        if path.name.startswith(("planetlab_", "google2011_jobs.", "alibaba2018_machines.")):
            continue
        try:
            found.append(_any(path))
        except UsageError as error:
            unreadable.append(f"{path.name} is left out: {error}")
    return found, unreadable


def _any(path: Path) -> LoadTrace:
    name = path.name.partition(".csv")[0]
    head = next((row for _, row in _lines(path)), [])
    if head[:3] == ["machine_id", "time_stamp", "cpu_util"]:
        return LoadTrace(name, MINUTE, (_machines(path),))
    titled = len(head) > 1 and not _is_number(head[1])
    width = len(head)
    if width <= SAMPLES // 6:
        raise UsageError(f"{path}: a line has {width} values. Give a name and the percents of a day in each line.")
    load = _rows(path, width, head=titled)
    # With twice a day's samples of five minutes the second half is memory, as in Google's trace.
    load = load[:, :SAMPLES] if load.shape[1] == 2 * SAMPLES else load
    return LoadTrace(name, 24 * 60 * MINUTE / load.shape[1], (load,))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _planetlab(folder: Path) -> LoadTrace | None:
    days = [_rows(path, 1 + SAMPLES)[:, :SAMPLES] for path in sorted(folder.glob("planetlab_*.csv.gz"))]
    return LoadTrace("PlanetLab", FIVE_MINUTES, tuple(days)) if days else None


def _google(folder: Path) -> LoadTrace | None:
    path = folder / "google2011_jobs.csv.gz"
    if not path.exists():
        return None
    return LoadTrace("Google", FIVE_MINUTES, (_rows(path, 1 + 2 * SAMPLES, head=True)[:, :SAMPLES],))


def _alibaba(folder: Path) -> LoadTrace | None:
    path = folder / "alibaba2018_machines.csv.gz"
    return LoadTrace("Alibaba", MINUTE, (_machines(path),)) if path.exists() else None


def _machines(path: Path) -> Floats:
    """[machine, minute] of a file with a sample of a machine in each line."""
    samples: dict[str, list[tuple[float, float]]] = {}
    for number, row in _lines(path):
        if number == 1:
            if row[:3] != ["machine_id", "time_stamp", "cpu_util"]:
                raise _damaged(path, number, "it should begin with machine_id,time_stamp,cpu_util")
            continue
        if len(row) < 3:
            raise _damaged(path, number, f"it has {len(row)} values; at least 3 are needed")
        time = _number(path, number, row[1])
        there = samples.setdefault(row[0], [])
        if there and time < there[-1][0]:
            raise _damaged(path, number, f"the time {row[1]} of {row[0]} is before the one above")
        if row[2]:
            there.append((time, _number(path, number, row[2]) / 100))
    samples = {name: each for name, each in samples.items() if each}
    if len(samples) < 2:
        raise UsageError(f"{path}: it has fewer than two machines. Fetch it again.")
    return _minutes(list(samples.values()))


def _minutes(samples: list[list[tuple[float, float]]]) -> Floats:
    """[node, minute]: the mean of the samples of each minute, NaN without any."""
    start = min(each[0][0] for each in samples) // MINUTE
    last = max(each[-1][0] for each in samples) // MINUTE
    load = np.full((len(samples), int(last - start) + 1), np.nan)
    for row, each in enumerate(samples):
        at = np.array([time // MINUTE - start for time, _ in each], np.int64)
        counts = np.bincount(at, minlength=load.shape[1])
        sums = np.bincount(at, weights=[value for _, value in each], minlength=load.shape[1])
        load[row, counts > 0] = sums[counts > 0] / counts[counts > 0]
    return load


def _bitbrains(folder: Path) -> LoadTrace | None:
    path, about = folder / "bitbrains.parquet", folder / "bitbrains_meta.parquet"
    if not path.exists() or not about.exists():
        return None
    whole = _columns(about, ("id", "cpu_capacity"))
    capacity = dict(zip(whole["id"].tolist(), whole["cpu_capacity"].tolist(), strict=True))
    rows = _columns(path, ("id", "timestamp", "duration", "cpu_usage"))
    ends = rows["timestamp"].astype("datetime64[ms]").astype(np.int64) / 1000
    lengths = rows["duration"].astype(float) / 1000
    names = rows["id"]
    grid = np.arange(ends.min(), ends.max() + 1, FIVE_MINUTES)
    nodes = []
    for name in sorted(set(names.tolist()) & capacity.keys()):
        mine = np.flatnonzero(names == name)
        if not (np.diff(ends[mine]) > 0).all():
            raise UsageError(f"{path}: the times of {name} do not rise. Fetch it again.")
        at = np.minimum(np.searchsorted(ends[mine], grid), len(mine) - 1)
        covered = (grid <= ends[mine[at]]) & (grid > ends[mine[at]] - lengths[mine[at]])
        nodes.append(np.where(covered, rows["cpu_usage"][mine[at]] / capacity[name], np.nan))
    if len(nodes) < 2:
        raise UsageError(f"{path}: it has fewer than two machines of {about.name}. Fetch both again.")
    return LoadTrace("Bitbrains", FIVE_MINUTES, (np.array(nodes),))


def _columns(path: Path, names: tuple[str, ...]) -> Mapping[str, Any]:
    """Columns of a Parquet file as arrays. Raises ModuleNotFoundError where pyarrow is not installed."""
    parquet, arrow = import_module("pyarrow.parquet"), import_module("pyarrow")
    try:
        table = parquet.read_table(path, columns=list(names))
        return {name: table.column(name).to_numpy() for name in names}
    except (OSError, KeyError, arrow.ArrowException) as error:
        why = " ".join(str(error).split())
        raise UsageError(f"{path}: it cannot be read: {why}. Fetch it again.") from None


def _rows(path: Path, width: int, *, head: bool = False) -> Floats:
    """[line, value] fractions, without the name that each line begins with."""
    rows = []
    names: set[str] = set()
    for number, row in _lines(path):
        if head and number == 1:
            continue
        if len(row) != width:
            raise _damaged(path, number, f"it has {len(row)} values; a name and {width - 1} percents are needed")
        if row[0] in names:
            raise _damaged(path, number, f"{row[0]} is there a second time")
        names.add(row[0])
        rows.append([_number(path, number, value) / 100 for value in row[1:]])
    if len(rows) < 2:
        raise UsageError(f"{path}: it has fewer than two lines of load. Fetch it again.")
    return np.array(rows, float)


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    try:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8", newline="") as file:
            yield from enumerate(csv.reader(file), 1)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{path}: it cannot be read: {error}. Fetch it again.") from None


def _number(path: Path, line: int, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = np.nan
    if not np.isfinite(number) or number < 0:
        raise _damaged(path, line, f"{text!r} is no number from 0 on")
    return number


def _damaged(path: Path, line: int, why: str) -> UsageError:
    return UsageError(f"{path}, line {line}: {why}. Fetch the file again.")


_INSTALL = "pip install '.[experiments]'"
_READERS: Mapping[str, Callable[[Path], LoadTrace | None]] = {
    "PlanetLab": _planetlab,
    "Google": _google,
    "Alibaba": _alibaba,
    "Bitbrains": _bitbrains,
}
