"""Takes the moment that one cycle of evictions goes by, and the gate of the very moment of a step."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ballast.actuation.eviction import effect
from ballast.actuation.eviction.evictor import Evictor
from ballast.actuation.eviction.replacement_reservations import ReplacementReservations
from ballast.actuation.protected import Protected
from ballast.base.parts import Part
from ballast.cluster.context import Context
from ballast.cluster.owner_scales import OwnerScales
from ballast.cluster.watch import WATCH_SILENT
from ballast.cluster.workload_cache import (
    CLAIMS,
    CLASSES,
    CSI_NODES,
    NODE_CLAIMS,
    QUOTAS,
    SCALE_UPS,
    SLICES,
    VOLUMES,
    VPAS,
)
from ballast.eviction.checks.acting import cluster_trouble
from ballast.eviction.facts import LISTED, ClusterObjects, WorkloadKey, promised
from ballast.eviction.gate import Gate
from ballast.eviction.history import History
from ballast.jobs.eviction import eviction_sentences
from ballast.jobs.eviction.day_peak import DayKeeper
from ballast.jobs.eviction.observations import HotNodes, InvalidAnnotations, RecentScaling
from ballast.jobs.eviction.plans import rules_for
from ballast.model.node_state import NodeState
from ballast.model.pod import Pod
from ballast.model.snapshot import Snapshot
from ballast.model.workload import Workload
from ballast.placement.reservations import with_promises
from ballast.planners.planner import Planner
from ballast.planning.from_settings import aims_of, rules_of
from ballast.planning.moment import Moment, facts_of, watched_of, with_loads
from ballast.serving.board import Board
from ballast.windows.standard_error import LoadErrors

KINDS = (
    "deployments",
    "replicasets",
    "statefulsets",
    "daemonsets",
    "poddisruptionbudgets",
    "horizontalpodautoscalers",
    "namespaces",
)
"""What the checks look at beside nodes and pods."""

FURTHER_KINDS = (CLAIMS, VOLUMES, CLASSES, CSI_NODES, SLICES, NODE_CLAIMS, SCALE_UPS, QUOTAS, VPAS)
"""What decides where pods can go, and whether they come back: without them, pods that need one stay where they are."""


@dataclass(frozen=True)
class OtherParts:
    """What evictions leave alone because another part is at work there."""

    power_plans: Callable[[], frozenset[str]]
    """namespace/name of workloads whose replicas an open power plan is changing."""
    surging: Callable[[], frozenset[WorkloadKey]]
    """Workloads with one replica more while a pod of theirs moves."""
    budgeted: frozenset[WorkloadKey] = frozenset()
    """Workloads whose replicas a power policy sets."""


class MomentTaker:
    """`observe` at every snapshot, also where another leads; `take_moment` in any thread; all else in the job's."""

    def __init__(
        self,
        context: Context,
        *,
        board: Board,
        evictor: Evictor,
        replacements: ReplacementReservations,
        protected: Protected,
        others: OtherParts,
        day: DayKeeper,
    ) -> None:
        self._settings, self._board = context.settings, board
        self._began = context.clock.monotonic()
        self._clock, self._cache, self._workloads = context.clock, context.cache, context.workloads
        self._leading, self._switches = context.leadership.is_leader, context.switches
        self._evictor, self._replacements, self._others = evictor, replacements, others
        self._protector, self._scales = protected, OwnerScales(context.api, context.clock)
        self.shadow = evictor.shadow
        self._protected: Mapping[WorkloadKey, str] = {}
        self._rules, self._aims = rules_of(self._settings), aims_of(self._settings)
        self._weights = self._settings.scoring.resources
        self._hot = HotNodes(self._aims, self._settings.telemetry.interval, self._weights)
        self._errors, self._scaling = LoadErrors(evictor.options.lag), RecentScaling()
        self.day = day
        self._invalid = InvalidAnnotations(
            self._settings.publishing.prefix,
            lambda target, why: context.events.emit(
                target, "ExcludeFromEviction", why, part=Part.EVICTION, warning=True
            ),
        )

    @property
    def starting(self) -> bool:
        """Whether this replica began so lately that objects may not have been listed yet."""
        return self._clock.monotonic() - self._began < WATCH_SILENT and self._unseen() is not None

    def observe(self, snapshot: Snapshot) -> None:
        """Counts the windows of hot nodes, and notes which replica counts changed."""
        self._hot.observe(snapshot)
        self.day.observe(snapshot)
        self._errors.observe(snapshot)
        self._scaling.observe(self._workloads.workloads(), self._clock.wall())

    def refresh(self) -> None:
        """Once a cycle: which workloads are protected, and which annotations are invalid."""
        self._protector.refresh()
        workloads = self._workloads.workloads()
        self._protected = {
            workload.key: f"it is left alone: {why}"
            for workload in workloads
            if (why := self._protector.reason(workload)) is not None
        }
        if self._settings.eviction.acting:
            self._invalid.observe(workloads, self._workloads.namespaces(), self._cache.pods())

    def take_moment(self, snapshot: Snapshot, *, imagined: bool = False) -> Moment:
        """Loads are those of the snapshot, with the moves that its window does not show yet.

        `imagined`: as if a dry run had carried out what it planned before.
        """
        pods: Sequence[Pod] = self._cache.pods()
        elsewhere: dict[str, str] = {}
        if imagined:
            self.shadow.look(pods, self._cache.nodes())
            real, pods = pods, self.shadow.pods(pods)
            elsewhere = {f"{a.namespace}/{a.name}": a.node for a, b in zip(real, pods, strict=True) if a is not b}
        objects = self._objects(with_promises(pods, self._replacements.extender.active()))
        history = self._history(objects.workloads, imagined=imagined or None)
        recent = self._evictor.pending(snapshot.shortest.seconds)
        changes: Mapping[str, Mapping[str, float]] = {
            **self._evictor.pending(),
            **{name: recent.get(name, {}) for name in history.overloaded},
        }
        if imagined:
            changes = effect.sum_of((changes, self.shadow.changes()))
        bare = Moment(
            now=self._clock.wall(),
            objects=objects,
            resources=watched_of(snapshot, self._aims, self._weights),
            history=history,
            silent=snapshot.states.counts[NodeState.SILENT],
            steered=self._replacements.names({pod.scheduler_name for pod in objects.pods}),
            elsewhere=elsewhere,
            pool_label=self._settings.cluster.pool_label,
            weights=self._weights,
            node_weights=self._settings.scoring.node_weights,
        )
        moment = with_loads(bare, snapshot, changes, self._errors.newest, self.day.loads(snapshot))
        obstacle = self._unseen() or moment.history.paused
        blind = obstacle is None and self._board.frozen
        if blind:
            obstacle = "too many nodes are silent"
        if obstacle is None:
            facts = facts_of(replace(objects, pods=()), snapshot, moment.now, 0)
            trouble = cluster_trouble(facts, self._rules, moment.history)
            obstacle = trouble and trouble.in_words
        return replace(moment, halted=obstacle, blind=blind)

    def gate(self, planner: Planner, namespaces: set[str], pod: Pod | None = None) -> Gate:
        """For an eviction of `pod` that is about to be sent, and of others in one of these namespaces.

        Everything is looked up again: leadership, pauses, budgets and pods may have changed since the plan was made.
        """
        imagined = planner.name in self._settings.eviction.imagining
        snapshot = self._board.snapshot
        pods: Sequence[Pod] = self.shadow.pods(self._cache.pods()) if imagined else self._cache.pods()
        assert snapshot is not None
        steered = self._replacements.names({each.scheduler_name for each in pods})
        if pod is not None and pod.owner is not None and pod.owner.kind not in LISTED:
            self._scales.ask(pod)
        objects = self._objects([each for each in pods if each.namespace in namespaces])
        names = {node.name for node in objects.nodes}
        count = sum(not each.finished and each.node in names for each in pods)
        facts = facts_of(objects, snapshot, self._clock.wall(), count)
        history = replace(self._history(objects.workloads, imagined=imagined), acting=True)
        return Gate(facts, rules_for(planner, rules_of(self._settings, planner.name), steered), history)

    def _unseen(self) -> str | None:
        """Which objects have not been seen lately."""
        for kind in ("nodes", "pods", *KINDS):
            cache = self._workloads if kind in KINDS else self._cache
            problem, age = cache.problem(kind), cache.age(kind)
            if problem or age > WATCH_SILENT:
                return eviction_sentences.not_watched(kind, age, problem)
        return None

    def _objects(self, pods: Sequence[Pod]) -> ClusterObjects:
        return ClusterObjects(
            nodes=self._cache.nodes(),
            pods=pods,
            workloads=self._workloads.workloads(),
            budgets=self._workloads.budgets(),
            autoscalers=self._scaling.beside(self._workloads.autoscalers()),
            namespaces=self._workloads.namespaces(),
            protected=self._protected,
            attachments=self._workloads.attachments(),
            node_claims=self._workloads.node_claims(),
            promised=promised(self._workloads.scale_ups(), self._clock.wall()),
            budgeted=self._others.budgeted,
            quotas=self._workloads.quotas(),
            recommendations=self._workloads.recommendations(),
            scales=self._scales.known(),
        )

    def _history(self, workloads: Iterable[Workload], *, imagined: bool | None) -> History:
        """What earlier evictions and other parts mean for the gate."""
        earlier = self._evictor.history(imagined=imagined)
        surging, changing = self._others.surging(), self._others.power_plans()
        keys = (workload.key for workload in workloads) if changing else ()
        return replace(
            earlier,
            awaited=earlier.awaited | surging,
            replacements=earlier.replacements + len(surging),
            leader=self._leading(),
            paused=self._switches.paused(Part.EVICTION),
            confirmed=self._hot.confirmed,
            overloaded=self._hot.overloaded,
            causes=self._hot.causes,
            planned=frozenset(key for key in keys if f"{key[0]}/{key[2]}" in changing),
        )
