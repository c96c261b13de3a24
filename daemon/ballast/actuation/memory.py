"""What Ballast itself has just written, until the watches have caught up with it."""

from __future__ import annotations

from ballast.actuation.release import form_of
from ballast.actuation.scale import Scale
from ballast.cluster.watching import newer
from ballast.model.workload import Autoscaler


class Memory:
    """By target name for scales, by path for autoscalers."""

    def __init__(self) -> None:
        self._scales: dict[str, Scale] = {}
        self._autoscalers: dict[str, Autoscaler] = {}

    def scaled(self, name: str, scale: Scale) -> None:
        self._scales[name] = scale

    def capped(self, autoscaler: Autoscaler) -> None:
        self._autoscalers[form_of(autoscaler).path(autoscaler)] = autoscaler

    def scale(self, name: str, version: str) -> Scale | None:
        """What was written to a target whose watch is still at `version`, or that has not changed since."""
        kept = self._scales.get(name)
        if kept is None or newer(version, kept.version):
            self._scales.pop(name, None)
            return None
        return kept

    def autoscaler(self, seen: Autoscaler) -> Autoscaler:
        """The newer of what the watch shows and what was written."""
        path = form_of(seen).path(seen)
        kept = self._autoscalers.get(path)
        if kept is None or kept.uid != seen.uid or not newer(kept.version, seen.version):
            self._autoscalers.pop(path, None)
            return seen
        return kept
