"""The power that is available: a breathing trace as JSON over HTTP."""

from __future__ import annotations

import json
import math

from starlette.responses import Response

from ballast.simulator.resources import stamp
from ballast.simulator.usage import DAY
from ballast.simulator.world import World

WATTS_PER_CORE = 22.0


def watts(world: World, time: float) -> float:
    """Available watts at a Unix time: about what the cluster needs, with the sun and with a wave of ten minutes."""
    full = WATTS_PER_CORE * float(world.usage.cores.sum())
    if world.scene == "calm":
        return round(0.8 * full, 1)
    wave = 0.15 * math.sin(2 * math.pi * time / DAY) + 0.1 * math.sin(2 * math.pi * time / 600.0)
    return round((0.8 + wave) * full, 1)


def answer(world: World) -> Response:
    """`{"watts": …, "time": RFC 3339, "timestamp": Unix seconds}`"""
    now = world.clock.wall()
    document = {"watts": watts(world, now), "time": stamp(now), "timestamp": round(now, 3)}
    return Response(json.dumps(document), media_type="application/json")
