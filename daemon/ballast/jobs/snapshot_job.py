"""The job `telemetry`: reads the nodes, and gives the new snapshot to everything that reads one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ballast.base.errors import ClusterError
from ballast.cluster.context import Context
from ballast.cluster.workload_cache import DEVICE_CLAIMS, SLICES, WorkloadCache
from ballast.extender.decisions import ExtenderService
from ballast.jobs import sentences
from ballast.jobs.progress import Known, Progress
from ballast.jobs.telemetry_cycle import TelemetryCycle, source_title
from ballast.model.attachments import DeviceClaim, DeviceSlice
from ballast.model.snapshot import Snapshot
from ballast.publishing.freeze import Freeze
from ballast.scoring.devices.claimed import ClaimedDevices, claimed_devices
from ballast.serving.board import Board
from ballast.serving.rendering import render
from ballast.telemetry.node_names import Naming

CLAIM_KINDS = (SLICES, DEVICE_CLAIMS)


class ResourceClaims:
    """The devices of resource claims as the watches show them now; computed again only where they changed.

    May be asked by any thread. A server without DRA has none; a watch that fails leaves what was there last.
    """

    def __init__(self, workloads: WorkloadCache) -> None:
        self._workloads = workloads
        self._latest: tuple[Sequence[DeviceSlice], Sequence[DeviceClaim], ClaimedDevices] = ((), (), ClaimedDevices())

    def now(self) -> ClaimedDevices:
        """What is free and asked for."""
        slices, claims = self._workloads.device_slices(), self._workloads.device_claims()
        latest = self._latest
        if latest[0] is not slices or latest[1] is not claims:
            latest = self._latest = (slices, claims, claimed_devices(slices, claims))
        return latest[2]


class SnapshotJob:
    """Runs on every replica, whether it leads or not."""

    def __init__(
        self,
        context: Context,
        telemetry: TelemetryCycle,
        extender: ExtenderService,
        board: Board,
        progress: Progress,
        classes: Callable[[], Mapping[str, str]],
        observers: Sequence[Callable[[Snapshot], None]],
        claims: ResourceClaims,
    ) -> None:
        """`classes`: load class by node; `observers` get every snapshot, after it is served."""
        self._claims = claims
        publishing = context.settings.publishing
        self._context, self._telemetry, self._extender = context, telemetry, extender
        self._board, self._progress, self._classes, self._observers = board, progress, classes, observers
        self._freeze = Freeze(publishing.max_unknown, publishing.forget_after)
        self._names = Naming.of(context.settings).over(())

    def cycle(self) -> str:
        """Raises ClusterError while the nodes have never been listed."""
        context, cache, conditions = self._context, self._context.cache, self._context.conditions
        problem = cache.problem("nodes")
        conditions.report("ClusterUnreachable", "WatchFailing", problem)
        conditions.report("PodsUnreadable", "WatchFailing", cache.problem("pods"))
        conditions.report("LeaseFailing", "RequestFailed", context.leadership.problem)
        if not cache.listed("nodes"):
            raise ClusterError(problem or "the nodes have not been listed yet")
        nodes = cache.nodes()
        self._names = self._names.following(nodes)
        snapshot = self._telemetry.cycle(self._names)
        self._freeze = self._freeze.after(snapshot.states.silent_share, context.clock.monotonic())
        if (devices := self._claims.now()).free:
            snapshot = replace(snapshot, nodes=devices.on(snapshot.nodes))
        trusted = snapshot.trusted
        self._extender.observe(trusted)
        scores = self._extender.node_scores(context.settings.publishing.strategy)
        label_scores = self._extender.label_scores(context.settings.publishing.strategy)
        self._show(snapshot, scores)
        sentences.report_telemetry(snapshot, self._telemetry, self._freeze, conditions, context.settings)
        for observe in self._observers:
            observe(trusted)
        self._progress.finished(Known(trusted, scores, label_scores, self._freeze, self._names))
        return sentences.telemetry_sentence(snapshot, self._telemetry)

    def _show(self, snapshot: Snapshot, scores: Mapping[str, int | None]) -> None:
        board, publishing = self._board, self._context.settings.publishing
        board.rendered = render(
            snapshot,
            scores,
            source=source_title(snapshot),
            frozen=self._freeze.frozen,
            fetched=self._context.clock.wall(),
            prefix=publishing.label_prefix or publishing.prefix,
            classes=self._classes(),
            previous=board.rendered,
        )
        board.scores = scores
        board.snapshot = snapshot.trusted
        board.frozen = self._freeze.frozen
        board.history.observe(snapshot, scores, board.high)
