"""Leaves a recording of the demo's last day, for `ballast rehearse`."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ballast.cli.live import read_objects
from ballast.settings import load
from ballast_lab.rehearse import tables
from ballast_lab.rehearse.history import CLUSTER_FILE, RESOURCES
from ballast_lab.rehearse.recording import HEAD_FILE, NODE_USAGE, POD_USAGE, Head
from ballast_lab.simulator import World

HOURS = 24
STEP = 300.0
HOUR = 3600.0


def leave_recording(world: World, environment: Mapping[str, str], folder: Path) -> str:
    """Writes the recording in place of one that is there; returns how to rehearse it. The cluster has to be up."""
    for name in (NODE_USAGE, POD_USAGE):
        shutil.rmtree(folder / name, ignore_errors=True)
    end = math.floor(world.clock.wall() / STEP) * STEP
    begin = end - HOURS * HOUR
    cluster, _ = read_objects(load(environment))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CLUSTER_FILE).write_bytes(msgspec.json.encode(cluster))
    _write_use(world, folder, np.arange(begin, end + STEP / 2, STEP))
    (folder / HEAD_FILE).write_bytes(msgspec.json.encode(Head(begin, end, STEP)))
    return f"recording  {folder}; rehearse it with: ballast rehearse --recording {folder}"


def _write_use(world: World, folder: Path, times: np.ndarray[Any, np.dtype[np.float64]]) -> None:
    with world.lock:
        whole = {"cpu": world.usage.cores, "memory": world.usage.memory}
        members = [(key, member) for key, member in world.members.items() if member.running]
        used = [world.usage.per_pod(name, times)[[member.profile for _, member in members]] for name in RESOURCES]
    nodes = np.stack([world.ratio(name, times) * whole[name][:, None] for name in RESOURCES])
    titles = [f"{namespace}/{name}" for (namespace, name), _ in members]
    begin, end = float(times[0]), float(times[-1])
    node_part = tables.part_of(folder / NODE_USAGE, begin, end)
    tables.write_part(node_part, "node", RESOURCES, times, world.node_names, nodes)
    tables.write_part(tables.part_of(folder / POD_USAGE, begin, end), "pod", RESOURCES, times, titles, np.stack(used))
