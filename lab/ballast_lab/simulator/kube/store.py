"""Objects with resource versions: the current state, the history for watches, and frozen lists for paging.

Objects are kept encoded: 30,000 realistic pods take 200 MB this way, and several gigabytes as dictionaries. The fields
that selectors and listeners need are kept beside the bytes.
"""

from __future__ import annotations

import bisect
import random
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ballast_lab.simulator.kube.kinds import KINDS, Kind

HISTORY = 16_384
"""Changes kept per kind."""

FROZEN_LISTS = 16
"""Lists kept for paging, over all kinds."""

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()


class Stored(msgspec.Struct, frozen=True, gc=False):
    """One version of one object."""

    namespace: str
    """Empty for cluster-scoped kinds."""

    name: str
    uid: str
    revision: int
    """The resource version."""

    labels: Mapping[str, str]
    fields: Mapping[str, str]
    """The values that field selectors can name."""

    raw: bytes
    """The object as JSON."""

    def item(self, kind: Kind) -> bytes:
        """The object as an item of a list, without `kind` and `apiVersion`."""
        return b"{" + self.raw[kind.type_length :]

    def read(self) -> dict[str, Any]:
        """A decoded copy, which the caller may change."""
        document: dict[str, Any] = _decoder.decode(self.raw)
        return document


class StoreEvent(msgspec.Struct, frozen=True, gc=False):
    """A change: `type` is ADDED, MODIFIED or DELETED.

    Of a deletion, `new` is the last state with the version of the deletion.
    """

    revision: int
    type: str
    new: Stored
    old: Stored | None


class Expired(Exception):
    """The requested history or frozen list is no longer kept. `oldest` is the last version that was dropped."""

    def __init__(self, oldest: int) -> None:
        super().__init__(oldest)
        self.oldest = oldest


class _Table:
    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Stored] = {}
        self.order: list[tuple[str, str]] | None = None
        self.changes: list[StoreEvent] = []
        self.dropped = 0


Listener = Callable[[Kind, StoreEvent], None]


class Store:
    """All objects, by kind. Thread-safe; listeners run under the lock, in the writer's thread."""

    def __init__(self, seed: int = 0) -> None:
        self.lock = threading.RLock()
        self.revision = 1
        self.listeners: list[Listener] = []
        # Not the numbers of the population, which has the same seed: no UID may come twice.
        self._random = random.Random(f"store {seed}")  # noqa: S311
        self._tables = {kind: _Table() for kind in KINDS}
        self._frozen: OrderedDict[tuple[Kind, str, int], Sequence[Stored]] = OrderedDict()

    def get(self, kind: Kind, namespace: str, name: str) -> Stored | None:
        """The current version of an object, or None."""
        return self._tables[kind].objects.get((namespace, name))

    def all(self, kind: Kind, namespace: str = "") -> list[Stored]:
        """All objects of a kind, ordered by (namespace, name) as etcd lists them; an empty namespace means all."""
        with self.lock:
            table = self._tables[kind]
            if table.order is None:
                table.order = sorted(table.objects)
            if not namespace:
                return [table.objects[key] for key in table.order]
            low = bisect.bisect_left(table.order, (namespace, ""))
            high = bisect.bisect_left(table.order, (namespace + "\0", ""))
            return [table.objects[key] for key in table.order[low:high]]

    def freeze(self, kind: Kind, namespace: str) -> tuple[int, Sequence[Stored]]:
        """(version, objects) of the current list, kept so that later pages can read from it."""
        with self.lock:
            listed = self.all(kind, namespace)
            self._frozen[kind, namespace, self.revision] = listed
            while len(self._frozen) > FROZEN_LISTS:
                self._frozen.popitem(last=False)
            return self.revision, listed

    def frozen(self, kind: Kind, namespace: str, revision: int) -> Sequence[Stored]:
        """The list frozen at this version. Raises Expired."""
        with self.lock:
            listed = self._frozen.get((kind, namespace, revision))
            if listed is None:
                raise Expired(self.revision)
            return listed

    def since(self, kind: Kind, revision: int) -> list[StoreEvent]:
        """The changes after this version. Raises Expired."""
        with self.lock:
            table = self._tables[kind]
            if revision < table.dropped:
                raise Expired(table.dropped)
            return table.changes[bisect.bisect_right(table.changes, revision, key=lambda change: change.revision) :]

    def compact(self) -> None:
        """Drops all history and all frozen lists, as a compaction of etcd does."""
        with self.lock:
            self._frozen.clear()
            for table in self._tables.values():
                table.changes.clear()
                table.dropped = self.revision

    def new_uid(self) -> str:
        """A UUID from the store's seed."""
        with self.lock:
            return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def suffix(self, length: int = 5) -> str:
        """A random suffix for generated names."""
        with self.lock:
            return "".join(self._random.choices("bcdfghjklmnpqrstvwxz2456789", k=length))

    def put(self, kind: Kind, document: dict[str, Any]) -> Stored:
        """Creates or replaces an object, with the next version."""
        with self.lock:
            metadata = document["metadata"]
            key = metadata.get("namespace", ""), metadata["name"]
            table = self._tables[kind]
            old = table.objects.get(key)
            new = self._stored(kind, document)
            table.objects[key] = new
            if old is None:
                table.order = None
            self._record(kind, StoreEvent(new.revision, "ADDED" if old is None else "MODIFIED", new, old))
            return new

    def remove(self, kind: Kind, old: Stored) -> Stored:
        """Deletes an object; returns its last state with the version of the deletion."""
        with self.lock:
            table = self._tables[kind]
            del table.objects[old.namespace, old.name]
            table.order = None
            new = self._stored(kind, old.read())
            self._record(kind, StoreEvent(new.revision, "DELETED", new, old))
            return new

    def load(self, kind: Kind, objects: Sequence[Stored]) -> None:
        """Fills an empty table without history; the objects bring their versions."""
        with self.lock:
            table = self._tables[kind]
            table.objects.update(((stored.namespace, stored.name), stored) for stored in objects)
            table.order = None
            self.revision = max(self.revision, max((stored.revision for stored in objects), default=0))
            table.dropped = self.revision

    def _stored(self, kind: Kind, document: dict[str, Any]) -> Stored:
        self.revision += 1
        document["metadata"]["resourceVersion"] = str(self.revision)
        return stored(kind, document, self.revision)

    def _record(self, kind: Kind, change: StoreEvent) -> None:
        table = self._tables[kind]
        table.changes.append(change)
        if len(table.changes) > HISTORY:
            table.dropped = table.changes[HISTORY // 4].revision
            del table.changes[: HISTORY // 4 + 1]
        for listener in self.listeners:
            listener(kind, change)


def stored(kind: Kind, document: dict[str, Any], revision: int) -> Stored:
    """The encoded form of a document that already has its resource version."""
    metadata = document["metadata"]
    return Stored(
        metadata.get("namespace", ""),
        metadata["name"],
        metadata["uid"],
        revision,
        metadata.get("labels") or {},
        selectable_fields(kind, document),
        _encoder.encode({**kind.type_fields, **document}),
    )


def selectable_fields(kind: Kind, document: dict[str, Any]) -> dict[str, str]:
    """The values that field selectors can name, by their paths."""
    fields = {}
    if kind.name == "Pod":
        spec, status = document.get("spec", {}), document.get("status", {})
        fields = {
            "spec.nodeName": spec.get("nodeName", ""),
            "spec.schedulerName": spec.get("schedulerName", ""),
            "status.phase": status.get("phase", ""),
        }
    elif kind.name == "Node":
        fields = {"spec.unschedulable": "true" if document.get("spec", {}).get("unschedulable") else "false"}
    elif kind.name == "Event":
        fields = {f"involvedObject.{key}": str(value) for key, value in document.get("involvedObject", {}).items()}
        fields |= {key: str(document.get(key, "")) for key in ("type", "reason")}
    return fields
