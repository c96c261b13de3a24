"""What Ballast remembers of targets: its newest writes, how many pods could be created, who undid its changes."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from ballast.actuation.scaling.scale import Scale
from ballast.actuation.scaling.target_status import ObstacleKind, TargetObstacle
from ballast.base.clock import Clock
from ballast.cluster.versions import newer
from ballast.model.workload import Autoscaler, Workload

T = TypeVar("T")

OWN_WRITES_LAST = 100.0
"""Seconds after which the watch is believed regardless of versions: those of a restored cluster start again."""


class OwnWrites:
    """Written scales by target name, written autoscalers by kind and name."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._scales: dict[str, tuple[Scale, float]] = {}
        self._autoscalers: dict[tuple[str, str, str], tuple[Autoscaler, float]] = {}

    def remember_scale(self, name: str, scale: Scale) -> None:
        """Remembers the scale that was written to a target."""
        self._scales[name] = scale, self._clock.monotonic()

    def remember_cap(self, autoscaler: Autoscaler) -> None:
        """Remembers an autoscaler as it was written."""
        self._autoscalers[_key(autoscaler)] = autoscaler, self._clock.monotonic()

    def scale(self, name: str, version: str) -> Scale | None:
        """The scale written to a target, unless the watch, at `version`, is newer."""
        if not self._scales:
            return None
        kept = self._young(self._scales.get(name))
        if kept is None or newer(version, kept.version):
            self._scales.pop(name, None)
            return None
        return kept

    def autoscaler(self, seen: Autoscaler) -> Autoscaler:
        """The newer of what the watch shows and what was written."""
        if not self._autoscalers:
            return seen
        kept = self._young(self._autoscalers.get(_key(seen)))
        if kept is None or kept.uid != seen.uid or not newer(kept.version, seen.version):
            self._autoscalers.pop(_key(seen), None)
            return seen
        return kept

    def _young(self, kept: tuple[T, float] | None) -> T | None:
        return kept[0] if kept is not None and self._clock.monotonic() - kept[1] <= OWN_WRITES_LAST else None


def _key(autoscaler: Autoscaler) -> tuple[str, str, str]:
    return autoscaler.own_kind, autoscaler.namespace, autoscaler.own_name


CEILINGS_LAST = 600.0
"""Seconds after which more is tried again."""

SETTLED = 5.0
"""Seconds for which the count stays the same. Its first status after a failure counts the pods from before."""

SILENT = 60.0
"""Seconds without a new pod after which the controller of a StatefulSet, which says nothing, could not create one."""


class Ceilings:
    """The number of pods by target, since the last time one could not be created."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[str, tuple[int, float]] = {}
        self._waiting: dict[str, tuple[int, float]] = {}

    def of(self, name: str, workload: Workload, replicas: int) -> int | None:
        """The most pods that could be created lately; None where all of them could, or that is long ago.

        `replicas` are those asked for now.
        """
        now = self._clock.monotonic()
        if workload.present >= replicas:
            self._waiting.pop(name, None)
        elif self._cannot_grow(name, workload, now):
            self._known[name] = workload.present, now
        known = self._known.get(name)
        if known is None:
            return None
        if now - known[1] >= CEILINGS_LAST or workload.present > known[0]:
            del self._known[name]
            return None
        return known[0]

    def _cannot_grow(self, name: str, workload: Workload, now: float) -> bool:
        """Whether its controller failed to create pods, or all pods of a StatefulSet are ready and no other comes."""
        waits = workload.kind == "StatefulSet" and workload.ready >= workload.present
        if not (workload.uncreated or waits):
            self._waiting.pop(name, None)
            return False
        known = self._waiting.get(name)
        if known is None or known[0] != workload.present:
            known = self._waiting[name] = workload.present, now
        return now - known[1] >= (SETTLED if workload.uncreated else SILENT)


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

    def notice(self, name: str, value: int, who: Callable[[], str]) -> bool:
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
