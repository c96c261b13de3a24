"""The status of a power policy's target: what scales it, its replicas and bounds, and why it may not be changed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from ballast.model.workload import Autoscaler, Workload
from ballast.power.policy import Member
from ballast.power.sections import Actuation
from ballast.power.values import INT32


class Actuator(StrEnum):
    """How the replicas of a target are changed."""

    SCALE = "scale"
    """Its own number of replicas, through the subresource `scale`; nothing else scales it."""
    HPA_CAP = "hpa-cap"
    """`maxReplicas` of the HorizontalPodAutoscaler that scales it."""
    SCALED_OBJECT_CAP = "scaledobject-cap"
    """`maxReplicaCount` of the ScaledObject (KEDA) that scales it."""
    OBSERVE = "observe"
    """Not at all."""


class ObstacleKind(StrEnum):
    """Why a target is not changed."""

    EXCLUDED = "excluded"
    """An annotation or Ballast's own rules forbid it."""
    CONTENDED = "contended"
    """Another controller keeps writing back what Ballast changed."""
    PROBLEM = "problem"
    """It cannot be changed, although nothing forbids it."""
    OBSERVED = "observed"
    """Its policy only observes it."""


@dataclass(frozen=True, slots=True)
class TargetObstacle:
    """Why a target is not changed now; `kind` decides, `text` explains."""

    kind: ObstacleKind
    text: str
    without_durations: str | None = None
    """`text` without durations that change every tick; None where it has none."""

    @property
    def lasting(self) -> str:
        """The text of a condition: the same as long as the hold lasts."""
        return self.without_durations or self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetStatus:
    """A target at one moment, as the watches and Ballast's own newest writes show it."""

    name: str
    """namespace/name"""
    kind: str
    actuator: Actuator
    count: int | None
    """What a budget counts: the replicas asked for, or Ballast's cap where one is in force; None if unknown."""
    minimum: int = 0
    """The lowest count that can be set now: of a cap, the autoscaler's own minimum."""
    maximum: int = INT32
    """The highest count that can be set now: of a cap, the original; the present count where pods are Pending."""
    replicas: int | None = None
    """Replicas asked for now, whoever set them."""
    pending: int = 0
    """Pods of the target that are Pending."""
    unplaced: int = 0
    """Those of them that no node takes: the others draw power soon."""
    leaving: int = 0
    """Pods of the target that are being deleted and still draw power."""
    capped: bool = False
    """Whether the cap in force is Ballast's."""
    original: int | None = None
    """The autoscaler's cap without Ballast; None without an autoscaler."""
    rolling: bool = False
    """Whether pods of a new template replace others and that goes on, as far as the workload's controller has seen."""
    ceiling: int | None = None
    """The most pods that could be created lately, where more were asked for; None: all could."""
    excluded: str | None = None
    """Why Ballast must not change it, or None."""
    obstacle: TargetObstacle | None = None
    """Why it cannot be changed although nothing forbids it: a hold of kind CONTENDED or PROBLEM."""
    version: str = ""
    """Resource version of the object that would be written."""
    scale_path: str = ""
    """API path of its `/scale`."""
    workload: Workload | None = None
    autoscaler: Autoscaler | None = None
    """The object whose cap is written."""

    @property
    def problem(self) -> str | None:
        """The text of `obstacle`."""
        return None if self.obstacle is None else self.obstacle.text

    @property
    def note(self) -> str | None:
        """Why it is as it is, although it takes part; None where nothing is unusual."""
        if self.ceiling is not None:
            return f"only {self.ceiling} of its pods could be created; check quotas and admission"
        if self.pending:
            return f"{self.pending} of its pods are Pending; it gets no more"
        if self.rolling:
            return "a rollout is under way; it gets no more"
        stalled = self.workload is not None and self.workload.rolling and self.workload.stalled
        return "its rollout does not go on by itself; that keeps nothing from being taken away" if stalled else None

    @property
    def hold(self) -> TargetObstacle | None:
        """Why it takes no part in a budget now; None where it does."""
        if self.excluded is not None:
            return TargetObstacle(ObstacleKind.EXCLUDED, self.excluded)
        if self.obstacle is not None:
            return self.obstacle
        observed = self.actuator is Actuator.OBSERVE or self.count is None
        return TargetObstacle(ObstacleKind.OBSERVED, "it is only observed") if observed else None

    @property
    def running(self) -> int | None:
        """Its pods, as the workload's controller counts them; of kinds that do not tell, the replicas asked for."""
        workload = self.workload
        return self.replicas if workload is None or workload.replicas is None else workload.present

    @property
    def usable(self) -> bool:
        """Whether it takes part in a budget now."""
        return self.hold is None


def deletes_claims(member: Member, workload: Workload, below: Iterable[Workload]) -> str | None:
    """Why a fall of the member's replicas would delete data, or None. `below` are the StatefulSets that it made."""
    deleting = next((each for each in [*below] or [workload] if each.deletes_claims), None)
    if deleting is None or member.delete_claims:
        return None
    why = "has" if deleting.kind == "StatefulSet" else "makes claims without"
    policy = "whenScaled: Delete" if deleting.kind == "StatefulSet" else "whenScaled: Retain"
    return (
        "it is only observed, because a fall would delete volume claims of the replicas that go: "
        f"{deleting.kind} {deleting.name} {why} persistentVolumeClaimRetentionPolicy {policy}. Set Retain, or say "
        "deleteClaims: true where the data may go."
    )


_Key: TypeAlias = tuple[str, str, str]
_NO_GROUP = ("", "apps")


@dataclass(frozen=True, slots=True)
class Detected:
    """`autoscaler` is the object whose cap is written."""

    actuator: Actuator
    autoscaler: Autoscaler | None = None
    problem: str | None = None


class Autoscalers:
    """The autoscalers by what they scale, as they are at one moment."""

    def __init__(self, hpas: Iterable[Autoscaler], scaled_objects: Iterable[Autoscaler]) -> None:
        self._hpas = _by_target(hpas)
        self._scaled_objects = _by_target(scaled_objects)

    def of(self, workload: Workload) -> tuple[Autoscaler, ...]:
        """Those that scale it."""
        key = workload.namespace, workload.kind, workload.name
        if key not in self._hpas and key not in self._scaled_objects:
            return ()
        group = workload.api_version.rpartition("/")[0]
        return (*_of(self._scaled_objects, workload, group), *_of(self._hpas, workload, group))

    def detect(self, workload: Workload, actuation: Actuation) -> Detected:
        """How to change the workload: with an autoscaler only its cap is written, never the replicas."""
        group = workload.api_version.rpartition("/")[0]
        keda, hpas = _of(self._scaled_objects, workload, group), _of(self._hpas, workload, group)
        if actuation is Actuation.OBSERVE:
            return Detected(Actuator.OBSERVE)
        if len(keda) > 1 or (not keda and len(hpas) > 1):
            both = " and ".join(f"{autoscaler.own_kind} {autoscaler.own_name}" for autoscaler in keda or hpas)
            return _problem(f"{both} both scale it. Remove one of them.")
        if keda:
            return _capped(Actuator.SCALED_OBJECT_CAP, keda[0], actuation)
        if hpas:
            hpa = hpas[0]
            if hpa.owner is not None and hpa.owner.kind == "ScaledObject":
                return _problem(
                    f"HorizontalPodAutoscaler {hpa.own_name} belongs to ScaledObject {hpa.owner.name}, which cannot be "
                    "seen. Allow Ballast to list scaledobjects of keda.sh."
                )
            return _capped(Actuator.HPA_CAP, hpa, actuation)
        if actuation is Actuation.CAP:
            return _problem("actuation is cap, but no autoscaler scales it. Add one, or use actuation: auto.")
        if workload.owner is not None and workload.owner.controller and actuation is not Actuation.DIRECT:
            owner = f"{workload.owner.kind} {workload.owner.name}"
            return _problem(
                f"it belongs to {owner}, which sets its replicas. Name that in ref, or use actuation: direct."
            )
        return Detected(Actuator.SCALE)


def _capped(actuator: Actuator, autoscaler: Autoscaler, actuation: Actuation) -> Detected:
    if actuation is Actuation.DIRECT:
        return _problem(
            f"actuation is direct, but {autoscaler.own_kind} {autoscaler.own_name} scales it and would undo every "
            "change. Use actuation: auto."
        )
    return Detected(actuator, autoscaler)


def _problem(text: str) -> Detected:
    return Detected(Actuator.OBSERVE, problem=text)


def _by_target(autoscalers: Iterable[Autoscaler]) -> Mapping[_Key, list[Autoscaler]]:
    index: dict[_Key, list[Autoscaler]] = {}
    for autoscaler in sorted(autoscalers, key=lambda each: each.own_name):
        index.setdefault((autoscaler.namespace, autoscaler.kind, autoscaler.name), []).append(autoscaler)
    return index


def _of(index: Mapping[_Key, list[Autoscaler]], workload: Workload, group: str) -> list[Autoscaler]:
    candidates = index.get((workload.namespace, workload.kind, workload.name), [])
    return [
        autoscaler
        for autoscaler in candidates
        if autoscaler.group == group or (not autoscaler.group and group in _NO_GROUP)
    ]
