"""Changes the replicas of a budget's targets, each in the way that fits who else scales it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial

import msgspec

from ballast.actuation.protected import Protected
from ballast.actuation.scaling import deletion_cost, release, retry_on_conflict, scale
from ballast.actuation.scaling.cap import PART, ceiling, form_named, form_of, least
from ballast.actuation.scaling.contention import Contention
from ballast.actuation.scaling.own_writes import OwnWrites
from ballast.actuation.scaling.scale import Scale
from ballast.actuation.scaling.target_status import Actuator, TargetStatus
from ballast.actuation.scaling.targets import TargetReader
from ballast.clock import Clock
from ballast.cluster.client import KubeApi
from ballast.cluster.emergency import EmergencyWriter
from ballast.cluster.workload_cache import WorkloadCache
from ballast.cluster.write import Result, Write, WriteOutcome, WriteTarget
from ballast.cluster.writer import Writer
from ballast.errors import ClusterError
from ballast.model.pod import Pod
from ballast.model.workload import Autoscaler, Workload
from ballast.power.policy import PowerPolicy

MANY = 25
"""Changes at once from which on Events count them together."""


class Actuators:
    """`pods` are those of the whole cluster, or raises ClusterError. `prefix` is that of Ballast's annotations."""

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
        self._memory = OwnWrites(clock)
        self._contention = Contention(clock)
        self._looking = TargetReader(
            api,
            cache,
            pods,
            clock,
            self._memory,
            self._contention,
            prefix=prefix,
            protected=protected,
            told=self._tell_unreadable,
        )

    def look(self, policy: PowerPolicy) -> Mapping[str, TargetStatus]:
        """How every target of the policy stands, by namespace/name. Never raises for what the server answers."""
        return self._looking.look(policy)

    def apply(
        self,
        standings: Mapping[str, TargetStatus],
        counts: Mapping[str, int],
        *,
        reason: str,
        emergency: bool = False,
        loads: Mapping[str, float] | None = None,
    ) -> list[WriteOutcome]:
        """Brings targets to absolute counts, and answers with one outcome for each that was not there already.

        Reductions go first, in an emergency eight at once with the largest watts first. With `loads` (fractions by
        node) reductions take the pods on the hottest nodes first, but in an emergency there is no time for that.
        Nothing is overwritten that someone else has changed since `standings` were taken: that ends in a conflict.
        """
        wanted = [
            (standings[name], count)
            for name, count in counts.items()
            if name in standings and _differs(standings[name], count)
        ]
        wanted.sort(key=lambda each: _urgency(*each, emergency=emergency))
        together = len(wanted) >= MANY
        tasks = [
            partial(self._change, standing, count, reason=reason, emergency=emergency, loads=loads, together=together)
            for standing, count in wanted
        ]
        if emergency:
            return self._emergency.each(tasks)
        return [task(self._writer) for task in tasks]

    def restore(self, names: Collection[str] | None = None, *, reason: str) -> list[WriteOutcome]:
        """Gives back the caps of these targets (namespace/name), or of all. Raises ClusterError where none are seen."""
        if (problem := self._looking.blind_to_autoscalers()) is not None:
            raise ClusterError(problem)
        left = [
            autoscaler
            for autoscaler in map(self._memory.autoscaler, (*self._cache.autoscalers(), *self._cache.scaled_objects()))
            if names is None or f"{autoscaler.namespace}/{autoscaler.name}" in names
        ]
        outcomes = release.give_back(self._api, self._writer, left, self._prefix, reason=reason)
        for outcome in outcomes:
            self._remember_cap(outcome)
        return outcomes

    def _change(
        self,
        standing: TargetStatus,
        count: int,
        writer: Writer,
        *,
        reason: str,
        emergency: bool,
        loads: Mapping[str, float] | None,
        together: bool,
    ) -> WriteOutcome:
        why = _objection(standing, count, emergency=emergency)
        if why is not None:
            return writer.tell(WriteOutcome(self._write(standing, count, reason, together), Result.REFUSED, why))
        if standing.actuator is not Actuator.SCALE:
            return self._cap(standing, count, writer, reason, together)
        if loads is not None and not emergency and count < (standing.count or 0):
            self._steer(standing, count, writer, loads)
        return self._scale(standing, count, writer, reason, together)

    def _scale(self, standing: TargetStatus, count: int, writer: Writer, reason: str, together: bool) -> WriteOutcome:
        assert standing.workload is not None
        before = Scale(standing.count or 0, standing.version)

        def decide(seen: Scale) -> Write | WriteOutcome:
            write = self._write(standing, count, reason, together, version=seen.version)
            if seen.replicas == count:
                return WriteOutcome(write, Result.DONE, "nothing to change")
            if seen is not before and seen.replicas != before.replicas:
                return WriteOutcome(write, Result.CONFLICT, _overtaken("replicas", before.replicas, seen.replicas))
            if seen is not before and self._scaled_by_another(standing):
                return WriteOutcome(write, Result.CONFLICT, "an autoscaler has come to scale it meanwhile")
            return write

        outcome = retry_on_conflict.retry_on_conflict(
            writer, before, decide, lambda: scale.read(self._api, standing.scale_path)
        )
        if outcome.done and outcome.body:
            self._contention.wrote(standing.name, before.replicas, count)
            with suppress(ClusterError):
                self._memory.scaled(standing.name, scale.decode(outcome.body))
        return outcome

    def _cap(self, standing: TargetStatus, count: int, writer: Writer, reason: str, together: bool) -> WriteOutcome:
        before = standing.autoscaler
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

        outcome = retry_on_conflict.retry_on_conflict(
            writer, before, decide, lambda: release.read(self._api, form, form.path(before))
        )
        if (after := self._remember_cap(outcome)) is not None:
            self._contention.wrote(standing.name, before.maximum, after.maximum)
        return outcome

    def _remember_cap(self, outcome: WriteOutcome) -> Autoscaler | None:
        if not (outcome.done and outcome.body):
            return None
        with suppress(msgspec.DecodeError):
            after = form_named(outcome.write.target.kind).decode(outcome.body)
            self._memory.capped(after)
            return after
        return None

    def _steer(self, standing: TargetStatus, count: int, writer: Writer, loads: Mapping[str, float]) -> None:
        """Best effort: without it the reduction takes other pods."""
        workload = standing.workload
        if workload is None or workload.kind not in deletion_cost.KINDS or workload.selector is None:
            return
        try:
            pods = [
                pod
                for pod in self._pods()
                if pod.namespace == workload.namespace and workload.selector.matches(pod.labels)
            ]
        except ClusterError:
            return
        for change in deletion_cost.costs(pods, loads, (standing.count or 0) - count, self._prefix):
            reason = "pods on hot nodes go first" if change.cost is not None else "it stayed"
            if not writer.submit(deletion_cost.write(change, self._prefix, reason)).done:
                return

    def _write(
        self, standing: TargetStatus, count: int, reason: str, together: bool, *, version: str | None = None
    ) -> Write:
        namespace, _, name = standing.name.partition("/")
        workload = standing.workload or Workload(standing.kind, namespace, name)
        seen = standing.version if version is None else version
        return scale.write(workload, standing.scale_path, count, seen, reason, aggregated=together)

    def _scaled_by_another(self, standing: TargetStatus) -> bool:
        workload = standing.workload
        return workload is not None and bool(self._looking.autoscalers().of(workload))

    def _tell_unreadable(self, workload: Workload, reason: str) -> None:
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
        self._writer.tell(WriteOutcome(write, Result.REFUSED, reason))


def _differs(standing: TargetStatus, count: int) -> bool:
    """Whether something would be written. What has no cap yet can only get a lower one than it has replicas."""
    if standing.count is None or standing.autoscaler is None:
        return count != standing.count
    capped = max(count, standing.minimum)
    return min(capped, standing.maximum) != standing.count if standing.capped else capped < standing.count


def _urgency(standing: TargetStatus, count: int, *, emergency: bool) -> tuple[object, ...]:
    released = ((standing.count or 0) - count) * standing.watts
    return (-released, standing.name) if emergency else (released < 0, standing.name)


def _objection(standing: TargetStatus, count: int, *, emergency: bool) -> str | None:
    """Why the change is not even tried, or None."""
    if standing.problem or standing.excluded:
        return standing.problem or standing.excluded
    if standing.actuator is Actuator.OBSERVE or standing.count is None:
        return "it is only observed"
    if standing.actuator is not Actuator.SCALE:
        return None
    if standing.pending and count > standing.count:
        return f"{standing.pending} of its pods are still Pending; more would wait with them"
    if standing.rolling and not emergency:
        return "a rollout is under way"
    return None


def _overtaken(field: str, before: int, now: int) -> str:
    return f"someone else has changed {field} from {before} to {now} meanwhile; that is decided anew"
