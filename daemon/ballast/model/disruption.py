"""What keeps pods where they are: budgets that can never be met, and annotations that exclude."""

import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

import msgspec


def never_allows(most: int | str | None, least: int | str | None, expected: int) -> str | None:
    """Why `maxUnavailable: most` or `minAvailable: least` allow no disruption of `expected` pods, or None.

    Shares are rounded up, as by the disruption controller (kubernetes pkg/controller/disruption/disruption.go).
    """
    if most is not None:
        return f"maxUnavailable: {most} allows no eviction" if _pods(most, max(1, expected)) == 0 else None
    if least is None:
        return None
    if _share(least) == 1:
        return f"minAvailable: {least} allows no eviction"
    needed = _pods(least, expected)
    if expected and needed is not None and needed >= expected:
        return f"minAvailable: {least} of {expected} pods allows no eviction"
    return None


def _share(value: int | str) -> float | None:
    if not isinstance(value, str) or not value.endswith("%"):
        return None
    try:
        return int(value[:-1]) / 100
    except ValueError:
        return None


def _pods(value: int | str, of: int) -> int | None:
    share = _share(value)
    if share is not None:
        return math.ceil(round(share * of, 9))
    return value if isinstance(value, int) else None


NAMESPACE = "namespace"


class AnnotatedObject(NamedTuple):
    """An object and its annotations. `kind` is NAMESPACE, `pod` or that of a workload; the pod itself has no name."""

    kind: str
    name: str
    annotations: Mapping[str, str]

    @property
    def title(self) -> str:
        """How sentences call it: "Deployment web", "the pod"."""
        return f"{self.kind} {self.name}" if self.name else f"the {self.kind}"


class Exclusion(msgspec.Struct, frozen=True):
    """`said` is what the object `title` says, with its annotation; `unreadable` that its value means nothing."""

    title: str
    said: str
    unreadable: bool = False

    @property
    def reason(self) -> str:
        """Both as one sentence."""
        return f"{self.title} {self.said}"


def exclusion(objects: Iterable[AnnotatedObject], prefix: str, now: float) -> Exclusion | None:
    """What `exclude` and `exclude-until` say for every part. `objects` come nearest first, `now` is Unix seconds."""
    for item in objects:
        said = item.annotations
        exclude, until = said.get(f"{prefix}/exclude"), said.get(f"{prefix}/exclude-until")
        if exclude is None and until is None:
            continue
        if exclude not in (None, "false"):
            return _flagged(item, f"{prefix}/exclude", exclude or "")
        return None if until is None else _until(now, item, f"{prefix}/exclude-until", until)
    return None


def part_exclusion(objects: Iterable[AnnotatedObject], prefix: str, part: str) -> Exclusion | None:
    """What `exclude-<part>` says."""
    key = f"{prefix}/exclude-{part}"
    for item in objects:
        value = item.annotations.get(key)
        if value is not None:
            return None if value == "false" else _flagged(item, key, value)
    return None


def by_operator(objects: Iterable[AnnotatedObject], keys: frozenset[str]) -> list[AnnotatedObject]:
    """The objects without those of `keys` that a tenant has set: they count on namespaces, which come last, alone."""
    return [item if item.kind == NAMESPACE else item._replace(annotations=_without(item, keys)) for item in objects]


def _without(one: AnnotatedObject, keys: frozenset[str]) -> dict[str, str]:
    return {key: value for key, value in one.annotations.items() if key not in keys}


def _flagged(one: AnnotatedObject, key: str, value: str) -> Exclusion:
    note = "" if value == "true" else ', which is neither "true" nor "false"'
    return Exclusion(one.title, f'has {key}: "{value}"{note}', unreadable=bool(note))


def _until(now: float, one: AnnotatedObject, key: str, value: str) -> Exclusion | None:
    try:
        end = datetime.fromisoformat(value)
    except ValueError:
        end = None
    if end is None or end.tzinfo is None:
        return Exclusion(one.title, f'has {key}: "{value}", which is no RFC 3339 time', unreadable=True)
    return Exclusion(one.title, f"is excluded until {value}") if end.timestamp() > now else None
