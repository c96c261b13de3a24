"""The 17-node worlds of the dominant-residual method: nodes, pods in random order, and what a run placed.

Twelve kinds of pods: caches, stores with disk and databases, each in four sizes, as frequent as the paper has them
(Knyazhev and Romanova, DOI 10.58351/2949-2041.2026.35.6.034). The six calibrated worlds were selected so that the
default scheduler places about 542 of one list of 1,000 pods; the ordinary four were not selected for anything.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from ballast_lab.harness.api import Json
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.objects import PODS, node, pod
from ballast_lab.harness.waiting import eventually

_DATA = Path(__file__).parents[3] / "tests" / "data"
WORLDS: dict[str, Json] = json.loads((files("ballast_lab.experiments") / "data/worlds.json").read_text())
ORDINARY = tuple(name for name in WORLDS if "/" in name)
CALIBRATED = tuple(name for name in WORLDS if name not in ORDINARY)
SIZES = ("smallest", "small", "medium", "large")


def arrivals(seed: int) -> list[int]:
    """[pod]: its kind. Seed 0 is the list by which the worlds were selected; others have its kinds in another order."""
    kinds: list[int] = json.loads((_DATA / "pods_seed0.json").read_text())
    if seed:
        random.Random(seed).shuffle(kinds)
    return kinds


def nodes_of(world: Json) -> list[Json]:
    found = []
    for number, (cpu, memory, disk) in enumerate(world["A0"]):
        each = node(f"n{number:02d}", cpu=f"{cpu}m", memory=f"{memory}Mi", pods=1000)
        for amounts in (each["status"]["capacity"], each["status"]["allocatable"]):
            amounts["ephemeral-storage"] = f"{disk}Gi"
        found.append(each)
    return found


def pods_of(world: Json, kinds: Sequence[int]) -> list[Json]:
    found = []
    for number, kind in enumerate(kinds):
        cpu, memory, disk = world["R"][kind]
        each = pod(f"p{number:04d}", cpu=f"{cpu}m", memory=f"{memory}Mi")
        if disk:
            each["spec"]["containers"][0]["resources"]["requests"]["ephemeral-storage"] = f"{disk}Gi"
        found.append(each)
    return found


def place(plane: ControlPlane, pods: Sequence[Json]) -> list[bool]:
    """[pod]: whether it was bound, once the scheduler has tried all of them. They are created one after another."""
    for each in pods:
        plane.api.post(PODS, each)

    def tried() -> list[bool]:
        items = sorted(plane.api.items(PODS), key=lambda each: str(each["metadata"]["name"]))
        assert len(items) == len(pods)
        assert all(each["spec"].get("nodeName") or each["status"].get("conditions") for each in items)
        return [bool(each["spec"].get("nodeName")) for each in items]

    return eventually("every pod was tried", tried, every=0.5)


def volume(world: Json, kinds: Sequence[int], placed: Sequence[bool]) -> float:
    """What the placed pods ask for as a share of the nodes, mean over the resources."""
    shares: list[float] = []
    for resource in range(3):
        asked = sum(world["R"][kind][resource] for kind, there in zip(kinds, placed, strict=True) if there)
        shares.append(asked / sum(amounts[resource] for amounts in world["A0"]))
    return sum(shares) / len(shares)


def first_unplaced(placed: Sequence[bool]) -> int:
    """How many pods found room before the first that did not."""
    return next((position for position, there in enumerate(placed) if not there), len(placed))


def accepted_by_size(kinds: Sequence[int], placed: Sequence[bool]) -> list[float]:
    """[size]: the share of the pods of a size that found room; sizes as in SIZES."""
    found = []
    for size in range(len(SIZES)):
        fates = [there for kind, there in zip(kinds, placed, strict=True) if kind % len(SIZES) == size]
        found.append(sum(fates) / len(fates))
    return found
