"""Writes a recording from Prometheus, hour by hour; what is there already is not asked for again."""

from __future__ import annotations

import errno
import hashlib
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from ballast.base.errors import BadFile, BallastError, TelemetryError
from ballast.base.metrics import Metrics
from ballast.cli import files
from ballast.model.node import Node
from ballast.model.sample import Floats
from ballast.settings import Settings
from ballast.telemetry import presets
from ballast.telemetry.node_names import NodeNames
from ballast.telemetry.prometheus_client import PrometheusClient
from ballast.telemetry.prometheus_source import PrometheusSource
from ballast_lab.rehearse import kube_state, tables
from ballast_lab.rehearse.history import CLUSTER_FILE, RESOURCES, Unknown
from ballast_lab.rehearse.kube_state import KubeState, read_kube_state
from ballast_lab.rehearse.power import record_feeds
from ballast_lab.rehearse.recording import HEAD_FILE, NODE_USAGE, POD_USAGE, Head

HOUR = 3600.0
MOST_SAMPLES = 1_000_000
"""Of one answer: 2 % of what Prometheus loads for one query by default (--query.max-samples)."""
UNNAMED = "unnamed"
SILENCE = ("empty", "stale", UNNAMED)
"""Reasons of a reading's problems that are gaps, not errors; `unnamed` are nodes that had other names then."""
MOST_BYTES = 8 * 2**30
"""Of all that is kept of questions to Prometheus."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Asked:
    """What is recorded; Unix seconds."""

    begin: float
    end: float
    step: float

    def pieces(self) -> list[tuple[float, float]]:
        """(first, last) time of each hour, on the grid of the step."""
        first, last = math.ceil(self.begin / self.step), math.floor(self.end / self.step)
        hours: dict[int, list[int]] = {}
        for number in range(first, last + 1):
            hours.setdefault(int(number * self.step // HOUR), []).append(number)
        return [(numbers[0] * self.step, numbers[-1] * self.step) for numbers in hours.values()]


def cache_folder(settings: Settings, step: float) -> Path:
    """Where what was read of this Prometheus with these questions is kept."""
    prometheus = settings.prometheus
    parts = (PrometheusClient(settings).url, prometheus.preset, prometheus.matchers, settings.telemetry.interval, step)
    name = hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
    return _cache() / name


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ballast" / "rehearse"


def record(
    settings: Settings,
    folder: Path,
    asked: Asked,
    *,
    cluster: object = None,
    source: str = "",
    progress: Progress = lambda done, of: None,
    most_bytes: int | None = None,
) -> None:
    """Writes the recording, or what is missing of it. `cluster` is a list as kubectl prints it.

    Raises TelemetryError where Prometheus does not give what is needed, BallastError for a full disk.
    """
    try:
        _Recorder(settings, folder, asked, most_bytes).record(cluster, source, progress)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise BallastError(f"{error.filename or folder} cannot be written: {error.strerror}.") from None
        raise BallastError(
            f"The disk of {folder} is full. What is recorded stays: free some space, and run the same command again."
        ) from None


class _Recorder:
    def __init__(self, settings: Settings, folder: Path, asked: Asked, most_bytes: int | None) -> None:
        self._settings, self._folder, self._asked, self._most_bytes = settings, folder, asked, most_bytes
        self._client = PrometheusClient(settings)
        self._source = PrometheusSource(settings, Metrics())
        self._most: dict[str, int] = {}
        """By resource, how many times an answer has at most."""
        self._silence = ""
        self._unnamed: set[float] = set()
        """Begins of the hours in which exporters called all nodes by names that nobody lists."""

    def record(self, cluster: object, source: str, progress: Progress) -> None:
        asked, folder = self._asked, self._folder
        folder.mkdir(parents=True, exist_ok=True)
        self._check(folder)
        state = read_kube_state(self._client, self._settings, asked.begin, asked.end)
        nodes = self._nodes(state, cluster, source)
        if state is not None:
            self._most = dict.fromkeys(RESOURCES, max(1, MOST_SAMPLES // max(len(state.pods), 1)))
        names = NodeNames(
            sorted(nodes, key=lambda node: node.name),
            identity=self._settings.telemetry.node_identity,
            rewrite=self._settings.telemetry.node_rewrite,
        )
        unknown = [*(kube_state.UNSAID if state is not None and cluster is None else ())]
        pieces = asked.pieces()
        for number, (first, last) in enumerate(pieces):
            self._piece(NODE_USAGE, first, last, lambda path, a, b: self._of_nodes(path, a, b, names))
            self._piece(POD_USAGE, first, last, self._of_pods)
            progress(number + 1, len(pieces))
        for table in (NODE_USAGE, POD_USAGE):
            if not (folder / table).is_dir() or not tables.parts(folder / table):
                what = "nodes" if table == NODE_USAGE else "pods"
                why = self._silence or "Give a --from within its retention."
                raise TelemetryError(f"{self._client.url} has no use of {what} in that time. {why}")
        if state is not None:
            tables.write_rows(folder / "nodes.csv", kube_state.NODES_HEAD, state.nodes)
            tables.write_rows(folder / "pods.csv", kube_state.PODS_HEAD, state.pods)
        if self._unnamed:
            unknown.append(
                Unknown("nodes that had other names: their load is not counted", len(self._unnamed) / len(pieces))
            )
        record_feeds(self._settings, folder, pieces[0][0], pieces[-1][1], asked.step)
        if cluster is not None:
            (folder / CLUSTER_FILE).write_bytes(msgspec.json.encode(cluster))
        head = Head(pieces[0][0], pieces[-1][1], asked.step, unknown=tuple(unknown))
        (folder / HEAD_FILE).write_bytes(msgspec.json.encode(head))

    def _check(self, folder: Path) -> None:
        """Raises BadFile where the folder has a recording with another step."""
        path = folder / HEAD_FILE
        if path.is_file():
            try:
                step = msgspec.json.decode(path.read_bytes(), type=Head).step
            except msgspec.DecodeError as error:
                raise BadFile(f"{path}: {error}. Give another folder.") from None
            if step != self._asked.step:
                raise BadFile(f"{folder} has a recording with --step {step:g}. Give that or another folder.")

    def _nodes(self, state: KubeState | None, cluster: object, source: str) -> list[Node]:
        """All nodes that there were, with the addresses by which exporters may call them."""
        known: dict[str, Node] = {}
        for row in state.nodes if state is not None else ():
            amounts = {name: float(row[name]) for name in RESOURCES}
            whole = {name: float(row[f"{name}_capacity"] or amounts[name]) for name in RESOURCES}
            addresses = (("InternalIP", str(row["address"])),) if row["address"] else ()
            name = str(row["node"])
            known[name] = Node(name, uid=name, capacity=whole, allocatable=amounts, addresses=addresses)
        if cluster is not None:
            known |= {node.name: node for node in files.cluster(cluster, source).nodes}
        if not known:
            raise TelemetryError(
                f"{self._client.url} has no series of kube-state-metrics, so nothing says where pods were. Give the "
                "objects with --cluster FILE or --live, or run kube-state-metrics."
            )
        return list(known.values())

    def _piece(self, table: str, first: float, last: float, write: Callable[[Path, float, float], None]) -> None:
        """Written once; a part of the same hour that ends elsewhere goes."""
        folder = self._folder / table
        path = tables.part_of(folder, first, last)
        if path.is_file():
            return
        if folder.is_dir():
            for part in tables.parts(folder):
                if part.begin <= last and part.end >= first:
                    part.path.unlink()
        if self._most_bytes is not None:
            make_room(_cache(), self._folder, self._most_bytes)
        write(path, first, last)

    def _of_nodes(self, path: Path, first: float, last: float, names: NodeNames) -> None:
        step = self._asked.step
        times = np.arange(first, last + step / 2, step)
        whole = np.array([[node.capacity.get(name, 0.0) for node in names.nodes] for name in RESOURCES], float)
        values = np.full((len(RESOURCES), len(names), len(times)), np.nan)
        for reading in self._source.backfill(first, last, step, names):
            failed = [problem for problem in reading.failed.values() if problem.reason not in SILENCE]
            if failed:
                raise TelemetryError(f"nodes: {failed[0].text}")
            self._silence = "; ".join(sorted(set(reading.problems.values()))) or self._silence
            if any(problem.reason == UNNAMED for problem in reading.failed.values()):
                self._unnamed.add(first)
            place = round((reading.at - first) / step)
            for column, name in enumerate(RESOURCES):
                if (samples := reading.samples.get(name)) is not None:
                    values[column, samples.rows, place] = samples.values * whole[column, samples.rows]
        # An hour in which nothing was measured may come back, such as from a store that did not answer.
        if np.isfinite(values).any():
            tables.write_part(path, "node", RESOURCES, times, [node.name for node in names.nodes], values)

    def _of_pods(self, path: Path, first: float, last: float) -> None:
        step = self._asked.step
        times = np.arange(first, last + step / 2, step)
        answers = {name: self._ask(name, first, last) for name in RESOURCES}
        rows: dict[str, int] = {}
        for _, titles, _ in (answer for of_resource in answers.values() for answer in of_resource):
            rows.update((title, len(rows)) for title in titles if title not in rows)
        values = np.full((len(RESOURCES), len(rows), len(times)), np.nan)
        for column, name in enumerate(RESOURCES):
            for place, titles, found in answers[name]:
                values[column, [rows[title] for title in titles], place : place + found.shape[1]] = found
        if np.isfinite(values).any():
            tables.write_part(path, "pod", RESOURCES, times, list(rows), values)

    def _ask(self, resource: str, first: float, last: float) -> list[tuple[int, list[str], Floats]]:
        """(place of the first time, namespace/name of each pod, [pod, time]) of each answer."""
        step, answers = self._asked.step, []
        count = round((last - first) / step) + 1
        text = pod_query(self._settings, resource)
        most = self._most.get(resource, count)
        for start, table in kube_state.ask(self._client, text, ("namespace", "pod"), first, step, count, most):
            titles = [f"{space}/{name}" for space, name in zip(*table.columns.values(), strict=True)]
            answers.append((round((start - first) / step), titles, table.values))
        if len(answers) > 1:
            # As many as were answered this time, and few enough for the limits of the server.
            times = max(found.shape[1] for _, _, found in answers)
            series = max(len(titles) for _, titles, _ in answers)
            self._most[resource] = max(1, min(times, MOST_SAMPLES // max(series, 1)))
        return answers


def pod_query(settings: Settings, resource: str) -> str:
    """What each pod uses, summed over its containers; one that came back counts once."""
    text = presets.pod_queries(settings)[resource]
    return f"sum by (namespace, pod) (max by (namespace, pod, container) ({text}))"


def make_room(cache: Path, own: Path, most: int) -> None:
    """Removes the oldest parts of other recordings until the cache is below its bound. Raises BallastError where this
    recording alone is larger."""
    kept = [(path.stat().st_mtime, path.stat().st_size, path) for path in sorted(cache.rglob("*")) if path.is_file()]
    total = sum(size for _, size, _ in kept)
    for _, size, path in sorted(kept, key=lambda entry: entry[0]):
        if total <= most:
            return
        if own not in path.parents:
            path.unlink()
            total -= size
    if total > most:
        raise BallastError(
            f"{own} would be larger than {most / 2**30:.0f} GiB. Give a later --from or a larger --step, or write a "
            "recording of your own with `ballast rehearse record --out DIR`."
        )
