"""The available power: a synthetic trace, served as JSON over HTTP and as a Prometheus series."""

from __future__ import annotations

import json
import math

import numpy as np
from starlette.responses import Response

from ballast.model.sample import Floats
from ballast_lab.simulator.faults import Faults
from ballast_lab.simulator.kube.resources import stamp
from ballast_lab.simulator.promql import ParsedQuery
from ballast_lab.simulator.usage import DAY
from ballast_lab.simulator.world import World

WATTS_PER_CORE = 22.0
WATTS_PER_REQUESTED_CORE = 30.0
SOLAR_DAY = 120.0
"""Seconds of real time that a day of the power scene lasts."""

MORNING = 0.35
"""The fraction of the day at which the power scene starts."""


def watts(world: World, time: float) -> float:
    """Available watts at a Unix time: about what the cluster needs, with a daily wave and one of ten minutes.

    In the calm scene it is constant. In the power scene it is a solar day with clouds, and some wind at night.
    """
    full = WATTS_PER_CORE * float(world.usage.cores.sum())
    if world.scene == "calm":
        return round(0.8 * full, 1)
    if world.scene == "power":
        hour = (MORNING + (time - world.start) / (SOLAR_DAY * world.clock.speed)) % 1.0
        sun = max(0.0, math.sin(2 * math.pi * (hour - 0.25)))
        clouds = 1 - 0.1 * max(0.0, math.sin(2 * math.pi * 9 * hour)) ** 4
        return round((0.2 + 0.9 * sun * clouds) * full, 1)
    wave = 0.15 * math.sin(2 * math.pi * time / DAY) + 0.1 * math.sin(2 * math.pi * time / 600.0)
    return round((0.8 + wave) * full, 1)


def series(world: World, faults: Faults, times: Floats, *, fresh: bool) -> Floats:
    """[series, time]: the watts in Prometheus, or with `fresh` the Unix times of their samples, one per second."""
    count = 0 if faults.on("power_silent") else 2 if faults.on("power_doubled") else 1
    frozen, level = faults.values("power_frozen"), faults.values("power_level")
    sampled = np.floor(times if frozen is None else np.minimum(times, frozen["at"]))
    if fresh:
        return np.tile(sampled, (count, 1))
    values = [watts(world, time) if level is None else level["watts"] for time in sampled.tolist()]
    return np.tile(np.array(values, dtype=np.float64), (count, 1))


def drawn(world: World, query: ParsedQuery) -> float:
    """Watts that the running pods draw which a query selects by `namespace` and `pod`: in proportion to requests."""
    with world.lock:
        return WATTS_PER_REQUESTED_CORE * sum(
            member.cores
            for (namespace, pod), member in world.members.items()
            if member.running and query.matches({"namespace": namespace, "pod": pod})
        )


def answer(world: World, faults: Faults) -> Response:
    """The feed's JSON document: `{"watts": …, "time": RFC 3339, "timestamp": Unix seconds}`."""
    now, frozen = world.clock.wall(), faults.values("power_frozen")
    now = now if frozen is None else min(now, frozen["at"])
    level = faults.values("power_level")
    document = {
        "watts": watts(world, now) if level is None else level["watts"],
        "time": stamp(now),
        "timestamp": round(now, 3),
    }
    if faults.on("power_silent"):
        del document["watts"]
    return Response(json.dumps(document), media_type="application/json")
