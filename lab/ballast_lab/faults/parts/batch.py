"""Scheduling gates, and the plan in which they go."""

from __future__ import annotations

from ballast_lab.faults.parts.part import LANE, Part
from ballast_lab.harness.objects import pod

_PODS = 4


class Batch(Part):
    """Some pods come behind the gate; those that were bound go."""

    name = "batch"
    kinds = ("gate", "lease")

    def settings(self) -> dict[str, str]:
        return {
            **super().settings(),
            "BALLAST_BATCH__MODE": "on",
            "BALLAST_BATCH__INTERVAL": "1s",
            "BALLAST_BATCH__GATHER": "0.5s",
        }

    def stimulate(self) -> None:
        self.turn += 1
        self.api.delete(self._pods, {"gracePeriodSeconds": 0})
        for number in range(_PODS):
            made = pod(f"p{self.turn}-{number}", cpu="10m", memory="1Mi", nodeSelector={LANE: self.lane})
            made["metadata"]["namespace"] = self.namespace
            made["spec"]["schedulingGates"] = [{"name": f"{self.prefix}/batch"}]
            self.api.post(self._pods, made)

    def calm(self) -> None:
        """Gated pods are released in any case."""

    def settled(self) -> bool:
        pods = self.api.items(self._pods)
        return all(each["spec"].get("nodeName") and not each["spec"].get("schedulingGates") for each in pods)

    @property
    def _pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"
