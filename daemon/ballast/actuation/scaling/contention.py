"""Notices when another controller keeps writing back what Ballast changed, and then leaves the target alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from ballast.actuation.scaling.target_status import ObstacleKind, TargetObstacle
from ballast.base.clock import Clock

TIMES = 3
WITHIN = 600.0


@dataclass
class _TargetChanges:
    before: int | None = None
    after: int | None = None
    manager: str = ""
    undone: deque[float] = field(default_factory=lambda: deque(maxlen=TIMES))


class Contention:
    """A target is contended when its last TIMES write-backs came within WITHIN seconds, until the first is that old."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._records: dict[str, _TargetChanges] = {}

    def wrote(self, name: str, before: int, after: int) -> None:
        """Ballast has changed the target's replicas or cap."""
        record = self._records.setdefault(name, _TargetChanges())
        record.before, record.after = before, after

    def saw(self, name: str, value: int, who: Callable[[], str]) -> bool:
        """Whether `value`, newer than Ballast's last write, undoes it; `who` gives the field manager, "" if unknown."""
        record = self._records.get(name)
        if record is None or record.after is None or value == record.after:
            return False
        undone = value == record.before
        record.before = record.after = None
        if undone:
            record.undone.append(self._clock.monotonic())
            record.manager = who() or record.manager
        return undone

    def calm(self, name: str) -> bool:
        """Whether nothing was written back yet, so that time alone changes nothing."""
        record = self._records.get(name)
        return record is None or not record.undone

    def contended(self, name: str) -> TargetObstacle | None:
        """The hold on a contended target, or None."""
        record = self._records.get(name)
        if record is None or len(record.undone) < TIMES or self._clock.monotonic() - record.undone[0] >= WITHIN:
            return None
        who = titled(record.manager) if record.manager else "someone"
        left = WITHIN - (self._clock.monotonic() - record.undone[0])
        text = (
            f"contended: {who} has written back what Ballast changed {TIMES} times in {WITHIN / 60:.0f} minutes. Let "
            "only one of them own the field; Ballast tries again"
        )
        return TargetObstacle(ObstacleKind.CONTENDED, f"{text} in {left:.0f} s.", f"{text} later.")


_KNOWN = {
    "argocd-controller": "Argo CD",
    "argocd-application-controller": "Argo CD",
    "argocd-server": "Argo CD",
    "kustomize-controller": "Flux",
    "helm-controller": "Flux",
    "helm": "Helm",
    "keda": "KEDA",
    "keda-operator": "KEDA",
    "kube-controller-manager": "the HorizontalPodAutoscaler controller",
}


def titled(manager: str) -> str:
    """A field manager as people know it."""
    known = _KNOWN.get(manager)
    return f"{known} (field manager {manager})" if known else f"field manager {manager}"
