"""The wire format of load-watcher, as Trimaran's plugins read it (load-watcher pkg/watcher/watcher_json.go).

Trimaran parses numbers as int64(digits) / 10^k: a value with at most 15 significant digits arrives bit-exact, a longer
one may arrive wrong or even negative, an exponent or NaN can make it reject the whole payload, and null counts as an
idle node. So every number here is a plain decimal of at most 15 digits, and what is unknown is absent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import msgspec
import numpy as np

from ballast.model.sample import Bools, Floats, Ints
from ballast.model.snapshot import Snapshot, Window

# resource -> (metric name, type). CPU and Memory are what Trimaran reads, in this order.
PRIMARY = {"cpu": ("instance:node_cpu:ratio", "CPU"), "memory": ("instance:node_memory_utilisation:ratio", "Memory")}
FURTHER = {
    "disk": ("instance:node_disk_io_time:ratio", "Storage"),
    "network": ("instance:node_network_bandwidth:ratio", "Bandwidth"),
}
DECIMALS = 8
LARGEST = 1e10
TAIL = b"}}}"


@dataclass(frozen=True)
class WatcherDocument:
    """One document of all nodes; what tells of one of them is cut out of it, so that it is held once."""

    text: bytes
    head: int
    """Bytes before the first node."""

    places: Mapping[str, int]
    """By known node: its place among them, in the order of the document."""

    ends: Ints
    """[place]: where it ends in the document."""

    def whole(self) -> bytes:
        """The document with all nodes."""
        return self.text

    def host(self, name: str) -> bytes | None:
        """The document with this node alone, or None if the node is not known."""
        place = self.places.get(name)
        if place is None:
            return None
        begin = self.head if place == 0 else int(self.ends[place - 1]) + len(",")
        return self.text[: self.head] + self.text[begin : int(self.ends[place])] + TAIL


def document(
    snapshot: Snapshot, window: Window, *, source: str, fetched: float, everything: bool = False
) -> WatcherDocument:
    """The state of every known node over `window`, in percent of capacity.

    `fetched` (Unix seconds) is when the answers had arrived. With `everything` also the p95 under types of their own
    (`CPUP95`) and all other resources.
    """
    end = int(snapshot.time)
    head = (
        f'{{"timestamp":{max(end, int(fetched))},"window":{{"duration":{_quoted(window.name)},'
        f'"start":{end - int(window.seconds)},"end":{end}}},"source":{_quoted(source)},"data":{{"NodeMetricsMap":{{'
    )
    known = known_nodes(snapshot, window)
    columns = [
        _column(snapshot, window, row, resource, everything) for resource, row in _rows(snapshot.resources, everything)
    ]
    ages = _ages(snapshot, window)
    fragments, places = list[bytes](), dict[str, int]()
    for index in np.flatnonzero(known).tolist():
        name = snapshot.nodes[index].name
        metrics = ",".join([column[index] for column in columns if column[index]])
        fragment = (
            f'{_quoted(name)}:{{"metrics":[{metrics}],"tags":{{}},"metadata":{{"dataCenter":""}},"age":{ages[index]}}}'
        )
        places[name] = len(places)
        fragments.append(fragment.encode())
    begin = head.encode()
    ends = len(begin) - len(",") + np.cumsum([len(fragment) + len(",") for fragment in fragments], dtype=np.int64)
    return WatcherDocument(begin + b",".join(fragments) + TAIL, len(begin), places, ends)


def known_nodes(snapshot: Snapshot, window: Window) -> Bools:
    """[node]: whether it is known, and cpu and memory over this window too, as far as they are watched."""
    rows = [row for _, row in _rows(snapshot.resources, everything=False)]
    if not rows:
        return np.zeros(len(snapshot.nodes), bool)
    return np.asarray(_servable(snapshot, window)[rows].all(axis=0) & snapshot.known)


def decimals(values: Floats) -> list[str]:
    """Plain decimals of at most 15 significant digits for finite values in [0, 1e15)."""
    rounded = np.round(values, DECIMALS) + 0.0
    texts = msgspec.json.encode(rounded.tolist()).decode()[1:-1].split(",") if len(rounded) else []
    for index in np.flatnonzero((rounded >= 10.0 ** (15 - DECIMALS)) | ((rounded > 0) & (rounded < 1e-3))).tolist():
        texts[index] = f"{Decimal(f'{rounded[index]:.15g}'):f}"
    return texts


def _rows(resources: Sequence[str], everything: bool) -> list[tuple[str, int]]:
    ordered = [name for name in PRIMARY if name in resources]
    if everything:
        ordered += [name for name in resources if name not in PRIMARY]
    return [(name, resources.index(name)) for name in ordered]


def _servable(snapshot: Snapshot, window: Window) -> Bools:
    share = snapshot.allocatable_share
    mean_fits = (window.mean >= 0) & (window.mean * share < LARGEST)
    std_fits = (window.std >= 0) & (window.std * share < LARGEST)
    servable: Bools = window.known & (share > 0) & mean_fits & std_fits
    return servable


def _column(snapshot: Snapshot, window: Window, row: int, resource: str, everything: bool) -> list[str]:
    """[node]: the metrics of one resource as JSON text, empty where it is not known."""
    name, kind = PRIMARY.get(resource) or FURTHER.get(resource) or (f"instance:node_{resource}:ratio", resource.upper())
    known = _servable(snapshot, window)[row]
    if everything:
        known = known & np.isfinite(window.p95[row])
    deviation = window.std[row] * snapshot.allocatable_share[row]
    series = [("AVG", kind, snapshot.of_capacity(window.mean)[row]), ("STD", kind, deviation)]
    if everything:
        series.append(("P95", f"{kind}P95", snapshot.of_capacity(window.p95)[row]))
    texts = []
    for operator, type_, values in series:
        head = (
            f'{{"name":{_quoted(name)},"type":{_quoted(type_)},"operator":"{operator}","rollup":{_quoted(window.name)}'
        )
        texts.append([f'{head},"value":{number}}}' for number in decimals(np.where(known, values * 100, 0.0))])
    metrics = map(",".join, zip(*texts, strict=True))
    return [text if is_known else "" for is_known, text in zip(known.tolist(), metrics, strict=True)]


def _ages(snapshot: Snapshot, window: Window) -> list[int]:
    """[node]: seconds from the newest sample to the snapshot; the larger of cpu and memory where both are known."""
    rows = [row for _, row in _rows(snapshot.resources, everything=False)]
    seconds = np.where(window.known, snapshot.time - snapshot.newest, 0.0)[rows].max(axis=0, initial=0.0)
    ages: list[int] = np.nan_to_num(seconds).clip(0).astype(np.int64).tolist()
    return ages


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()
