"""`ballast release`: removes everything that Ballast wrote to nodes and autoscalers, and its gate from pods."""

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, TypeAlias, TypeVar

import typer

from ballast.actuation import gates
from ballast.actuation.eviction import node_marks, surge
from ballast.actuation.scaling import cap as power
from ballast.base import log
from ballast.base.clock import Clock, SystemClock
from ballast.base.errors import BallastError, ClusterError, NotFound, UsageError
from ballast.base.metrics import Metrics
from ballast.base.parts import Part
from ballast.cli.place import ContextOption, KubeconfigOption, NamespaceOption, Place, installation
from ballast.cluster import listing
from ballast.cluster.client import KubeApi, connect
from ballast.cluster.identity import known_namespace, own_namespace
from ballast.cluster.lease import read_lease
from ballast.cluster.objects.decoding import Reader, annotation_filter, node_reader, pod_reader
from ballast.cluster.state import StateStore
from ballast.cluster.workload_cache import AUTOSCALERS, SCALED_OBJECTS, path_of, reader
from ballast.cluster.write import Result, WriteOutcome
from ballast.cluster.writer import EmergencyWriter, Pace, Writer
from ballast.model.workload import Autoscaler
from ballast.publishing import release_nodes as publishing
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
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Remove the labels, annotations and taints of Ballast from all nodes, restore the caps of autoscalers, and remove
    the gate ballast.dev/batch from all pods.

    Stop or pause the daemon first. Otherwise it writes them again. Where its namespace is not given, it has to be found
    by its Lease or Deployment.
    """
    place = Place(None, namespace, kubeconfig, context)
    settings = load(place.environment)
    log.configure(settings.log.level, settings.log.format)
    clock, metrics = SystemClock(), Metrics()
    api = connect(settings.cluster, metrics)
    if known_namespace(settings.lease.namespace) is None:
        settings = load(
            {**place.environment, "BALLAST_LEASE__NAMESPACE": installation(api, place, settings.lease.name)}
        )
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
    job = ReleaseJob(api, writer, clock, settings, annotation_filter(settings.publishing.prefix))
    outcomes: list[WriteOutcome] = []
    summary: list[str] = []
    for part, release_part in _RELEASERS.items():
        if part in chosen and not (stale is not None and stale.why):
            written, sentences = release_part(job)
            outcomes += written
            summary += sentences
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


@dataclass(frozen=True)
class ReleaseJob:
    """What every releaser works with."""

    api: KubeApi
    writer: Writer
    clock: Clock
    settings: Settings
    own: Callable[[str], bool]
    """Whether an annotation of this key is Ballast's."""

    @property
    def prefix(self) -> str:
        """Prefix of all keys of Ballast."""
        return self.settings.publishing.prefix


Released: TypeAlias = tuple[list[WriteOutcome], list[str]]
"""What became of each write, and sentences for the summary."""


def _release_nodes(job: ReleaseJob) -> Released:
    crane = job.settings.publishing.crane
    nodes = _all(job.api, "/api/v1/nodes", node_reader(lambda key: job.own(key) or (crane and is_written(key))))
    outcomes = publishing.release(
        job.api, job.writer, nodes, NodeKeys.of(job.prefix, job.settings.publishing.label_prefix), crane=crane
    )
    return outcomes, [f"Released {_objects(outcomes):,} of {len(nodes):,} nodes."]


def _restore_caps(job: ReleaseJob) -> Released:
    caps = [autoscaler for autoscaler in _autoscalers(job) if power.carries(autoscaler, job.prefix)]
    outcomes = power.give_back(job.api, job.writer, caps, job.prefix, reason=publishing.REASON)
    return outcomes, [f"Gave back {_objects(outcomes):,} of {len(caps):,} caps."] if caps else []


def _undo_evictions(job: ReleaseJob) -> Released:
    nodes = _all(job.api, "/api/v1/nodes", node_reader(job.own))
    marked = [node for node in nodes if node_marks.carries(node, job.prefix)]
    outcomes = node_marks.unmark(job.api, job.writer, marked, job.prefix, reason=publishing.REASON)
    state = StateStore(job.api, job.writer, job.settings.lease.namespace or own_namespace(None))
    added, left = surge.give_back_replicas(job.api, job.writer, state, job.clock)
    sentences = [f"Took back {added - left:,} of {added:,} replicas that were added."] if added else []
    if marked:
        sentences.append(f"Removed the marks of {_objects(outcomes):,} of {len(marked):,} nodes that pods left.")
    return outcomes, sentences


def _remove_gates(job: ReleaseJob) -> Released:
    gate = gates.gate_name(job.prefix)
    pods = _all(job.api, "/api/v1/pods", pod_reader(job.own), UNBOUND)
    removals = [gates.removal(pod, gate, gates.RELEASED) for pod in gates.held_by(gate, pods)]
    outcomes = gates.remove(EmergencyWriter(job.writer), removals)
    return outcomes, [f"Removed the gate of {_objects(outcomes):,} of {len(removals):,} pods."] if removals else []


_RELEASERS: Mapping[ReleasePart, Callable[[ReleaseJob], Released]] = {
    ReleasePart.PUBLISHING: _release_nodes,
    ReleasePart.POWER: _restore_caps,
    ReleasePart.EVICTION: _undo_evictions,
    ReleasePart.BATCH: _remove_gates,
}
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


def _autoscalers(job: ReleaseJob) -> list[Autoscaler]:
    """The HorizontalPodAutoscalers, and the ScaledObjects if KEDA is installed."""
    autoscalers: list[Autoscaler] = _all(job.api, path_of(AUTOSCALERS), reader(AUTOSCALERS, job.own))
    with suppress(NotFound):
        autoscalers += _all(job.api, path_of(SCALED_OBJECTS), reader(SCALED_OBJECTS, job.own))
    return autoscalers


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
