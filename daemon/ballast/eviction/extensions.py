"""Objects that other packages add through entry points."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import entry_points
from typing import TypeVar

from ballast.errors import UsageError

T = TypeVar("T")


def extensions(group: str, check: Callable[[object], T | str], taken: Iterable[str]) -> tuple[T, ...]:
    """The objects of an entry point group, ordered by entry point name.

    `check` returns the object if it can be used, else a sentence part that says what it lacks. Raises UsageError naming
    the entry point if it cannot be loaded, if it lacks something, or if its `name` is already in use.
    """
    names = set(taken)
    found: list[T] = []
    for point in sorted(entry_points(group=group), key=lambda each: (each.name, each.value)):
        where = f"Entry point {point.name} = {point.value} of group {group}"
        try:
            loaded = point.load()
        except Exception as error:
            raise UsageError(f"{where} cannot be loaded: {type(error).__name__}: {error}.") from error
        checked = check(loaded)
        if isinstance(checked, str):
            raise UsageError(f"{where} cannot be used: {checked}.")
        name = str(getattr(checked, "name", ""))
        if name in names:
            raise UsageError(f"{where} cannot be used: the name {name} is already in use.")
        names.add(name)
        found.append(checked)
    return tuple(found)
