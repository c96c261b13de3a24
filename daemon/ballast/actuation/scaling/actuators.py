"""Changes the replicas of a policy's targets, or the caps of the autoscalers that scale them.

Before a reduction, pods on hot nodes may get a lower deletion cost, so that their ReplicaSet takes them first. A cost
that someone else has set stays as it is.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import msgspec

from ballast.actuation.protected import Protected
from ballast.actuation.scaling import scale
from ballast.actuation.scaling.cap import PART, ceiling, form_named, form_of, give_back, least, read_autoscaler
from ballast.actuation.scaling.scale import Scale, retry_on_conflict
from ballast.actuation.scaling.target_status import Actuator, TargetStatus
from ballast.actuation.scaling.targets import TargetReader
from ballast.base.clock import Clock
from ballast.base.errors import ClusterError
from ballast.base.parts import Part
from ballast.cluster.client import KubeApi
from ballast.cluster.workload_cache import WorkloadCache
from ballast.cluster.write import MERGE_PATCH, Result, Write, WriteOutcome, WriteTarget, object_path
from ballast.cluster.writer import EmergencyWriter, Writer
from ballast.model.marks import DELETION_COST
from ballast.model.pod import Pod
from ballast.model.workload import Autoscaler, Workload
from ballast.power.policy import PowerPolicy

MANY = 25
"""From this many changes at once, Events count them together."""


class Actuators:
    """Reads the status of targets and writes to them.

    `pods` gives those of the whole cluster, or raises ClusterError. `prefix` is that of Ballast's annotations.
    """

    def __init__(
        self,
        api: KubeApi,
        cache: WorkloadCache,
        pods: Callable[[], tuple[Pod, ...]],
        writer: Writer,
        emergency: EmergencyWriter,
        clock: Clock,
        *,
        prefix: str = "ballast.dev",
        protected: Protected | None = None,
    ) -> None:
        self._api = api
        self._cache = cache
        self._pods = pods
        self._writer = writer
        self._emergency = emergency
        self._prefix = prefix
        self._targets = TargetReader(
            api, cache, pods, clock, prefix=prefix, protected=protected, on_invalid=self._report_invalid
        )

    def read(self, policy: PowerPolicy) -> Mapping[str, TargetStatus]:
        """The status of every target of the policy, by namespace/name. Server errors become holds, none is raised."""
        return self._targets.read(policy)

    def apply(
        self,
        statuses: Mapping[str, TargetStatus],
        counts: Mapping[str, int],
        *,
        reason: str,
        emergency: bool = False,
        loads: Mapping[str, float] | None = None,
    ) -> list[WriteOutcome]:
        """Brings targets to absolute counts; one outcome for each target that was not there already.

        Reductions go first; in an emergency many at once, in the order of `counts`. With `loads` (fractions by node)
        reductions take the pods on the hottest nodes first, but in an emergency there is no time for that.
        What someone else has changed since `statuses` were read is not overwritten: that ends in a conflict.
        """
        changes = [
            (statuses[name], count)
            for name, count in counts.items()
            if name in statuses and _differs(statuses[name], count)
        ]
        if not emergency:
            changes.sort(key=lambda change: (change[1] > (change[0].count or 0), change[0].name))
        together = len(changes) >= MANY
        tasks = [
            partial(self._change, status, count, reason=reason, emergency=emergency, loads=loads, together=together)
            for status, count in changes
        ]
        if emergency:
            return self._emergency.each(tasks)
        return [task(self._writer) for task in tasks]

    def restore(self, names: Collection[str] | None = None, *, reason: str) -> list[WriteOutcome]:
        """Gives back the caps of these autoscalers (namespace/name), or of all.

        Raises ClusterError while autoscalers cannot be seen.
        """
        if (problem := self._targets.blind_to_autoscalers()) is not None:
            raise ClusterError(problem)
        left = [
            autoscaler
            for autoscaler in map(
                self._targets.own_writes.autoscaler, (*self._cache.autoscalers(), *self._cache.scaled_objects())
            )
            if names is None or f"{autoscaler.namespace}/{autoscaler.name}" in names
        ]
        outcomes = give_back(self._api, self._writer, left, self._prefix, reason=reason)
        for outcome in outcomes:
            self._remember_cap(outcome)
        return outcomes

    def _change(
        self,
        status: TargetStatus,
        count: int,
        writer: Writer,
        *,
        reason: str,
        emergency: bool,
        loads: Mapping[str, float] | None,
        together: bool,
    ) -> WriteOutcome:
        why = _objection(status, count, emergency=emergency)
        if why is not None:
            return writer.record(WriteOutcome(self._write(status, count, reason, together), Result.REFUSED, why))
        if status.actuator is not Actuator.SCALE:
            return self._cap(status, count, writer, reason, together)
        if loads is not None and not emergency and count < (status.count or 0):
            self._mark_hot_pods(status, count, writer, loads)
        return self._scale(status, count, writer, reason, together)

    def _scale(self, status: TargetStatus, count: int, writer: Writer, reason: str, together: bool) -> WriteOutcome:
        assert status.workload is not None
        before = Scale(status.count or 0, status.version)

        def decide(seen: Scale) -> Write | WriteOutcome:
            write = self._write(status, count, reason, together, version=seen.version)
            if seen.replicas == count:
                return WriteOutcome(write, Result.DONE, "nothing to change")
            if seen is not before and seen.replicas != before.replicas:
                return WriteOutcome(write, Result.CONFLICT, _overtaken("replicas", before.replicas, seen.replicas))
            if seen is not before and self._scaled_by_another(status):
                return WriteOutcome(write, Result.CONFLICT, "an autoscaler scales it now")
            return write

        outcome = retry_on_conflict(writer, before, decide, lambda: scale.read(self._api, status.scale_path))
        if outcome.done and outcome.body:
            self._targets.contention.wrote(status.name, before.replicas, count)
            with suppress(ClusterError):
                self._targets.own_writes.remember_scale(status.name, scale.decode(outcome.body))
        return outcome

    def _cap(self, status: TargetStatus, count: int, writer: Writer, reason: str, together: bool) -> WriteOutcome:
        before = status.autoscaler
        assert before is not None
        form = form_of(before)

        def decide(seen: Autoscaler) -> Write | WriteOutcome:
            try:
                capped = min(max(count, least(seen)), ceiling(seen, self._prefix))
                write = form.write(seen, self._prefix, capped, reason, aggregated=together)
            except ValueError as error:
                return WriteOutcome(form.forget(seen, self._prefix, reason), Result.CONFLICT, str(error))
            if seen.maximum == capped:
                return WriteOutcome(write, Result.DONE, "nothing to change")
            if seen.maximum != before.maximum:
                return WriteOutcome(write, Result.CONFLICT, _overtaken(form.field, before.maximum, seen.maximum))
            return write

        outcome = retry_on_conflict(writer, before, decide, lambda: read_autoscaler(self._api, form, form.path(before)))
        if (after := self._remember_cap(outcome)) is not None:
            self._targets.contention.wrote(status.name, before.maximum, after.maximum)
        return outcome

    def _remember_cap(self, outcome: WriteOutcome) -> Autoscaler | None:
        if not (outcome.done and outcome.body):
            return None
        with suppress(msgspec.DecodeError):
            after = form_named(outcome.write.target.kind).decode(outcome.body)
            self._targets.own_writes.remember_cap(after)
            return after
        return None

    def _mark_hot_pods(self, status: TargetStatus, count: int, writer: Writer, loads: Mapping[str, float]) -> None:
        """Best effort: if it fails, the reduction deletes other pods."""
        workload = status.workload
        if workload is None or workload.kind not in KINDS or workload.selector is None:
            return
        try:
            pods = [
                pod
                for pod in self._pods()
                if pod.namespace == workload.namespace and workload.selector.matches(pod.labels)
            ]
        except ClusterError:
            return
        for change in deletion_costs(pods, loads, (status.count or 0) - count, self._prefix):
            reason = "pods on hot nodes go first" if change.cost is not None else "it stayed"
            if not writer.submit(write_cost(change, self._prefix, reason)).done:
                return

    def _write(
        self, status: TargetStatus, count: int, reason: str, together: bool, *, version: str | None = None
    ) -> Write:
        namespace, _, name = status.name.partition("/")
        workload = status.workload or Workload(status.kind, namespace, name)
        against = status.version if version is None else version
        return scale.write(workload, status.scale_path, count, against, reason, aggregated=together)

    def _scaled_by_another(self, status: TargetStatus) -> bool:
        workload = status.workload
        return workload is not None and bool(self._targets.autoscalers().of(workload))

    def _report_invalid(self, workload: Workload, reason: str) -> None:
        target = WriteTarget(workload.kind, workload.name, workload.namespace, workload.uid, workload.api_version)
        write = Write(
            kind="exclusion",
            part=PART,
            method="PATCH",
            path="",
            target=target,
            reason="left alone by the power budget",
            event="ExcludeFromPower",
        )
        self._writer.record(WriteOutcome(write, Result.REFUSED, reason))


def _differs(status: TargetStatus, count: int) -> bool:
    """Whether something would be written. A first cap is set only if it is below the present replicas."""
    if status.count is None or status.autoscaler is None:
        return count != status.count
    capped = max(count, status.minimum)
    return min(capped, status.maximum) != status.count if status.capped else capped < status.count


def _objection(status: TargetStatus, count: int, *, emergency: bool) -> str | None:
    """Why the change is not even tried, or None."""
    if status.obstacle is not None:
        return status.obstacle.text
    if status.hold is not None:
        return status.hold.text
    if status.actuator is not Actuator.SCALE or status.count is None:
        return None
    if status.pending and count > status.count:
        return f"{status.pending} of its pods are still Pending; more would wait with them"
    if status.rolling and not emergency:
        return "a rollout is under way"
    if status.ceiling is not None and count > status.ceiling:
        return f"only {status.ceiling} of its pods could be created"
    return None


def _overtaken(field: str, before: int, now: int) -> str:
    return f"someone else has changed {field} from {before} to {now} meanwhile; the next tick decides again"


KINDS = ("Deployment", "ReplicaSet")
COST_MARK = "deletion-cost"


@dataclass(frozen=True, slots=True)
class Cost:
    """`cost` None takes back what Ballast set before."""

    pod: Pod
    cost: int | None


def deletion_costs(pods: Iterable[Pod], loads: Mapping[str, float], fewer: int, prefix: str) -> Iterator[Cost]:
    """The changes of costs before `fewer` of these pods are deleted: those on the hottest nodes cost the least.

    `loads` are fractions by node; pods on nodes whose load is not known are left alone.
    """
    mark = f"{prefix}/{COST_MARK}"
    free = [pod for pod in pods if not pod.deleting and not pod.finished and _is_free(pod, mark)]
    known = [pod for pod in free if pod.node in loads]
    first = sorted(known, key=lambda pod: (-loads[pod.node], pod.namespace, pod.name))[:fewer]
    new_costs = {pod.uid: -round(100 * max(0.0, loads[pod.node])) for pod in first}
    for pod in free:
        cost = new_costs.get(pod.uid) or None
        if pod.annotations.get(mark) != (None if cost is None else str(cost)):
            yield Cost(pod, cost)


def write_cost(change: Cost, prefix: str, reason: str) -> Write:
    """The patch that sets or removes the cost of one pod."""
    pod, value = change.pod, None if change.cost is None else str(change.cost)
    return Write(
        kind="deletion-cost",
        part=Part.POWER,
        method="PATCH",
        path=object_path(f"/api/v1/namespaces/{pod.namespace}/pods", pod.name),
        target=WriteTarget("Pod", pod.name, pod.namespace, pod.uid),
        reason=reason,
        body={"metadata": {"uid": pod.uid, "annotations": {DELETION_COST: value, f"{prefix}/{COST_MARK}": value}}},
        content_type=MERGE_PATCH,
    )


def _is_free(pod: Pod, mark: str) -> bool:
    """Without a cost, or with one that is Ballast's."""
    return pod.annotations.get(DELETION_COST) == pod.annotations.get(mark)
