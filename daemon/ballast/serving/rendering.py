"""Everything that is served from a snapshot, rendered at most once."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ballast.model.snapshot import Snapshot
from ballast.serving import nodes, wire
from ballast.serving.document import Document
from ballast.serving.families import node_families


class Rendered:
    """The documents of one snapshot. Each is built once: now if the one before it was asked for, else when first asked.

    `watcher` is keyed by (window name, everything?), `nodes` by window name; `families` are the per-node metrics as text.
    """

    def __init__(
        self, snapshot: Snapshot, scores: Mapping[str, int | None], source: str, fetched: float, prefix: str
    ) -> None:
        self.snapshot = snapshot
        self.scores = scores
        self._source = source
        self._fetched = fetched
        self._prefix = prefix
        self._wires: dict[tuple[str, bool], wire.Wire] = {}
        self.known = {name: bool(wire.known_nodes(snapshot, window).any()) for name, window in snapshot.windows.items()}
        self.watcher = {
            (name, everything): Document(lambda name=name, everything=everything: self.wire(name, everything).whole())  # type: ignore[misc]
            for name in snapshot.windows
            for everything in (False, True)
        }
        self.nodes = {
            name: Document(lambda window=window: nodes.listing(snapshot, scores, window, prefix))  # type: ignore[misc]
            for name, window in snapshot.windows.items()
        }
        self.families = Document(lambda: node_families(snapshot, scores), "text/plain")

    def wire(self, window: str, everything: bool) -> wire.Wire:
        """The pieces of one `/watcher` document."""
        key = (window, everything)
        if key not in self._wires:
            self._wires[key] = wire.document(
                self.snapshot,
                self.snapshot.windows[window],
                source=self._source,
                fetched=self._fetched,
                everything=everything,
            )
        return self._wires[key]

    def node(self, name: str) -> bytes | None:
        """Everything about one node as JSON, or None if it is not selected."""
        row = self.snapshot.rows.get(name)
        return None if row is None else msgspec.json.encode(nodes.detail(self.snapshot, self.scores, row, self._prefix))

    def documents(self) -> list[Document]:
        return [*self.watcher.values(), *self.nodes.values(), self.families]


def render(
    snapshot: Snapshot,
    scores: Mapping[str, int | None],
    *,
    source: str = "Prometheus",
    fetched: float | None = None,
    frozen: bool = False,
    prefix: str = "ballast.dev",
    previous: Rendered | None = None,
) -> Rendered:
    """Prepares the default `/watcher` document (unless frozen) and whatever `previous` was asked for; the rest waits.

    `scores` are 0..100 or None where the node is unknown; `fetched` is the Unix time the telemetry had arrived;
    `prefix` that of the labels nodes carry.
    """
    rendered = Rendered(snapshot, scores, source, snapshot.time if fetched is None else fetched, prefix)
    if previous is not None and previous.snapshot.windows.keys() == snapshot.windows.keys():
        for old, new in zip(previous.documents(), rendered.documents(), strict=True):
            new.follow(old)
    first = snapshot.primary.name
    if rendered.known[first] and not frozen:
        rendered.watcher[first, False].packed()
    return rendered
