"""What other packages add through entry points: strategies, checks, planners, presets, commands."""

import inspect
import sys
from collections.abc import Callable, Collection, Iterator
from functools import lru_cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Any, ClassVar, Generic, TypeVar, get_args, get_origin, get_type_hints

from ballast.base.errors import UsageError

T = TypeVar("T")


class Registry(Generic[T]):
    """One group of entry points: the names that are built in, and the protocol that each object has to follow.

    A package is imported when its object is first needed. An object that cannot be imported or that breaks the protocol
    is refused with UsageError, which names the entry point, its package and what is missing:

        planners: Registry[Planner] = Registry("ballast.planners", ("relieve", "rebalance"), Planner)
        planners.others()      # ("theirs",)
        planners.get("theirs") # the object, checked
    """

    def __init__(self, group: str, built_in: Collection[str], protocol: Any) -> None:
        """`protocol` is a Protocol, a class that the objects are instances of, or Callable."""
        self.group, self._built_in, self._protocol = group, frozenset(built_in), protocol

    def others(self) -> tuple[str, ...]:
        """The names of entry points, sorted, without those that are built in; nothing is imported."""
        return tuple(sorted({point.name for point in self._points()} - self._built_in))

    def shadowed(self) -> Iterator[str]:
        """One sentence for each entry point that has no effect, since something built in has its name."""
        for point in self._points():
            if point.name in self._built_in:
                yield f"{_describe(point)} has no effect, since {point.name} is built in. Give it another name."

    def get(self, name: str) -> T | None:
        """The object of one entry point; None if the name is built in or unknown. Raises UsageError."""
        point = None if name in self._built_in else self._point(name)
        return None if point is None else self._load(point)

    def load_all(self) -> tuple[T, ...]:
        """The objects of all entry points, which have a `name`. Raises UsageError, also for a name used twice."""
        names = set(self._built_in)
        objects: list[T] = []
        for point in self._points():
            loaded: Any = self._load(point)
            if loaded.name in names:
                raise _refusal(point, f"the name {loaded.name} is already in use")
            names.add(loaded.name)
            objects.append(loaded)
        return tuple(objects)

    def refusal(self, name: str, reason: str) -> UsageError:
        """The error for the object of an entry point that turned out to be unusable."""
        point = self._point(name)
        assert point is not None
        return _refusal(point, reason)

    def _points(self) -> list[EntryPoint]:
        return sorted(installed(self.group, tuple(sys.path)), key=lambda point: (point.name, point.value))

    def _point(self, name: str) -> EntryPoint | None:
        return next((point for point in self._points() if point.name == name), None)

    def _load(self, point: EntryPoint) -> T:
        try:
            loaded: T = point.load()
        except Exception as error:
            raise _refusal(point, f"it cannot be imported: {type(error).__name__}: {error}") from error
        if problem := violation(loaded, self._protocol):
            raise _refusal(point, problem)
        return loaded


@lru_cache(maxsize=32)
def installed(group: str, path: tuple[str, ...]) -> EntryPoints:
    """The entry points of a group on this path (`sys.path`); finding them reads a file of each package."""
    return entry_points(group=group)


def violation(value: object, protocol: Any) -> str:
    """How an object breaks a protocol, "" if it follows it: attributes by their types, methods by their parameters."""
    if not getattr(protocol, "_is_protocol", False) and not isinstance(value, protocol):
        return f"a {type(value).__name__} is not a {protocol.__module__}.{protocol.__name__}"
    if protocol is Callable:
        return ""
    if isinstance(value, type):
        return f"{value.__name__} is a class, and an instance is needed"
    lacking = [name for name, hint in get_type_hints(protocol).items() if not _fits(getattr(value, name, None), hint)]
    methods = [(name, method) for name, method in vars(protocol).items() if inspect.isfunction(method)]
    lacking += [
        name for name, method in methods if name[0] != "_" and not _callable_as(getattr(value, name, None), method)
    ]
    return f"a {type(value).__name__} lacks {', '.join(lacking)} of {protocol.__name__}" if lacking else ""


def _fits(value: object, hint: Any) -> bool:
    if get_origin(hint) is ClassVar:
        [hint] = get_args(hint)
    return isinstance(value, get_origin(hint) or hint) and value != ""


def _callable_as(value: object, method: Callable[..., object]) -> bool:
    """Whether it can be called with the parameters of the protocol's method, without `self`, in their order."""
    if not callable(value):
        return False
    try:
        inspect.signature(value).bind(*list(inspect.signature(method).parameters)[1:])
    except TypeError:
        return False
    except ValueError:  # functions written in C have no signature to read
        return True
    return True


def _refusal(point: EntryPoint, reason: str) -> UsageError:
    return UsageError(f"{_describe(point)} cannot be used: {reason}.")


def _describe(point: EntryPoint) -> str:
    package = f" (package {point.dist.name})" if point.dist else ""
    return f"Entry point {point.name} = {point.value} of group {point.group}{package}"
