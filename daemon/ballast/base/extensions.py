"""Objects that other packages add through entry points."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from ballast.base.errors import UsageError

T = TypeVar("T")


def installed(group: str) -> tuple[str, ...]:
    """The entry point names of a group, sorted; none of them is imported."""
    return tuple(sorted({point.name for point in entry_points(group=group)}))


def shadowed(group: str, built_in: Iterable[str]) -> Iterator[str]:
    """One sentence for each entry point that has no effect, since something built in has its name."""
    taken = set(built_in)
    for point in entry_points(group=group):
        if point.name in taken:
            yield f"{_where(point)} has no effect, since {point.name} is built in. Give it another name."


def extension(group: str, name: str, check: Callable[[object], T | str]) -> T | None:
    """The object of one entry point, None if there is none of this name. Raises UsageError as `extensions` does."""
    found = next((point for point in entry_points(group=group) if point.name == name), None)
    return None if found is None else _load(found, check)


def extensions(group: str, check: Callable[[object], T | str], taken: Iterable[str]) -> tuple[T, ...]:
    """The objects of an entry point group, ordered by entry point name.

    `check` returns the object if it can be used, else a sentence part that says what it lacks. Raises UsageError naming
    the entry point if it cannot be loaded, if it lacks something, or if its `name` is already in use.
    """
    names = set(taken)
    found: list[T] = []
    for point in sorted(entry_points(group=group), key=lambda each: (each.name, each.value)):
        loaded = _load(point, check)
        name = str(getattr(loaded, "name", ""))
        if name in names:
            raise UsageError(f"{_where(point)} cannot be used: the name {name} is already in use.")
        names.add(name)
        found.append(loaded)
    return tuple(found)


def _load(point: EntryPoint, check: Callable[[object], T | str]) -> T:
    try:
        loaded = point.load()
    except Exception as error:
        raise UsageError(f"{_where(point)} cannot be loaded: {type(error).__name__}: {error}.") from error
    checked = check(loaded)
    if isinstance(checked, str):
        raise UsageError(f"{_where(point)} cannot be used: {checked}.")
    return checked


def _where(point: EntryPoint) -> str:
    return f"Entry point {point.name} = {point.value} of group {point.group}"
