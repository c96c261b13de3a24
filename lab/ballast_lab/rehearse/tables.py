"""Tables of a recording: a Parquet file or a CSV file, read in batches of columns."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ballast.base.errors import BadFile, UsageError
from ballast.model.sample import Floats, Ints

FORMS = (".parquet", ".csv", ".csv.gz")
ROWS = 1 << 18
"""Rows that are read at once."""

Row: TypeAlias = dict[str, Any]
INSTALL = "pip install '.[experiments]'"


@dataclass(frozen=True)
class Batch:
    """Some rows of a table of samples. `keys` index into `names`, values are [column, row], NaN where none is given."""

    times: Floats
    names: Sequence[str]
    keys: Ints
    values: Floats


def find(folder: Path, name: str) -> Path | None:
    """The file of a table, whatever its form, or the folder of its parts."""
    files = (path for form in FORMS if (path := folder / f"{name}{form}").is_file())
    return next(files, folder / name if (folder / name).is_dir() else None)


def rows(path: Path, needed: Sequence[str]) -> Iterator[Row]:
    """The rows of a small table. Raises BadFile for a damaged file or a missing column."""
    if path.suffix == ".parquet":
        table = _open(path).read()
        _check(path, table.column_names, needed)
        yield from table.to_pylist()
        return
    lines = _lines(path)
    _, head = next(lines, (0, []))
    _check(path, head, needed)
    for number, line in lines:
        if len(line) != len(head):
            raise BadFile(f"{path}, line {number}: it has {len(line)} values, the head has {len(head)}.")
        yield {name: value if value != "" else None for name, value in zip(head, line, strict=True)}


def samples(path: Path, key: str, columns: Sequence[str], since: float = -np.inf) -> Iterator[Batch]:
    """The rows of a table of samples in their order: `time` in Unix seconds, the `key` column, and numbers.

    Parts that end before `since` are left out. Raises BadFile for a damaged file, a missing column or what is no
    number.
    """
    for part in parts(path) if path.is_dir() else (Part(path, -np.inf, np.inf),):
        if part.end >= since:
            yield from (_parquet if part.path.suffix == ".parquet" else _text)(part.path, key, columns)


@dataclass(frozen=True)
class Part:
    """A file of a table in parts, named FROM-TO in Unix seconds."""

    path: Path
    begin: float
    end: float


def parts(folder: Path) -> list[Part]:
    """In the order of time. Raises BadFile for a name that gives no time."""
    found = []
    for path in folder.iterdir():
        times = _PART.fullmatch(path.name)
        if times is None:
            if path.suffix != ".new":
                raise BadFile(f"{path}: parts are called FROM-TO.parquet or .csv.gz, in Unix seconds. Remove it.")
            continue
        found.append(Part(path, float(times[1]), float(times[2])))
    return sorted(found, key=lambda part: part.begin)


_PART = re.compile(r"(\d+)-(\d+)(?:\.parquet|\.csv|\.csv\.gz)")


def part_of(folder: Path, begin: float, end: float) -> Path:
    """Where a part is written."""
    suffix = ".parquet" if find_spec("pyarrow") else ".csv.gz"
    return folder / f"{begin:.0f}-{end:.0f}{suffix}"


def write_part(
    path: Path, key: str, columns: Sequence[str], times: Floats, names: Sequence[str], values: Floats
) -> None:
    """`values` are [column, name, time]; what is NaN in every column is left out. The file is there whole or not."""
    known = np.isfinite(values).any(axis=0).T
    place, row = np.nonzero(known)
    stamps = times[place]
    picked = values[:, row, place]
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.new")
    if path.suffix == ".parquet":
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
        named = arrow.DictionaryArray.from_arrays(arrow.array(row.astype(np.int32)), arrow.array(list(names)))
        amounts = {name: arrow.array(picked[column].astype(np.float32)) for column, name in enumerate(columns)}
        parquet.write_table(arrow.table({"time": arrow.array(stamps), key: named, **amounts}), new, compression="zstd")
    else:
        with gzip.GzipFile(new, "wb", mtime=0) as packed, io.TextIOWrapper(packed, "utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["time", key, *columns])
            texts = [[f"{value:.7g}" if value == value else "" for value in column.tolist()] for column in picked]
            writer.writerows(zip(stamps.tolist(), [names[each] for each in row.tolist()], *texts, strict=True))
    new.replace(path)


def write_rows(path: Path, head: Sequence[str], rows: Iterable[Row]) -> None:
    """A small table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.new")
    with new.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, head)
        writer.writeheader()
        writer.writerows(rows)
    new.replace(path)


def _parquet(path: Path, key: str, columns: Sequence[str]) -> Iterator[Batch]:
    arrow = import_module("pyarrow")
    file = _open(path, key)
    _check(path, file.schema_arrow.names, ("time", key, *columns))
    try:
        # One group of rows after the other: a reader of all of them keeps what it has read.
        groups = (file.iter_batches(ROWS, [group], ["time", key, *columns]) for group in range(file.num_row_groups))
        for batch in chain.from_iterable(groups):
            named = batch.column(key)
            named = named if arrow.types.is_dictionary(named.type) else named.dictionary_encode()
            if named.null_count:
                raise BadFile(f"{path}: {named.null_count} rows have no {key}. Name it in each row, or remove them.")
            yield Batch(
                _seconds(batch.column("time")),
                named.dictionary.to_pylist(),
                named.indices.to_numpy(zero_copy_only=False).astype(np.int64),
                np.stack([np.asarray(batch.column(name).to_numpy(zero_copy_only=False), float) for name in columns]),
            )
    except (OSError, ValueError, arrow.ArrowException) as error:
        raise BadFile(
            f"{path} cannot be read: {' '.join(str(error).split())}. Remove it and record it again."
        ) from None


def _seconds(column: Any) -> Floats:
    """Unix seconds of a column of numbers or of timestamps."""
    values = column.to_numpy(zero_copy_only=False)
    if np.issubdtype(values.dtype, np.datetime64):
        return np.asarray(values.astype("datetime64[ms]").astype(np.int64) / 1000)
    return np.asarray(values, float)


def _open(path: Path, key: str | None = None) -> Any:
    try:
        parquet, arrow = import_module("pyarrow.parquet"), import_module("pyarrow")
    except ModuleNotFoundError:
        raise UsageError(
            f"{path} is a Parquet file, and pyarrow is not installed. Install it with: {INSTALL}"
        ) from None
    try:
        return parquet.ParquetFile(path, read_dictionary=[key] if key else None, pre_buffer=False)
    except (OSError, arrow.ArrowException) as error:
        raise BadFile(f"{path} cannot be read: {' '.join(str(error).split())}. Record it again.") from None


def _text(path: Path, key: str, columns: Sequence[str]) -> Iterator[Batch]:
    lines = _lines(path)
    _, head = next(lines, (0, []))
    _check(path, head, ("time", key, *columns))
    places = [head.index(name) for name in ("time", key, *columns)]
    numbers: dict[str, int] = {}
    kept: list[tuple[float, ...]] = []
    for number, line in lines:
        try:
            time, name, *values = (line[place] for place in places)
            amounts = [float(value) if value else np.nan for value in values]
            kept.append((float(time), numbers.setdefault(name, len(numbers)), *amounts))
        except (ValueError, IndexError) as error:
            raise BadFile(f"{path}, line {number}: {error}. Give time,{key},{','.join(columns)}.") from None
        if len(kept) == ROWS:
            yield _batch(kept, numbers)
            kept = []
    if kept:
        yield _batch(kept, numbers)


def _batch(kept: Sequence[tuple[float, ...]], numbers: Mapping[str, int]) -> Batch:
    table = np.array(kept, float)
    return Batch(table[:, 0], list(numbers), table[:, 1].astype(np.int64), table[:, 2:].T)


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Lines of a CSV file with their numbers. Raises BadFile where it cannot be read."""
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
            yield from ((number, line) for number, line in enumerate(csv.reader(file), 1) if line)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise BadFile(f"{path} cannot be read: {error}. Record it again.") from None


def _check(path: Path, head: Sequence[str], needed: Sequence[str]) -> None:
    missing = [name for name in needed if name not in head]
    if missing:
        raise BadFile(f"{path} has no column {', '.join(missing)}. Columns needed: {', '.join(needed)}.")
