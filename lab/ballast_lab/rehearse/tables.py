"""Tables of a recording: a Parquet file or a CSV file, read in batches of columns."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ballast.base.errors import BadFile, UsageError
from ballast.model.sample import Floats, Ints

FORMS = (".parquet", ".csv", ".csv.gz")
ROWS = 1 << 18
"""Rows that are read at once."""

Row: TypeAlias = dict[str, Any]
INSTALL = "pip install 'kube-ballast[experiments]'"


@dataclass(frozen=True)
class Batch:
    """Some rows of a table of samples. `keys` index into `names`, values are [column, row], NaN where none is given."""

    times: Floats
    names: Sequence[str]
    keys: Ints
    values: Floats


def find(folder: Path, name: str) -> Path | None:
    """The file of a table, whatever its form."""
    return next((path for form in FORMS if (path := folder / f"{name}{form}").is_file()), None)


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


def samples(path: Path, key: str, columns: Sequence[str]) -> Iterator[Batch]:
    """The rows of a table of samples in their order: `time` in Unix seconds, the `key` column, and numbers.

    Raises BadFile for a damaged file, a missing column or what is no number.
    """
    yield from (_parquet if path.suffix == ".parquet" else _text)(path, key, columns)


def _parquet(path: Path, key: str, columns: Sequence[str]) -> Iterator[Batch]:
    arrow = import_module("pyarrow")
    file = _open(path, key)
    _check(path, file.schema_arrow.names, ("time", key, *columns))
    try:
        for batch in file.iter_batches(ROWS, columns=["time", key, *columns]):
            named = batch.column(key)
            named = named if arrow.types.is_dictionary(named.type) else named.dictionary_encode()
            yield Batch(
                _seconds(batch.column("time")),
                named.dictionary.to_pylist(),
                named.indices.to_numpy(zero_copy_only=False).astype(np.int64),
                np.stack([np.asarray(batch.column(name).to_numpy(zero_copy_only=False), float) for name in columns]),
            )
    except (OSError, ValueError, arrow.ArrowException) as error:
        raise BadFile(f"{path} cannot be read: {' '.join(str(error).split())}. Record it again.") from None


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
        return parquet.ParquetFile(path, read_dictionary=[key] if key else None)
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
        with opened(path, "rt", encoding="utf-8", newline="") as file:
            yield from enumerate(csv.reader(file), 1)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise BadFile(f"{path} cannot be read: {error}. Record it again.") from None


def _check(path: Path, head: Sequence[str], needed: Sequence[str]) -> None:
    missing = [name for name in needed if name not in head]
    if missing:
        raise BadFile(f"{path} has no column {', '.join(missing)}. Columns needed: {', '.join(needed)}.")
