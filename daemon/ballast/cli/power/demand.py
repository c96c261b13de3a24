"""Reads what autoscalers want, and what replicas really draw, for a replay."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

from ballast.base.errors import UsageError
from ballast.power.policy import PowerPolicy
from ballast.power.replay import RecordedDemand
from ballast.power.values import exact
from ballast.telemetry.feeds.power_feed import unix_time

COLUMNS = ("time", "ns/name", "replicas")


def demand_of(policy: PowerPolicy, path: Path) -> RecordedDemand:
    """The demand in a CSV with the columns time, ns/name, replicas. Raises UsageError."""
    found: dict[str, list[tuple[Fraction, int]]] = {}
    source = f"--demand {path}"
    with _reading(source, path) as rows:
        columns = rows.fieldnames or ()
        if not set(COLUMNS) <= set(columns):
            raise UsageError(
                f"{source}: expected the columns {','.join(COLUMNS)}, found {','.join(columns) or 'none'}."
            )
        for row in rows:
            name, at, count = _row(policy, source, rows.line_num, row)
            found.setdefault(name, []).append((at, count))
    return _in_order(found)


def needs_of(policy: PowerPolicy, path: Path) -> RecordedDemand:
    """What members with `needs` need: columns of a feed that are named after them. Raises UsageError."""
    names = [name for name, place in policy.places.items() if place.member.needs is not None]
    found: dict[str, list[tuple[Fraction, int]]] = {}
    source = f"--feed {path}"
    with _reading(source, path) as rows:
        for row in rows:
            for name in (name for name in names if (row.get(name) or "").strip()):
                column = {**row, "ns/name": name, "replicas": row[name]}
                _, at, count = _row(policy, source, rows.line_num, column)
                found.setdefault(name, []).append((at, count))
    return _in_order(found)


@contextmanager
def _reading(source: str, path: Path) -> Iterator[csv.DictReader[str]]:
    """The rows of a CSV file; spaces around names of columns do not count. Raises UsageError."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file, skipinitialspace=True)
            rows.fieldnames = [name.strip() for name in rows.fieldnames or ()]
            yield rows
    except OSError as error:
        raise UsageError(f"{source} cannot be read: {error.strerror}.") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{source} cannot be read: {error}.") from error


def _in_order(found: Mapping[str, list[tuple[Fraction, int]]]) -> RecordedDemand:
    return RecordedDemand({name: sorted(rows, key=lambda row: row[0]) for name, rows in found.items()})


def watts_true_of(policy: PowerPolicy, given: Sequence[str]) -> dict[str, Fraction]:
    """Watts by namespace/name from NS/NAME=W. Raises UsageError."""
    found: dict[str, Fraction] = {}
    for text in given:
        name, _, watts = (part.strip() for part in text.partition("="))
        if name not in policy.places:
            raise UsageError(
                f"--watts-true {text}: expected NS/NAME=W with a target of the policy: {', '.join(policy.places)}."
            )
        try:
            found[name] = exact(watts)
        except ValueError:
            found[name] = Fraction(0)
        if found[name] <= 0:
            raise UsageError(f"--watts-true {text}: expected NS/NAME=W with watts above 0.")
    return found


def _row(policy: PowerPolicy, file: str, line: int, row: dict[str, str | None]) -> tuple[str, Fraction, int]:
    name, text = (row["ns/name"] or "").strip(), (row["replicas"] or "").strip()
    if name not in policy.places:
        raise UsageError(
            f"{file}, line {line}: {name or 'an empty name'} is no target of the policy; expected one of "
            f"{', '.join(policy.places)}."
        )
    if not text.isascii() or not text.isdigit():
        raise UsageError(f"{file}, line {line}: replicas is {text!r}, expected a whole number of at least 0.")
    try:
        return name, exact(unix_time((row["time"] or "").strip())), int(text)
    except ValueError:
        raise UsageError(f"{file}, line {line}: time is {row['time']!r}, expected seconds or RFC 3339.") from None
