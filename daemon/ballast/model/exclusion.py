"""Whether annotations keep Ballast away: the nearest object that says anything wins, the unreadable excludes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TypeAlias

import msgspec

Said: TypeAlias = tuple[str, Mapping[str, str]]
"""How an object is called, and its annotations."""


class Exclusion(msgspec.Struct, frozen=True):
    """`reason` says which annotation of which object; `unreadable` that its value means nothing."""

    reason: str
    unreadable: bool = False


def exclusion(objects: Iterable[Said], prefix: str, now: float) -> Exclusion | None:
    """What `exclude` and `exclude-until` say for every part. `objects` come nearest first, `now` is Unix seconds."""
    for what, said in objects:
        exclude, until = said.get(f"{prefix}/exclude"), said.get(f"{prefix}/exclude-until")
        if exclude is None and until is None:
            continue
        if exclude not in (None, "false"):
            return _flagged(what, f"{prefix}/exclude", exclude or "")
        return None if until is None else _until(now, what, f"{prefix}/exclude-until", until)
    return None


def part_exclusion(objects: Iterable[Said], prefix: str, part: str) -> Exclusion | None:
    """What `exclude-<part>` says."""
    key = f"{prefix}/exclude-{part}"
    for what, said in objects:
        value = said.get(key)
        if value is not None:
            return None if value == "false" else _flagged(what, key, value)
    return None


def by_operator(objects: Iterable[Said], keys: frozenset[str]) -> list[Said]:
    """The objects without those of `keys` that a tenant has set: they count on namespaces, which come last, alone."""
    return [
        (what, said if what.startswith("namespace ") else {key: said[key] for key in said if key not in keys})
        for what, said in objects
    ]


def _flagged(what: str, key: str, value: str) -> Exclusion:
    note = "" if value == "true" else ', which is neither "true" nor "false"'
    return Exclusion(f'{what} has {key}: "{value}"{note}', unreadable=bool(note))


def _until(now: float, what: str, key: str, value: str) -> Exclusion | None:
    try:
        end = datetime.fromisoformat(value)
    except ValueError:
        end = None
    if end is None or end.tzinfo is None:
        return Exclusion(f'{what} has {key}: "{value}", which is no RFC 3339 time', unreadable=True)
    return Exclusion(f"{what} is excluded until {value}") if end.timestamp() > now else None
