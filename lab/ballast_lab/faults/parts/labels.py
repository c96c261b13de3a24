"""Labels, annotations and the taint of nodes."""

from __future__ import annotations

from collections.abc import Mapping

from ballast_lab.faults.parts.part import Part

_BUSY, _IDLE = 0.95, 0.2


class Labels(Part):
    """One node after the other is overloaded, the one before is relieved."""

    name = "labels"
    kinds = ("labels", "taint", "lease")
    _busy: int | None = 0

    def loads(self) -> Mapping[str, float]:
        return {name: _IDLE if number else _BUSY for number, name in enumerate(self.nodes)}

    def settings(self) -> dict[str, str]:
        return {
            **super().settings(),
            "BALLAST_PUBLISHING__MODE": "on",
            "BALLAST_PUBLISHING__TAINT": "true",
            "BALLAST_PUBLISHING__HIGH": "0.5",
            "BALLAST_PUBLISHING__OVERLOADED": "0.6",
        }

    def stimulate(self) -> None:
        self.turn += 1
        self._set(self.turn % len(self.nodes))

    def calm(self) -> None:
        self._set(None)

    def _set(self, busy: int | None) -> None:
        self._busy = busy
        for number, name in enumerate(self.nodes):
            self.machines[name].memory = _BUSY if number == busy else _IDLE

    def settled(self) -> bool:
        for number, name in enumerate(self.nodes):
            found = self.api.get(f"/api/v1/nodes/{name}")
            busy = number == self._busy
            taints = [each["key"] for each in found["spec"].get("taints") or ()]
            if found["metadata"]["labels"].get(f"{self.prefix}/load") != ("high" if busy else "low"):
                return False
            if (f"{self.prefix}/overloaded" in taints) != busy:
                return False
        return True
