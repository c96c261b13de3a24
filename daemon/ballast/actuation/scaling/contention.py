"""Notices when someone keeps writing back what Ballast changed, and stops before that becomes a fight."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from ballast.clock import Clock

TIMES = 3
WITHIN = 600.0


@dataclass
class _Record:
    before: int | None = None
    after: int | None = None
    manager: str = ""
    undone: deque[float] = field(default_factory=lambda: deque(maxlen=TIMES))


class Contention:
    """A target is contended when its last TIMES write-backs came within WITHIN seconds, until the first is that old."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._records: dict[str, _Record] = {}

    def wrote(self, name: str, before: int, after: int) -> None:
        record = self._records.setdefault(name, _Record())
        record.before, record.after = before, after

    def saw(self, name: str, value: int, who: Callable[[], str]) -> bool:
        """Whether `value`, newer than the last write, undoes it; `who` names the field manager that did, or nobody."""
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
        """Whether time alone changes nothing: nobody has written back anything yet."""
        record = self._records.get(name)
        return record is None or not record.undone

    def contended(self, name: str) -> str | None:
        """Why the target is left alone, or None."""
        record = self._records.get(name)
        if record is None or len(record.undone) < TIMES or self._clock.monotonic() - record.undone[0] >= WITHIN:
            return None
        who = titled(record.manager) if record.manager else "someone"
        left = WITHIN - (self._clock.monotonic() - record.undone[0])
        return (
            f"contended: {who} has written back what Ballast changed {TIMES} times in {WITHIN / 60:.0f} minutes. Let "
            f"only one of them own the field; Ballast tries again in {left:.0f} s."
        )


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
