"""Moves without a gap for the only pod of a Deployment: a rollout restart, which takes the pod once another is Ready.

One annotation of the pod template changes. It names the pod that is to move, so that whoever sees the new pod knows
which move it belongs to; no autoscaler and no declaration of the Deployment has a word in it.
"""

from typing import NamedTuple

import msgspec

from ballast.actuation.eviction.records import StepRecord
from ballast.actuation.eviction.requests import PART
from ballast.base.errors import NOT_JSON, ClusterError, Gone, NotFound
from ballast.cluster.client import KubeApi
from ballast.cluster.workloads import WireWorkload, WorkloadStatus, gapless
from ballast.cluster.write import MERGE_PATCH, Write, WriteTarget, object_path
from ballast.cluster.writer import Writer
from ballast.model.marks import RESTARTED_FOR
from ballast.model.workload import Workload

_APPS = "apps/v1"

PATIENCE = 20.0
"""Seconds in which a rollout is taken back, or tried again later."""


class _Deployment(WireWorkload):
    @property
    def mark(self) -> str:
        template = self.spec.template
        return (template.metadata.annotations or {}).get(RESTARTED_FOR, "") if template is not None else ""

    @property
    def moves_one(self) -> bool:
        """Whether a change of its template replaces one pod, without a gap."""
        return self.spec.replicas == 1 and gapless(self.spec)

    @property
    def at_rest(self) -> bool:
        """Whether its controller has seen the newest template, and its only pod is of that."""
        status = self.status or WorkloadStatus()
        seen = (status.observed_generation or 0) >= self.metadata.generation
        return seen and status.replicas == status.updated_replicas == 1


class Rollout(NamedTuple):
    """A Deployment as it was read: what its template is marked with, and the version that a change is bound to."""

    deployment: Workload
    version: str = ""
    before: str = ""
    problem: str | None = None
    """Why it is not restarted now."""


class Restarts:
    """For the job of evictions."""

    def __init__(self, api: KubeApi, writer: Writer) -> None:
        self._api, self._writer = api, writer

    def look(self, deployment: Workload) -> Rollout:
        """The Deployment at this moment."""
        try:
            found = self._read(deployment.namespace, deployment.name)
        except ClusterError as error:
            return Rollout(deployment, problem=f"Deployment {deployment.name} cannot be restarted: {error}")
        owner = next((each for each in found.metadata.owner_references or () if each.controller), None)
        problem = None
        if owner is not None:
            problem = f"Deployment {deployment.name} is not restarted: {owner.kind} {owner.name} may undo it"
        elif found.metadata.uid != deployment.uid or not (found.moves_one and found.at_rest):
            problem = f"Deployment {deployment.name} is being changed"
        return Rollout(deployment, found.metadata.resource_version, found.mark, problem)

    def roll_back(self, step: StepRecord) -> bool:
        """Gives the template its mark of before, unless somebody has changed that, or more than one pod would be
        replaced, or one with a gap; whether nothing is left to be done."""
        namespace, _, name = step.workload or ("", "", "")
        try:
            found = self._read(namespace, name)
        except (NotFound, Gone):
            return True
        except ClusterError:
            return False
        if found.metadata.uid != step.rollout or found.mark != step.uid or not found.moves_one:
            return True
        write = _write(step, found.metadata.resource_version, step.before or None, "its new pod is not Ready")
        return self._writer.submit(write, deadline=self._writer.within(PATIENCE)).done

    def _read(self, namespace: str, name: str) -> _Deployment:
        try:
            return msgspec.json.decode(self._api.get(_path(namespace, name)), type=_Deployment)
        except NOT_JSON as error:
            raise ClusterError(f"Deployment {namespace}/{name} cannot be read: {error}.") from error


def restart(step: StepRecord, version: str, planner: str) -> Write:
    """Marks the template, if the Deployment still is as it was read."""
    return _write(step, version, step.uid, f"{planner}: {step.reason}", starts=True)


def _write(step: StepRecord, version: str, mark: str | None, reason: str, *, starts: bool = False) -> Write:
    """What takes a rollout back is Ballast's own: no pause keeps it from being done."""
    namespace, _, name = step.workload or ("", "", "")
    return Write(
        kind="restart",
        part=PART if starts else None,
        method="PATCH",
        path=_path(namespace, name),
        target=WriteTarget("Deployment", name, namespace, step.rollout, _APPS),
        reason=reason,
        body={
            "metadata": {"uid": step.rollout, "resourceVersion": version},
            "spec": {"template": {"metadata": {"annotations": {RESTARTED_FOR: mark}}}},
        },
        content_type=MERGE_PATCH,
        event="Restart" if starts else "",
    )


def _path(namespace: str, name: str) -> str:
    return object_path(f"/apis/{_APPS}/namespaces/{namespace}/deployments", name)
