"""The documents that are served from a snapshot, each rendered at most once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from itertools import chain

import msgspec
import numpy as np

from ballast.model.sample import Bools, Floats
from ballast.model.snapshot import Snapshot
from ballast.serving import fleet_columns, nodes, watcher_format
from ballast.serving.cached_document import Document


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
        wire = partial(_wire, snapshot.trusted, source, fetched)
        self._wire = cache(wire)  # The whole documents are made apart: packed, they take a tenth of the bytes.
        windows = snapshot.windows
        self.known = {
            name: bool(watcher_format.known_nodes(snapshot.trusted, window).any())
            for name, window in snapshot.trusted.windows.items()
        }
        self.watcher = {
            (name, everything): Document(partial(_whole, wire, name, everything))
            for name in windows
            for everything in (False, True)
        }
        self.nodes = {
            name: Document(partial(nodes.listing, snapshot, verdicts, window)) for name, window in windows.items()
        }
        self.fleet = Document(partial(fleet_columns.names, snapshot))
        self.loads = {
            name: Document(partial(fleet_columns.loads, snapshot, verdicts, window)) for name, window in windows.items()
        }
        self.families = {
            everything: Document(partial(node_families, snapshot, verdicts.scores, everything), "text/plain")
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
    """Builds the documents that clients asked of `previous`; no others.

    `scores` are 0..100 or None where the node is unknown; `classes` low, normal or high; `prefix` is that of the labels
    nodes carry; `source` as load-watcher names its provider; `fetched` is the Unix time the answers had arrived.
    """
    verdicts = nodes.Verdicts(scores, classes or {}, prefix)
    rendered = Rendered(snapshot, verdicts, source, snapshot.time if fetched is None else fetched, frozen)
    if previous is not None:
        rendered.follow(previous)
    return rendered


def _wire(
    snapshot: Snapshot, source: str, fetched: float, window: str, everything: bool
) -> watcher_format.WatcherDocument:
    return watcher_format.document(
        snapshot, snapshot.windows[window], source=source, fetched=fetched, everything=everything
    )


def _whole(wires: Callable[[str, bool], watcher_format.WatcherDocument], window: str, everything: bool) -> bytes:
    return wires(window, everything).whole()


LOADS = {
    "ballast_node_load_mean": ("mean", "Mean load over the window, as a fraction of allocatable."),
    "ballast_node_load_stddev": ("std", "Population standard deviation of the load over the window."),
    "ballast_node_load_p95": ("p95", "95th percentile of the load over the window."),
}
SPREAD = (
    "ballast_pool_load_stddev",
    "Population standard deviation of the mean load over the known, schedulable nodes of a pool, primary window.",
)
SCORE = ("ballast_node_score", "Score from 0 to 100, higher is a better place for a pod.")


PRIMARY = ("ballast_node_load_mean", "ballast_node_load_stddev")
"""The families of LOADS that are shown where the first window suffices."""


def node_families(snapshot: Snapshot, scores: Mapping[str, int | None], everything: bool = True) -> bytes:
    """The samples of `LOADS`, `SPREAD` and `SCORE`, with their headers.

    Without `everything` those of `PRIMARY` over the first window, and the others.
    """
    names = [_label("node", node.name) for node in snapshot.nodes]
    return b"".join(
        [
            text.encode()
            for text in chain(_loads(snapshot, names, everything), _spread(snapshot), _scores(snapshot, scores, names))
        ]
    )


def _loads(snapshot: Snapshot, names: list[str], everything: bool) -> Iterator[str]:
    windows = list(snapshot.windows.values()) if everything else [snapshot.primary]
    for family, (attribute, help_text) in LOADS.items():
        if not everything and family not in PRIMARY:
            continue
        yield _header(family, help_text)
        for window in windows:
            statistics: Floats = getattr(window, attribute)
            for row, resource in enumerate(snapshot.resources):
                tail = f",{_label('resource', resource)},{_label('window', window.name)}}} "
                yield from _samples(family, names, tail, statistics[row], window.known[row])


def _samples(family: str, names: list[str], tail: str, values: Floats, known: Bools) -> Iterator[str]:
    rows = np.flatnonzero(known & np.isfinite(values))
    if not len(rows):
        return
    texts = msgspec.json.encode(np.round(values[rows], 8).tolist()).decode()[1:-1].split(",")
    yield "".join([f"{family}{{{names[row]}{tail}{text}\n" for row, text in zip(rows.tolist(), texts, strict=True)])


def _spread(snapshot: Snapshot) -> Iterator[str]:
    family, help_text = SPREAD
    yield _header(family, help_text)
    for (pool, resource), deviation in snapshot.spread().items():
        yield f"{family}{{{_label('pool', pool)},{_label('resource', resource)}}} {round(deviation, 8)}\n"


def _scores(snapshot: Snapshot, scores: Mapping[str, int | None], names: list[str]) -> Iterator[str]:
    family, help_text = SCORE
    yield _header(family, help_text)
    for row in np.flatnonzero(snapshot.known).tolist():
        score = scores.get(snapshot.nodes[row].name)
        if score is not None:
            yield f"{family}{{{names[row]}}} {float(score)}\n"


def _header(family: str, help_text: str) -> str:
    return f"# HELP {family} {help_text}\n# TYPE {family} gauge\n"


def _label(name: str, value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{name}="{escaped}"'
