"""One copy of equal strings, label sets, owners, shapes and templates."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from sys import getrefcount
from typing import Generic, TypeVar

import msgspec

from ballast.cluster.objects import wire
from ballast.cluster.objects.templates import template_key, to_template
from ballast.model.pod import Owner
from ballast.model.shape import Shape
from ballast.model.template import PLAIN, Template, Toleration

_encode = msgspec.json.Encoder().encode
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

POOL_BYTES = 8 * 2**20
"""Of the keys of one pool. A pool that is full is forgotten; what was handed out stays as it is."""

LEAST = 1_000
"""Values of a pool before it looks for those that nobody else holds."""

LONGEST = 1024
"""Characters of a string that is shared."""

_STRINGS = 50_000
_OTHERS = 10_000
_EACH = 56
NO_STRINGS: dict[str, str] = {}


class Pool(Generic[K, V]):
    """Values by what they are made of.

    Each time it has grown by a quarter, it drops the values that nobody else holds any more, by CPython's reference
    counts: those of objects that are gone. So its size follows the cluster, however many pods come and go.
    """

    def __init__(self, most: int, *, by_itself: bool = False) -> None:
        """`by_itself`: a value is its own key, so the pool refers to it twice."""
        self.held: dict[K, V] = {}
        self._most = most
        self._own = _HELD_ONCE + by_itself
        self._sweep_at = LEAST
        self._bytes = 0

    def add(self, key: K, value: V) -> V:
        """Keeps the value of a key that was not held."""
        if len(self.held) >= self._sweep_at:
            self._drop_unused()
        self._bytes += size(key)
        if len(self.held) >= self._most or self._bytes > POOL_BYTES:
            self.held.clear()
            self._bytes = size(key)
        self.held[key] = value
        return value

    def _drop_unused(self) -> None:
        counts = zip(self.held, _reference_counts(self.held), strict=True)
        for key in [key for key, count in counts if count <= self._own]:
            del self.held[key]
            self._bytes -= size(key)
        self._sweep_at = max(LEAST, len(self.held) * 5 // 4)


def _reference_counts(held: Mapping[K, V]) -> list[int]:
    """Of each value; the counting itself adds a few, always as many."""
    return list(map(getrefcount, held.values()))


_HELD_ONCE = _reference_counts({None: object()})[0]


class Shared:
    """The pools of one reader, which may be asked by one thread."""

    def __init__(self) -> None:
        self.misses = 0
        """How many label sets, shapes, templates and owners were not held yet."""
        self._strings: Pool[str, str] = Pool(_STRINGS, by_itself=True)
        self._mappings: Pool[tuple[tuple[str, str], ...], Mapping[str, str]] = Pool(_OTHERS)
        self._shapes: Pool[bytes, Shape] = Pool(_OTHERS)
        self._templates: Pool[Hashable, Template] = Pool(_OTHERS)
        self._owners: Pool[tuple[str, str, str, bool], Owner] = Pool(_OTHERS)

    def string(self, value: str) -> str:
        """The one copy of a string."""
        found = self._strings.held.get(value)
        if found is None:
            return value if len(value) > LONGEST else self._strings.add(value, value)
        return found

    def strings(self, values: Mapping[str, str] | None) -> Mapping[str, str]:
        """Equal keys and values are held once, the mapping itself is new: for sets no other object has."""
        return {self.string(key): self.string(value) for key, value in values.items()} if values else NO_STRINGS

    def labels(self, values: Mapping[str, str] | None) -> Mapping[str, str]:
        """Equal mappings are held once."""
        if not values:
            return NO_STRINGS
        key = tuple(values.items())
        found = self._mappings.held.get(key)
        if found is None:
            self.misses += 1
            made = self.strings(values)
            found = self._mappings.add(tuple(made.items()), made)
        return found

    def shape(self, spec: wire.LeanPodSpec, build: Callable[[wire.LeanPodSpec], Shape]) -> Shape:
        """The one copy of a pod's shape."""
        key = _shape_key(spec)
        found = self._shapes.held.get(key)
        if found is None:
            self.misses += 1
            found = self._shapes.add(key, build(spec))
        return found

    def template(self, pod: wire.Pod) -> Template:
        """The one copy of a pod's template; PLAIN where it says nothing."""
        key = template_key(pod)
        if key is None:
            return PLAIN
        found = self._templates.held.get(key)
        if found is None:
            self.misses += 1
            found = self._templates.add(key, to_template(pod))
        return found

    def owner(self, references: list[wire.OwnerReference] | None) -> Owner | None:
        """The controller among the owners, else the first one."""
        if not references:
            return None
        chosen = next((reference for reference in references if reference.controller), references[0])
        key = (chosen.kind, chosen.name, chosen.uid, bool(chosen.controller))
        found = self._owners.held.get(key)
        if found is None:
            self.misses += 1
            found = self._owners.add(key, Owner(*key))
        return found


def size(value: object) -> int:
    """About how many bytes a key takes."""
    if isinstance(value, str | bytes):
        return _EACH + len(value)
    if isinstance(value, tuple):
        return _EACH + sum(map(size, value))
    if isinstance(value, Toleration):
        return _EACH + sum(map(size, (value.key, value.operator, value.value, value.effect)))
    return _EACH


def _shape_key(spec: wire.LeanPodSpec) -> bytes:
    containers = [(each.restart_policy, each.resources) for each in spec.containers or ()]
    init_containers = [(each.restart_policy, each.resources) for each in spec.init_containers or ()]
    return _encode((containers, init_containers, spec.resources, spec.overhead))
