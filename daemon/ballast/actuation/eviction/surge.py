"""Moves without a gap: one more replica of a Deployment becomes Ready, then the pod that is to move is taken away.

What has begun is written down before each act, so that any leader finishes it or takes it back.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from ballast.actuation.eviction.records import SKEW, Running, StepRecord, StepStatus
from ballast.actuation.eviction.requests import PART
from ballast.actuation.scaling import scale
from ballast.base.clock import Clock
from ballast.base.errors import NOT_JSON, ClusterError, Gone, NotFound
from ballast.cluster.client import KubeApi
from ballast.cluster.state import StateStore
from ballast.cluster.write import MERGE_PATCH, Write, WriteTarget, object_path
from ballast.cluster.writer import Writer
from ballast.eviction.facts import WorkloadKey
from ballast.model.marks import DELETION_COST
from ballast.model.pod import Pod
from ballast.model.workload import Workload

SURGES = "eviction.surge"
"""Key of `ballast-state`."""

FIRST = "-2147483648"
"""The deletion cost of the pod that is to go."""

PATIENCE = 20.0
"""Seconds in which a count is raised or given up."""

_APPS = "apps/v1"

_MARKS = (
    "argocd.argoproj.io/",
    "applicationset.argoproj.io/",
    "kustomize.toolkit.fluxcd.io/",
    "helm.toolkit.fluxcd.io/",
    "fluxcd.io/",
    "objectset.rio.cattle.io/",
    "configmanagement.gke.io/",
    "configsync.gke.io/",
    "config.k8s.io/owning-inventory",
    "kapp.k14s.io/",
)
"""Beginnings of labels and annotations of Argo CD, Flux, Fleet, Config Sync and kapp."""

_MANAGERS = ("argocd", "flux", "kustomize-controller", "helm-controller", "fleet", "configsync", "applier", "kapp")


class Surge(msgspec.Struct, frozen=True):
    """A plan with a single step, whose Deployment has one replica more than `replicas` until its new pod is Ready."""

    plan: Running
    uid: str
    replicas: int

    @property
    def step(self) -> StepRecord:
        """The pod that is to move."""
        return self.plan.steps[0]


_decoder = msgspec.json.Decoder(tuple[Surge, ...])


class Surges:
    """For the job of evictions, but `workloads`, `sources` and `give_back`, which any thread may call."""

    def __init__(
        self, api: KubeApi, writer: Writer, state: StateStore, clock: Clock, *, ready_within: float = 300.0
    ) -> None:
        self._api, self._writer, self._state, self._clock = api, writer, state, clock
        self._ready_within = ready_within
        self._lock = threading.Lock()
        self._all: tuple[Surge, ...] = ()
        self._loaded = False

    @property
    def workloads(self) -> frozenset[WorkloadKey]:
        """Those that have one replica more at this moment."""
        return frozenset(surge.step.workload for surge in self._all if surge.step.workload is not None)

    @property
    def sources(self) -> frozenset[str]:
        """The nodes that pods are to leave."""
        return frozenset(surge.step.source for surge in self._all)

    def resume(self) -> None:
        """What the leader before had begun. Raises ClusterError when it cannot be read."""
        self._loaded = False
        try:
            stamps = self._state.stamps(SURGES)
            surges = tuple(
                msgspec.structs.replace(surge, plan=surge.plan.read_at(stamps))
                for surge in _decoder.decode(self._state.read().get(SURGES, "[]"))
            )
        except NOT_JSON as error:
            raise ClusterError(f"Key {SURGES} of ConfigMap ballast-state cannot be read: {error}.") from error
        with self._lock:
            self._all, self._loaded = surges, True

    def forget(self) -> None:
        """Another replica led meanwhile: what has begun is read again."""
        self._loaded = False

    def begin(self, plan: Running, step: StepRecord, deployment: Workload) -> str | None:
        """Writes down the step and raises the count. Why nothing was done, or None."""
        path = _path(deployment)
        try:
            if not self._loaded:
                self.resume()
            against = objection(self._api.get(path))
            if against is not None:
                return f"{deployment.kind} {deployment.name} is not scaled: {against}"
            now = scale.read(self._api, f"{path}/scale")
        except ClusterError as error:
            return f"one more replica cannot be started: {error}"
        if now.replicas != deployment.replicas or now.replicas < 1:
            return f"{deployment.kind} {deployment.name} is being scaled"
        surge = Surge(msgspec.structs.replace(plan, steps=(step,)), deployment.uid, now.replicas)
        problem = self._keep((*self._all, surge), f"about to start one more replica for {step.pod}")
        if problem is not None:
            return problem
        write = replace(
            scale.write(deployment, f"{path}/scale", now.replicas + 1, now.version, f"{step.pod} is to move"),
            part=PART,
            event="StartOneMore",
            done_event="",
        )
        outcome = self._writer.submit(write, deadline=self._writer.within(PATIENCE))
        if outcome.done:
            return None
        if outcome.status and outcome.status < 500:
            self._drop(surge)
        return f"one more replica could not be started: {outcome.reason}"

    def advance(self, pods: Sequence[Pod], finished: Callable[[Running], object]) -> list[str]:
        """Goes on with what has begun; `finished` is called with each plan whose pod is being taken away. Sentences.

        Raises ClusterError when `ballast-state` cannot be read.
        """
        if not self._loaded:
            self.resume()
        sentences = []
        for surge in self._all:
            sentence = self._advance(surge, pods, finished)
            if sentence is not None:
                sentences.append(sentence)
        return sentences

    def give_back(self) -> None:
        """Takes every added replica away again: at a pause, and at the end of the daemon."""
        for surge in self._all:
            self._lower(surge, "it is given back")

    def _advance(self, surge: Surge, pods: Sequence[Pod], finished: Callable[[Running], object]) -> str | None:
        step = surge.step
        victim = next((pod for pod in pods if pod.uid == step.uid), None)
        if victim is None or victim.deleting or victim.finished:
            self._lower(surge, f"{step.pod} is gone")
            return None
        if not any(_is_new(pod, step) for pod in pods):
            patience = max(self._ready_within, step.patience)
            late = self._clock.wall() - step.time > patience
            if late and self._lower(surge, "its new pod is not Ready"):
                within = f"{patience:.0f} s"
                return f"{surge.plan.kind}: one more replica for {step.pod} was not Ready within {within}"
            return None
        if not self._writer.submit(_cost(victim, FIRST)).done:
            return None
        if not self._lower(surge, f"{step.pod} goes, its replacement is Ready"):
            return None
        gone = msgspec.structs.replace(step, status=StepStatus.EVICTED)
        finished(msgspec.structs.replace(surge.plan, steps=(gone,)))
        return f"{surge.plan.kind}: {step.pod} goes, its replacement is Ready"

    def _lower(self, surge: Surge, reason: str) -> bool:
        """Sets the count to what it was, unless somebody else has changed it; whether nothing is left to be done."""
        namespace, _, name = surge.step.workload or ("", "", "")
        deployment = Workload("Deployment", namespace, name, surge.uid, api_version=_APPS)
        path = f"{_path(deployment)}/scale"
        try:
            now = scale.read(self._api, path)
        except (NotFound, Gone):
            self._drop(surge)
            return True
        except ClusterError:
            return False
        if now.replicas == surge.replicas + 1:
            write = scale.write(deployment, path, surge.replicas, now.version, reason)
            write = replace(write, part=None, event="", done_event="")
            if not self._writer.submit(write, deadline=self._writer.within(PATIENCE)).done:
                return False
        self._drop(surge)
        return True

    def _drop(self, surge: Surge) -> None:
        self._keep(tuple(other for other in self._all if other is not surge), f"{surge.step.pod} is done with")

    def _keep(self, surges: tuple[Surge, ...], reason: str) -> str | None:
        def change(keys: dict[str, str]) -> Mapping[str, str]:
            others = {key: value for key, value in keys.items() if key != SURGES}
            return {**others, SURGES: msgspec.json.encode(surges).decode()} if surges else others

        with self._lock:
            self._all, before = surges, self._all
        try:
            outcome = self._state.update(change, reason=reason)
        except ClusterError as error:
            problem = str(error)
        else:
            if outcome.done:
                return None
            problem = outcome.reason
        if len(surges) > len(before):
            self._all = before
        return f"it could not be written down first: {problem}"


def _path(deployment: Workload) -> str:
    return object_path(f"/apis/{_APPS}/namespaces/{deployment.namespace}/deployments", deployment.name)


def _is_new(pod: Pod, step: StepRecord) -> bool:
    """Whether it is the Ready pod that was added."""
    ours = pod.owner is not None and pod.owner.uid == step.owner and pod.uid not in (step.uid, *step.besides)
    return ours and pod.ready and not pod.deleting and pod.created >= step.time - SKEW


def _cost(pod: Pod, cost: str) -> Write:
    return Write(
        kind="deletion-cost",
        part=PART,
        method="PATCH",
        path=object_path(f"/api/v1/namespaces/{pod.namespace}/pods", pod.name),
        target=WriteTarget("Pod", pod.name, pod.namespace, pod.uid),
        reason="its replacement is Ready",
        body={"metadata": {"uid": pod.uid, "annotations": {DELETION_COST: cost}}},
        content_type=MERGE_PATCH,
    )


def objection(body: bytes) -> str | None:
    """Why one more replica would be undone, or differ from what is declared; or None. `body` is the Deployment."""
    try:
        metadata: dict[str, Any] = msgspec.json.decode(body)["metadata"]
    except (*NOT_JSON, KeyError, TypeError):
        return "it cannot be read"
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller"):
            return f"{owner.get('kind')} {owner.get('name')} sets its replicas"
    for key in (*(metadata.get("labels") or ()), *(metadata.get("annotations") or ())):
        if key.startswith(_MARKS):
            return f"it is declared elsewhere ({key})"
    for entry in metadata.get("managedFields") or ():
        manager = str(entry.get("manager", "")).lower()
        if _sets_replicas(entry) and any(name in manager for name in _MANAGERS):
            return f"{manager} sets its replicas"
    return None


def _sets_replicas(entry: dict[str, Any]) -> bool:
    spec = (entry.get("fieldsV1") or {}).get("f:spec")
    return isinstance(spec, dict) and "f:replicas" in spec


def give_back_replicas(api: KubeApi, writer: Writer, state: StateStore, clock: Clock) -> tuple[int, int]:
    """Takes back the replicas that were added so that pods could move: how many were, and how many still are there.

    Raises ClusterError when `ballast-state` cannot be read.
    """
    surges = Surges(api, writer, state, clock)
    surges.resume()
    added = len(surges.workloads)
    surges.give_back()
    return added, len(surges.workloads)
