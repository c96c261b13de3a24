"""`ballast release`: removes everything that Ballast wrote to nodes and autoscalers, and its gate from pods."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, TypeVar

import typer

from ballast.actuation import gates
from ballast.actuation.eviction import node_marks, surge
from ballast.actuation.scaling import release as power
from ballast.base import log
from ballast.base.clock import Clock, SystemClock
from ballast.base.errors import BallastError, ClusterError, NotFound, UsageError
from ballast.base.metrics import Metrics
from ballast.base.parts import Part
from ballast.cluster import listing
from ballast.cluster.client import KubeApi, connect
from ballast.cluster.identity import own_namespace
from ballast.cluster.lease import read_lease
from ballast.cluster.objects.decoding import Reader, annotation_filter, node_reader, pod_reader
from ballast.cluster.state import StateStore
from ballast.cluster.workload_cache import AUTOSCALERS, SCALED_OBJECTS, path_of, reader
from ballast.cluster.write import Result, WriteOutcome
from ballast.cluster.writer import EmergencyWriter, Pace, Writer
from ballast.model.workload import Autoscaler
from ballast.publishing import release as publishing
from ballast.publishing.crane_plan import is_written
from ballast.publishing.node_keys import NodeKeys
from ballast.settings import Duration, Settings, load

T = TypeVar("T")
READ_INTERVAL, RENEWED = 5.0, 60.0
UNBOUND = {"fieldSelector": "spec.nodeName="}


class ReleasePart(StrEnum):
    """The parts whose writes can be released."""

    PUBLISHING = Part.PUBLISHING
    POWER = Part.POWER
    EVICTION = Part.EVICTION
    BATCH = Part.BATCH


def release(
    parts: Annotated[
        list[ReleasePart] | None,
        typer.Argument(
            help="publishing: labels and taints of nodes; power: caps of autoscalers; eviction: marks of nodes that "
            "pods left, replicas that were added; batch: scheduling gates of pods. Default: all."
        ),
    ] = None,
    if_stale: Annotated[
        str | None,
        typer.Option(help="Release only if there is a Lease and its last renewal is at least this old, such as 15m."),
    ] = None,
) -> None:
    """Remove the labels, annotations and taints of Ballast from all nodes, restore the caps of autoscalers, and remove
    the gate ballast.dev/batch from all pods.

    Stop or pause the daemon first. Otherwise it writes them again.
    """
    settings = load()
    log.configure(settings.log.level, settings.log.format)
    clock, metrics = SystemClock(), Metrics()
    api = connect(settings.cluster, metrics)
    stale = None if if_stale is None else StaleLease(api, clock, settings, _age(if_stale))
    if stale is not None and not stale():
        typer.echo(f"Released nothing: {stale.why}")
        return
    writer = Writer(
        api,
        clock,
        metrics,
        pace=Pace(clock, settings.cluster.qps, settings.cluster.burst),
        modes=dict.fromkeys(ReleasePart, "on"),
        paused=lambda part: None,
        leading=stale or (lambda: True),
    )
    chosen = parts or list(ReleasePart)
    outcomes: list[WriteOutcome] = []
    summary: list[str] = []
    prefix, crane = settings.publishing.prefix, settings.publishing.crane
    own = annotation_filter(prefix)
    if ReleasePart.PUBLISHING in chosen:
        nodes = _all(api, "/api/v1/nodes", node_reader(lambda key: own(key) or (crane and is_written(key))))
        outcomes += publishing.release(api, writer, nodes, NodeKeys.of(prefix), crane=crane)
        summary.append(f"Released {_objects(outcomes):,} of {len(nodes):,} nodes.")
    if ReleasePart.POWER in chosen and not (stale is not None and stale.why):
        caps = [each for each in _autoscalers(api, prefix) if power.carries(each, prefix)]
        restored = power.give_back(api, writer, caps, prefix, reason=publishing.REASON)
        outcomes += restored
        if caps:
            summary.append(f"Gave back {_objects(restored):,} of {len(caps):,} caps.")
    if ReleasePart.EVICTION in chosen and not (stale is not None and stale.why):
        marked = [node for node in _all(api, "/api/v1/nodes", node_reader(own)) if node_marks.carries(node, prefix)]
        unmarked = node_marks.unmark(api, writer, marked, prefix, reason=publishing.REASON)
        outcomes += unmarked
        namespace = settings.lease.namespace or own_namespace(None)
        added, still = surge.give_back_replicas(api, writer, StateStore(api, writer, namespace), clock)
        if added:
            summary.append(f"Took back {added - still:,} of {added:,} replicas that were added.")
        if marked:
            summary.append(f"Removed the marks of {_objects(unmarked):,} of {len(marked):,} nodes that pods left.")
    if ReleasePart.BATCH in chosen and not (stale is not None and stale.why):
        held, freed = _ungated(api, writer, prefix)
        outcomes += freed
        if held:
            summary.append(f"Removed the gate of {_objects(freed):,} of {held:,} pods.")
    if stale is not None and stale.why:
        summary.append(f"Stopped: {stale.why}")
    nothing = " and ".join(_NOTHING[part] for part in chosen if part in _NOTHING)
    typer.echo(" ".join(summary) or f"Released nothing: {nothing}.")
    if stale is None and (holder := _writing(api, clock, settings)):
        typer.echo(
            f"warning: {holder} is the leader and writes all this again, unless it is paused or in dry-run. Stop or "
            "pause it (see `ballast pause`), then run this command again.",
            err=True,
        )
    failed = [outcome for outcome in outcomes if outcome.result not in _WELL]
    if failed:
        raise BallastError(f"{len(failed):,} writes failed; the first: {failed[0].reason}. Run the command again.")


_NOTHING = {
    ReleasePart.POWER: "no autoscaler has a cap of Ballast",
    ReleasePart.EVICTION: "no node has a mark of evictions",
    ReleasePart.BATCH: "no pod has the gate of Ballast",
}
_WELL = (Result.DONE, Result.GONE, Result.REFUSED)


def _writing(api: KubeApi, clock: Clock, settings: Settings) -> str | None:
    """The holder that renewed the Lease within RENEWED seconds; None if there is none or it cannot be read."""
    try:
        lease = read_lease(api, settings.lease.namespace or own_namespace(None), settings.lease.name)
    except ClusterError:
        return None
    if lease is None or lease.renew_time is None or not lease.holder_identity:
        return None
    return lease.holder_identity if clock.wall() - lease.renew_time.timestamp() < RENEWED else None


def _objects(outcomes: Iterable[WriteOutcome]) -> int:
    """The number of objects that Ballast tried to write."""
    return len({str(outcome.write.target) for outcome in outcomes if outcome.result is not Result.REFUSED})


def _autoscalers(api: KubeApi, prefix: str) -> list[Autoscaler]:
    """The HorizontalPodAutoscalers, and the ScaledObjects if KEDA is installed."""
    keep = annotation_filter(prefix)
    found: list[Autoscaler] = _all(api, path_of(AUTOSCALERS), reader(AUTOSCALERS, keep))
    try:
        found += _all(api, path_of(SCALED_OBJECTS), reader(SCALED_OBJECTS, keep))
    except NotFound:
        return found
    return found


def _ungated(api: KubeApi, writer: Writer, prefix: str) -> tuple[int, list[WriteOutcome]]:
    """How many pods carried the gate, and what became of removing it."""
    gate = gates.gate_name(prefix)
    pods = _all(api, "/api/v1/pods", pod_reader(annotation_filter(prefix)), UNBOUND)
    removals = [gates.removal(pod, gate, gates.RELEASED) for pod in gates.held_by(gate, pods)]
    return len(removals), gates.remove(EmergencyWriter(writer), removals)


def _all(api: KubeApi, path: str, reader: Reader[T], query: Mapping[str, str | int] | None = None) -> list[T]:
    listed = listing.list_all(api, path, reader, query or {}, threading.Event())
    assert listed is not None
    return listed[0]


def _age(text: str) -> float:
    try:
        return Duration(text)
    except ValueError as error:
        raise UsageError(f"--if-stale {text}: {error}") from error


class StaleLease:
    """True while the last renewal of the Lease is at least `age` seconds old; reads it every READ_INTERVAL seconds.

    Once False it stays False, and `why` has the reason. Raises ClusterError when the Lease cannot be read.
    """

    def __init__(self, api: KubeApi, clock: Clock, settings: Settings, age: float) -> None:
        self._api = api
        self._clock = clock
        self._namespace = settings.lease.namespace or own_namespace(None)
        self._name = settings.lease.name
        self._age = age
        self._read_at = clock.monotonic()
        self.why: str | None = None

    def __call__(self) -> bool:
        if self.why is None and self._clock.monotonic() >= self._read_at:
            self.why = self._read()
            self._read_at = self._clock.monotonic() + READ_INTERVAL
        return self.why is None

    def _read(self) -> str | None:
        lease = read_lease(self._api, self._namespace, self._name)
        subject = f"Lease {self._namespace}/{self._name}"
        if lease is None:
            return (
                f"there is no {subject}, so it is unknown whether a daemon runs. Check BALLAST_LEASE__NAMESPACE and "
                "BALLAST_LEASE__NAME. If there is no Lease, stop the daemon and run `ballast release`."
            )
        if lease.renew_time is None:
            return f"{subject} has no renewTime. Stop the daemon and run `ballast release`."
        since = self._clock.wall() - lease.renew_time.timestamp()
        return None if since >= self._age else f"{subject} was renewed {since:.0f} s ago."
