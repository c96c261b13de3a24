"""Pods behind the gate of Ballast."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from ballast_lab.harness.api import Json
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.objects import PODS
from ballast_lab.harness.waiting import eventually

GATE = "ballast.dev/batch"
SMALL_FIRST = {
    "BALLAST_TELEMETRY__INTERVAL": "2s",
    "BALLAST_WINDOWS__LENGTHS": "10s",
    "BALLAST_WINDOWS__MIN_SAMPLES": "1",
    "BALLAST_WINDOWS__MIN_COVERAGE": "0.1",
    "BALLAST_WINDOWS__MAX_AGE": "60s",
    "BALLAST_PUBLISHING__MODE": "off",
    "BALLAST_EVICTION__MODE": "off",
    "BALLAST_BATCH__MODE": "on",
    "BALLAST_BATCH__ORDER": "small-first",
}


def gated(pod: Json) -> Json:
    """The pod with the gate."""
    made = copy.deepcopy(pod)
    made["spec"]["schedulingGates"] = [{"name": GATE}]
    return made


def batch(plane: ControlPlane, pods: Sequence[Json]) -> list[bool]:
    """[pod]: whether it was bound, once no pod is gated and the scheduler has tried all of them."""
    for each in pods:
        plane.api.post(PODS, gated(each))

    def tried() -> list[bool]:
        items = sorted(plane.api.items(PODS), key=lambda each: str(each["metadata"]["name"]))
        assert not [each for each in items if each["spec"].get("schedulingGates")]
        assert all(each["spec"].get("nodeName") or _refused(each) for each in items)
        return [bool(each["spec"].get("nodeName")) for each in items]

    return eventually("every pod was released and tried", tried, every=0.5)


def _refused(pod: Json) -> bool:
    return any(each.get("reason") == "Unschedulable" for each in pod["status"].get("conditions") or ())
