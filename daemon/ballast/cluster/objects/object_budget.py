"""How many bytes of objects are kept: of one object, of one namespace, and in all."""

import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

LARGEST = 64 * 2**10
"""Bytes of memory that the fields of one object may take; a larger one is opaque."""

ORDINARY = 8 * 2**10
"""What an object takes up to here counts against no budget: twice what pods of real clusters have at most."""

OF_NAMESPACE = 8 * 2**20
"""Bytes above ORDINARY that the objects of one namespace may take; beyond that the next object is opaque."""

IN_ALL = 32 * 2**20
"""The same for the objects of all namespaces together."""

UNWEIGHED = 2 * 2**10
"""Objects of fewer bytes of JSON are ordinary whatever they hold."""

WEIGHED = 16 * 2**10
"""Objects of more bytes of JSON are weighed before anything is made of them."""

NAMED = 5
"""Namespaces that a sentence names."""

_STRING = 56
_STRUCT = 64
_encode = msgspec.json.Encoder().encode


def weight(kept: Any) -> int:
    """About how many bytes of memory decoded fields take: their text, and what each string and struct adds to it."""
    text = _encode(kept)
    return len(text) + text.count(b'"') // 2 * _STRING + (text.count(b"{") + text.count(b"[")) * _STRUCT


class DecodedObject(Protocol):
    """A decoded object of any kind."""

    metadata: Any


class ObjectBudget:
    """Which objects of one kind are kept whole. Written by the thread of their watch, read by any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._above: dict[str, tuple[str, int]] = {}
        self._of_namespace: dict[str, int] = {}
        self._in_all = 0
        self._opaque: dict[str, str] = {}

    def holds(self, raw: msgspec.Raw | bytes, decoded: DecodedObject, keep: Callable[[str], bool]) -> bool:
        """Whether what was decoded from `raw` is kept whole; annotations that `keep` does not accept are removed."""
        meta = decoded.metadata
        if memoryview(raw).nbytes <= UNWEIGHED:
            self.forget(f"{meta.namespace}/{meta.name}")
            return True
        if meta.annotations:
            meta.annotations = {key: value for key, value in meta.annotations.items() if keep(key)}
        kept = (meta.labels, meta.annotations, meta.owner_references, getattr(decoded, "spec", None))
        return self.admits(meta.namespace, meta.name, weight(kept))

    def admits(self, namespace: str, name: str, weight: int) -> bool:
        """Whether the object is kept whole; what was said of its earlier state is forgotten."""
        key, above = f"{namespace}/{name}", weight - ORDINARY
        with self._lock:
            self._forget(key)
            if above <= 0:
                return True
            there = self._of_namespace.get(namespace, 0) + above
            if weight > LARGEST or there > OF_NAMESPACE or self._in_all + above > IN_ALL:
                self._opaque[key] = namespace
                return False
            self._above[key] = (namespace, above)
            self._of_namespace[namespace] = there
            self._in_all += above
            return True

    def forget(self, key: str) -> None:
        """The object `namespace/name` is gone, or small now."""
        if key in self._above or key in self._opaque:
            with self._lock:
                self._forget(key)

    def noted(self, namespace: str, name: str) -> bool:
        """Whether the object counts against a budget, or is opaque."""
        key = f"{namespace}/{name}"
        return key in self._above or key in self._opaque

    def renew(self) -> None:
        """Forgets all, before all are listed again."""
        with self._lock:
            self._above.clear()
            self._of_namespace.clear()
            self._opaque.clear()
            self._in_all = 0

    def opaque(self) -> Mapping[str, int]:
        """How many objects of each namespace are not kept whole."""
        counts: dict[str, int] = {}
        with self._lock:
            for namespace in self._opaque.values():
                counts[namespace] = counts.get(namespace, 0) + 1
        return counts

    def _forget(self, key: str) -> None:
        self._opaque.pop(key, None)
        namespace, above = self._above.pop(key, ("", 0))
        if above:
            self._in_all -= above
            left = self._of_namespace[namespace] - above
            if left:
                self._of_namespace[namespace] = left
            else:
                del self._of_namespace[namespace]


def too_large(*kinds: Mapping[str, Mapping[str, int]]) -> str | None:
    """Which namespaces have objects that are not kept whole, the most first; None where there are none."""
    counts = [(count, kind, there) for by_kind in kinds for kind, of in by_kind.items() for there, count in of.items()]
    if not counts:
        return None
    counts.sort(key=lambda item: (-item[0], item[2], item[1]))
    named = [f"{count} {kind}{f' of namespace {there}' if there else ''}" for count, kind, there in counts]
    more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
    return (
        f"{', '.join(named[:NAMED])}{more} are larger than Ballast keeps of one object ({LARGEST // 2**10} KiB), of "
        f"one namespace ({OF_NAMESPACE // 2**20} MiB) or in all ({IN_ALL // 2**20} MiB): their requests count, their "
        "labels and constraints are not known, and they are not evicted; make them smaller, or delete them"
    )
