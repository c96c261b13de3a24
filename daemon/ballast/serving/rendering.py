"""The documents that are served from a snapshot, each rendered at most once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial

import msgspec

from ballast.model.snapshot import Snapshot
from ballast.serving import nodes, watcher_format
from ballast.serving.document import Document
from ballast.serving.families import node_families
from ballast.serving.views import fleet


class Rendered:
    """The documents of one snapshot: built at once if clients asked for the previous ones, else on the first request.

    `known` says for each window whether any node is; `watcher` is keyed by (window name, everything?), `nodes` and
    `loads` by window name; `families` are the per-node metrics, of the first window or all.
    """

    def __init__(self, snapshot: Snapshot, verdicts: nodes.Verdicts, source: str, fetched: float, frozen: bool) -> None:
        self.snapshot = snapshot
        self._verdicts = verdicts
        self.fetched = fetched
        self.frozen = frozen
        # Nothing below refers to this object: in a circle, old snapshots would stay until the collector runs.
        self._wire = cache(partial(_wire, snapshot, source, fetched))
        windows = snapshot.windows
        self.known = {
            name: bool(watcher_format.known_nodes(snapshot, window).any()) for name, window in windows.items()
        }
        self.watcher = {
            (name, everything): Document(partial(_whole, self._wire, name, everything))
            for name in windows
            for everything in (False, True)
        }
        self.nodes = {
            name: Document(partial(nodes.listing, snapshot, verdicts, window)) for name, window in windows.items()
        }
        self.fleet = Document(partial(fleet.names, snapshot))
        self.loads = {
            name: Document(partial(fleet.loads, snapshot, verdicts, window)) for name, window in windows.items()
        }
        self.families = {
            everything: Document(partial(node_families, snapshot, verdicts.scores, everything))
            for everything in (False, True)
        }

    def wire(self, window: str, everything: bool) -> watcher_format.WatcherDocument:
        """The pieces of one `/watcher` document."""
        return self._wire(window, everything)

    def node(self, name: str) -> bytes | None:
        """Everything about one node as JSON, or None if it is not selected."""
        row = self.snapshot.rows.get(name)
        return None if row is None else msgspec.json.encode(nodes.detail(self.snapshot, self._verdicts, row))

    def follow(self, previous: Rendered) -> None:
        """Builds the documents that clients asked of `previous`."""
        if previous.snapshot.windows.keys() != self.snapshot.windows.keys():
            return
        for key, document in self.watcher.items():
            document.follow(previous.watcher[key])
        for name, document in self.nodes.items():
            document.follow(previous.nodes[name])
        for name, document in self.loads.items():
            document.follow(previous.loads[name])


def render(
    snapshot: Snapshot,
    scores: Mapping[str, int | None],
    *,
    classes: Mapping[str, str] | None = None,
    prefix: str = "ballast.dev",
    source: str = "Prometheus",
    fetched: float | None = None,
    frozen: bool = False,
    previous: Rendered | None = None,
) -> Rendered:
    """Builds the default `/watcher` document (unless frozen) and those that clients asked of `previous`; no others.

    `scores` are 0..100 or None where the node is unknown; `classes` low, normal or high; `prefix` is that of the labels
    nodes carry; `source` as load-watcher names its provider; `fetched` is the Unix time the answers had arrived.
    """
    verdicts = nodes.Verdicts(scores, classes or {}, prefix)
    rendered = Rendered(snapshot, verdicts, source, snapshot.time if fetched is None else fetched, frozen)
    if previous is not None:
        rendered.follow(previous)
    first = snapshot.primary.name
    if rendered.known[first] and not frozen:
        rendered.watcher[first, False].packed()
    return rendered


def _wire(
    snapshot: Snapshot, source: str, fetched: float, window: str, everything: bool
) -> watcher_format.WatcherDocument:
    return watcher_format.document(
        snapshot, snapshot.windows[window], source=source, fetched=fetched, everything=everything
    )


def _whole(wires: Callable[[str, bool], watcher_format.WatcherDocument], window: str, everything: bool) -> bytes:
    return wires(window, everything).whole()
