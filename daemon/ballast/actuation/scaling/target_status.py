"""How a target of a power budget stands: what scales it, what counts, and what stands in the way."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from ballast.model.workload import Autoscaler, Workload
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetStatus:
    """`name` is namespace/name. `count` is what a budget counts: the replicas asked for, or the cap in force where
    Ballast set one; None where it is not known. `replicas` are those asked for now, whoever asks.

    `minimum` and `maximum` bound what can be set now: an autoscaler's own minimum, the original of a cap; the present
    count where a change would do nothing (no cap to raise) or has to wait (pods still Pending).

    `rolling` means that pods of a new template replace others, as far as its controller has seen.

    `problem` is why nothing can be changed although nobody forbade it.
    """

    name: str
    kind: str
    actuator: Actuator
    count: int | None
    minimum: int = 0
    maximum: int = INT32
    replicas: int | None = None
    pending: int = 0
    capped: bool = False
    original: int | None = None
    rolling: bool = False
    excluded: str | None = None
    problem: str | None = None
    version: str = ""
    watts: Fraction = Fraction(1)
    scale_path: str = ""
    workload: Workload | None = None
    autoscaler: Autoscaler | None = None

    @property
    def usable(self) -> bool:
        """Whether it takes part in a budget now."""
        free = self.excluded is None and self.problem is None
        return free and self.actuator is not Actuator.OBSERVE and self.count is not None
