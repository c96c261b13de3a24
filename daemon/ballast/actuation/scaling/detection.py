"""Decides how a workload's replicas may be changed, by what else scales it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ballast.actuation.scaling.target_status import Actuator
from ballast.model.workload import Autoscaler, Workload
from ballast.power.sections import Actuation

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
            both = " and ".join(f"{each.own_kind} {each.own_name}" for each in keda or hpas)
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
    found: dict[_Key, list[Autoscaler]] = {}
    for each in sorted(autoscalers, key=lambda each: each.own_name):
        found.setdefault((each.namespace, each.kind, each.name), []).append(each)
    return found


def _of(index: Mapping[_Key, list[Autoscaler]], workload: Workload, group: str) -> list[Autoscaler]:
    found = index.get((workload.namespace, workload.kind, workload.name), [])
    return [each for each in found if each.group == group or (not each.group and group in _NO_GROUP)]
