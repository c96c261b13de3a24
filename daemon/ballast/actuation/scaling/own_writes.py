"""Ballast's own newest writes, kept until the watches have caught up."""

from __future__ import annotations

from typing import TypeVar

from ballast.actuation.scaling.scale import Scale
from ballast.base.clock import Clock
from ballast.cluster.watch import newer
from ballast.model.workload import Autoscaler

T = TypeVar("T")

LASTS = 100.0
"""Seconds after which the watch is believed regardless of versions: those of a restored cluster start again."""


class OwnWrites:
    """Written scales by target name, written autoscalers by kind and name."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._scales: dict[str, tuple[Scale, float]] = {}
        self._autoscalers: dict[tuple[str, str, str], tuple[Autoscaler, float]] = {}

    def scaled(self, name: str, scale: Scale) -> None:
        """Remembers the scale that was written to a target."""
        self._scales[name] = scale, self._clock.monotonic()

    def capped(self, autoscaler: Autoscaler) -> None:
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
        return kept[0] if kept is not None and self._clock.monotonic() - kept[1] <= LASTS else None


def _key(autoscaler: Autoscaler) -> tuple[str, str, str]:
    return autoscaler.own_kind, autoscaler.namespace, autoscaler.own_name
