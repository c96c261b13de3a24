"""Reads the status of a policy's targets from the watches."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from operator import is_
from typing import NamedTuple

from ballast.actuation.protected import Protected
from ballast.actuation.scaling import scale
from ballast.actuation.scaling.cap import PART, form_of, is_ours, least, original, paused
from ballast.actuation.scaling.remembered import Ceilings, Contention, OwnWrites
from ballast.actuation.scaling.scale import Scale, manager_of
from ballast.actuation.scaling.target_status import (
    Actuator,
    Autoscalers,
    ObstacleKind,
    TargetObstacle,
    TargetStatus,
    deletes_claims,
)
from ballast.base.clock import Clock
from ballast.base.errors import ClusterError
from ballast.cluster.client import KubeApi
from ballast.cluster.watch import WATCH_SILENT
from ballast.cluster.workload_cache import (
    AUTOSCALERS,
    NAMESPACES,
    SCALED_OBJECTS,
    STATEFUL_SETS,
    WORKLOADS,
    WorkloadCache,
    plural_of,
)
from ballast.model.disruption import NAMESPACE, AnnotatedObject, by_operator, exclusion, part_exclusion
from ballast.model.pod import Pod
from ballast.model.selector import Selector
from ballast.model.workload import Autoscaler, Workload
from ballast.power.policy import Member, PowerPolicy
from ballast.power.sections import Actuation


def kinds_of(policies: Iterable[PowerPolicy]) -> frozenset[str]:
    """The kinds that a WorkloadCache has to watch for these policies.

    What an owner of another kind does to claims stands in the StatefulSets that it makes.
    """
    members = {plural_of(place.member.kind) for policy in policies for place in policy.places.values()}
    below = {STATEFUL_SETS} if members - WORKLOADS.keys() else set()
    return frozenset({AUTOSCALERS, SCALED_OBJECTS, NAMESPACES, *members, *below})


class _Known(NamedTuple):
    """A status that was computed before, and the objects it was computed from."""

    actuation: Actuation
    inputs: tuple[object, ...]
    status: TargetStatus


class _Place(NamedTuple):
    """Where the watches have a member."""

    ref: str
    member: Member
    plural: str
    namespace: str
    name: str


class _Placed(NamedTuple):
    """The members of a policy, and the kinds that are read for them."""

    policy: PowerPolicy
    members: Sequence[_Place]
    kinds: frozenset[str]


PodIndex = dict[tuple[str, str, str], list[Pod]]


class Waiting:
    """Pods that are Pending, those of them that no node takes, and pods that are being deleted.

    All are searched at the first question only.
    """

    def __init__(self, pods: Callable[[], Iterable[Pod]]) -> None:
        self._pods = pods

    def count(self, namespace: str, selector: Selector) -> int:
        """Pods that are Pending. Raises ClusterError while pods are not known."""
        return _matching(self._indexes[0], namespace, selector)

    def unplaced(self, namespace: str, selector: Selector) -> int:
        """Pods that the scheduler finds no node for, or may not place yet. Raises ClusterError likewise."""
        return _matching(self._indexes[2], namespace, selector)

    def leaving(self, namespace: str, selector: Selector) -> int:
        """Pods on nodes that are being deleted. Raises ClusterError while pods are not known."""
        return _matching(self._indexes[1], namespace, selector)

    @cached_property
    def _indexes(self) -> tuple[PodIndex, PodIndex, PodIndex]:
        """By namespace and each of their labels, and by the namespace alone."""
        pending: PodIndex = {}
        leaving: PodIndex = {}
        unplaced: PodIndex = {}
        for pod in self._pods():
            if pod.deleting and pod.node and not pod.finished:
                _index(leaving, pod)
            elif pod.phase == "Pending" and not pod.deleting:
                _index(pending, pod)
                if not pod.node and (pod.waiting_since is not None or pod.gates):
                    _index(unplaced, pod)
        return pending, leaving, unplaced


def _index(pods: PodIndex, pod: Pod) -> None:
    for key, value in (("", ""), *pod.labels.items()):
        pods.setdefault((pod.namespace, key, value), []).append(pod)


def _matching(pods: PodIndex, namespace: str, selector: Selector) -> int:
    named = next((item for item in selector.requirements if item.operator == "In" and len(item.values) == 1), None)
    key = (namespace, "", "") if named is None else (namespace, named.key, named.values[0])
    return sum(1 for pod in pods.get(key, ()) if selector.matches(pod.labels))


def _leaving(waiting: Waiting, workload: Workload, now: Scale) -> int:
    selector = workload.selector or now.selector
    try:
        return 0 if selector is None else waiting.leaving(workload.namespace, selector)
    except ClusterError:
        return 0


class TargetReader:
    """Reads the status of targets from the watches and from Ballast's own newest writes.

    `on_invalid` is called once for each annotation whose value is invalid.
    """

    def __init__(
        self,
        api: KubeApi,
        cache: WorkloadCache,
        pods: Callable[[], tuple[Pod, ...]],
        clock: Clock,
        *,
        prefix: str,
        protected: Protected | None,
        on_invalid: Callable[[Workload, str], None],
    ) -> None:
        self._api = api
        self._cache = cache
        self._pods = pods
        self._clock = clock
        self.own_writes = OwnWrites(clock)
        self.contention = Contention(clock)
        self._ceilings = Ceilings(clock)
        self._prefix = prefix
        self._protected = protected
        self._on_invalid = on_invalid
        self._reported: set[tuple[str, str]] = set()
        self._read: dict[str, Scale] = {}
        self._known: dict[str, _Known] = {}
        self._placed: dict[str, _Placed] = {}
        self._index: tuple[tuple[Autoscaler, ...], tuple[Autoscaler, ...], Autoscalers] | None = None

    def autoscalers(self) -> Autoscalers:
        """All autoscalers as they are now, Ballast's own newest writes included."""
        hpas = tuple(map(self.own_writes.autoscaler, self._cache.autoscalers()))
        scaled_objects = tuple(map(self.own_writes.autoscaler, self._cache.scaled_objects()))
        kept = self._index
        if kept is None or not (_same(kept[0], hpas) and _same(kept[1], scaled_objects)):
            kept = self._index = hpas, scaled_objects, Autoscalers(hpas, scaled_objects)
        return kept[2]

    def blind_to_autoscalers(self) -> str | None:
        """Why the autoscalers are not known well enough, or None."""
        hold = self._blind(AUTOSCALERS) or self._blind(SCALED_OBJECTS)
        return None if hold is None else hold.text

    def read(self, policy: PowerPolicy) -> Mapping[str, TargetStatus]:
        """The status of every target, by namespace/name."""
        if self._protected is not None:
            self._protected.refresh()
        index, waiting, placed = self.autoscalers(), Waiting(self._pods), self._places(policy)
        made = self._made_below(placed)
        blind = {kind: self._blind(kind) for kind in placed.kinds}
        blind_to_all = next((blind[kind] for kind in (AUTOSCALERS, SCALED_OBJECTS, NAMESPACES) if blind[kind]), None)
        return {
            place.ref: _unseen(place.member, hold)
            if (hold := blind[place.plural] or blind_to_all) is not None
            else self._status(policy, place, index, waiting, made)
            for place in placed.members
        }

    def _places(self, policy: PowerPolicy) -> _Placed:
        kept = self._placed.get(policy.name)
        if kept is None or kept.policy is not policy:
            members = [
                _Place(name, place.member, plural_of(place.member.kind), *name.split("/"))
                for name, place in policy.places.items()
            ]
            kept = self._placed[policy.name] = _Placed(policy, members, kinds_of([policy]))
        return kept

    def _made_below(self, placed: _Placed) -> Mapping[str, list[Workload]]:
        """The StatefulSets that targets of other kinds may have made, by the UID of their owner."""
        made: dict[str, list[Workload]] = {}
        if any(place.plural not in WORKLOADS for place in placed.members):
            for each in self._cache.workloads():
                if each.kind == "StatefulSet" and each.owner is not None:
                    made.setdefault(each.owner.uid, []).append(each)
        return made

    def _status(
        self,
        policy: PowerPolicy,
        place: _Place,
        index: Autoscalers,
        waiting: Waiting,
        made: Mapping[str, list[Workload]],
    ) -> TargetStatus:
        ref, member, plural, namespace, name = place
        workload = self._cache.workload(plural, namespace, name)
        if workload is None:
            missing = _problem(f"there is no {member.ref}. Create it, or correct ref.")
            return _unseen(member, missing, replicas=0)
        below = made.get(workload.uid, ()) if plural not in WORKLOADS else ()
        inputs = (
            member,
            workload,
            self._cache.namespace(namespace),
            self.own_writes.scale(ref, workload.version),
            self._protected and self._protected.revision,
            *index.of(workload),
            *below,
        )
        known = self._known.get(ref)
        if known is not None and policy.actuation is known.actuation and _same(known.inputs, inputs):
            return known.status
        status = self._compute(policy, member, plural, workload, index, waiting)
        # What it has goes on counting; a fall is left to the other members.
        if status.hold is None and (danger := deletes_claims(member, workload, below)):
            status = replace(status, obstacle=_problem(danger))
        if self._lasts(status):
            self._known[ref] = _Known(policy.actuation, inputs, status)
        else:
            self._known.pop(ref, None)
        return status

    def _lasts(self, status: TargetStatus) -> bool:
        """Whether it stays valid as long as the objects it was computed from."""
        workload = status.workload
        short = (
            workload is not None
            and (workload.uncreated or workload.kind == "StatefulSet")
            and workload.present < (status.replicas or 0)
        )
        passing = (
            status.obstacle
            or status.excluded
            or status.pending
            or status.leaving
            or short
            or status.ceiling is not None
        )
        return not passing and self.contention.calm(status.name)

    def _compute(
        self, policy: PowerPolicy, member: Member, plural: str, workload: Workload, index: Autoscalers, waiting: Waiting
    ) -> TargetStatus:
        status = TargetStatus(
            name=member.name,
            kind=workload.kind,
            actuator=Actuator.OBSERVE,
            count=None,
            workload=workload,
            excluded=self._excluded(workload),
        )
        if plural == "daemonsets":
            return replace(status, obstacle=_problem("a DaemonSet has no replicas to set. Remove it from the policy."))
        path = scale.path_of(workload, plural)
        try:
            now = self._scale(member.name, workload, path)
        except ClusterError as error:
            return replace(status, obstacle=_problem(str(error)))
        detected = index.detect(workload, policy.actuation)
        status = replace(
            status,
            actuator=detected.actuator,
            count=now.replicas,
            replicas=now.replicas,
            rolling=workload.rolling and not workload.stalled and workload.observed == workload.generation,
            obstacle=None if detected.problem is None else _problem(detected.problem),
            version=now.version,
            scale_path=path,
            autoscaler=detected.autoscaler,
        )
        if policy.absolute:
            status = replace(status, leaving=_leaving(waiting, workload, now))
        if detected.autoscaler is not None:
            return self._under(detected.autoscaler, status, absolute=policy.absolute)
        if detected.actuator is Actuator.SCALE:
            return self._alone(now, workload, status, waiting)
        return status

    def _alone(self, now: Scale, workload: Workload, seen: TargetStatus, waiting: Waiting) -> TargetStatus:
        """A workload that nothing else scales."""
        path = seen.scale_path.removesuffix("/scale")
        self.contention.notice(seen.name, now.replicas, lambda: manager_of(self._api, path, "replicas"))
        obstacle = self.contention.contended(seen.name)
        if (ceiling := self._ceilings.of(seen.name, workload, now.replicas)) is not None:
            return replace(seen, ceiling=ceiling, maximum=ceiling, obstacle=obstacle)
        selector = workload.selector or now.selector
        complete = workload.replicas is not None and workload.ready >= now.replicas
        pending, unplaced = 0, 0
        try:
            if not complete and selector is not None:
                pending = waiting.count(workload.namespace, selector)
                unplaced = waiting.unplaced(workload.namespace, selector)
        except ClusterError:
            pending = max(1, now.replicas - workload.ready)
        if pending:
            return replace(seen, pending=pending, unplaced=unplaced, maximum=now.replicas, obstacle=obstacle)
        return seen if obstacle is None else replace(seen, obstacle=obstacle)

    def _under(self, autoscaler: Autoscaler, seen: TargetStatus, *, absolute: bool) -> TargetStatus:
        """A workload whose autoscaler can be capped; an absolute budget counts the cap in force, whoever set it."""
        try:
            ours, before = is_ours(autoscaler, self._prefix), original(autoscaler, self._prefix)
        except ValueError as error:
            obstacle = _problem(f"{autoscaler.own_kind} {autoscaler.own_name}: {error}.")
            return replace(seen, count=None, obstacle=obstacle)
        form = form_of(autoscaler)
        who = lambda: manager_of(self._api, form.path(autoscaler), form.field)  # noqa: E731
        self.contention.notice(seen.name, autoscaler.maximum, who)
        lowest, now = least(autoscaler), seen.replicas or 0
        no_effect = paused(autoscaler) if seen.actuator is Actuator.SCALED_OBJECT_CAP else None
        excluded = seen.excluded
        if not now and autoscaler.minimum:
            excluded = excluded or f"it was set to 0 replicas, which stops {autoscaler.own_kind} {autoscaler.own_name}"
        return replace(
            seen,
            count=autoscaler.maximum if ours or absolute else now,
            minimum=lowest,
            maximum=(before or autoscaler.maximum) if ours else autoscaler.maximum if absolute else max(now, lowest),
            capped=ours,
            original=before if ours else autoscaler.maximum,
            excluded=excluded,
            obstacle=_problem(no_effect.text) if no_effect else self.contention.contended(seen.name),
            version=autoscaler.version,
        )

    def _scale(self, name: str, workload: Workload, path: str) -> Scale:
        """The replicas asked for now: by our own newer write, the watch, or `/scale` where the watch has none."""
        if (written := self.own_writes.scale(name, workload.version)) is not None:
            return written
        if workload.replicas is not None:
            return Scale(workload.replicas, workload.version)
        known = self._read.get(name)
        if known is None or known.version != workload.version:
            known = self._read[name] = scale.read(self._api, path)
        return known

    def _blind(self, kind: str) -> TargetObstacle | None:
        """Why the watch of `kind` is not believed, or None."""
        if kind not in self._cache.kinds:
            return _problem(f"{kind} are not watched")
        problem = self._cache.problem(kind)
        if not self._cache.listed(kind):
            return _problem(f"{kind} have not been listed yet: {problem or 'still waiting'}")
        age = self._cache.age(kind)
        if age > WATCH_SILENT:
            why = problem or "no answer"
            text, lasting = f"{kind} were last seen {age:.0f} s ago: {why}", f"{kind} are no longer seen: {why}"
            return TargetObstacle(ObstacleKind.PROBLEM, text, lasting)
        return None

    def _excluded(self, workload: Workload) -> str | None:
        namespace = self._cache.namespace(workload.namespace)
        objects = [AnnotatedObject(workload.kind, workload.name, workload.annotations)]
        if namespace is not None:
            objects.append(AnnotatedObject(NAMESPACE, namespace.name, namespace.annotations))
        if self._protected is not None and self._protected.operator_only:
            objects = by_operator(objects, self._protected.operator_only)
        excluded = exclusion(objects, self._prefix, self._clock.wall()) or part_exclusion(objects, self._prefix, PART)
        if excluded is None:
            return self._protected.reason(workload) if self._protected is not None else None
        name = f"{workload.namespace}/{workload.name}"
        if excluded.unreadable and (name, excluded.reason) not in self._reported:
            self._reported.add((name, excluded.reason))
            self._on_invalid(workload, excluded.reason)
        return excluded.reason


def _same(some: tuple[object, ...], others: tuple[object, ...]) -> bool:
    """Whether these are the very same objects."""
    return len(some) == len(others) and all(map(is_, some, others))


def _problem(text: str) -> TargetObstacle:
    return TargetObstacle(ObstacleKind.PROBLEM, text)


def _unseen(member: Member, obstacle: TargetObstacle, *, replicas: int | None = None) -> TargetStatus:
    return TargetStatus(
        name=member.name, kind=member.kind, actuator=Actuator.OBSERVE, count=None, replicas=replicas, obstacle=obstacle
    )
