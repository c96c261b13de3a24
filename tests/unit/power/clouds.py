"""A day of sun with clouds, as a feed."""

from __future__ import annotations

import math
import random
from typing import Any

from ballast.power.policy import PowerPolicy
from ballast.power.replay import Replay, replay
from tests.unit.power.worlds import policy, samples

TICK, PEAK, EACH = 15, 5000.0, 50
HOURS = 12


def cloudy_day(seed: int, hours: float = HOURS) -> list[float]:
    """Half a sine of 5 kW; clouds of some minutes take up to three quarters, within half a minute to two."""
    chance, count = random.Random(seed), int(hours * 3600 / TICK)
    cover, goal, left, edge, found = 1.0, 1.0, 0.0, 60.0, []
    for tick in range(count):
        if left <= 0:
            cloud = chance.random() < 0.5
            goal = chance.uniform(0.25, 0.8) if cloud else 1.0
            left, edge = chance.expovariate(1 / (420 if cloud else 560)), chance.uniform(30, 120)
        left -= TICK
        cover += (goal - cover) * min(1.0, TICK / edge)
        found.append(round(PEAK * math.sin(math.pi * (tick + 0.5) / count) * cover * (1 + chance.gauss(0, 0.003)), 1))
    return found


def hundred_replicas(**keys: Any) -> PowerPolicy:
    """100 replicas of 50 W in four targets."""
    members = [{"ref": f"ns/t{i}", "min": 0, "max": 25, "wattsPerReplica": EACH, "replicas": 25} for i in range(4)]
    return policy(**{"independents": members, "increase": {}, "decrease": {}, **keys})


def lived(seed: int, hours: float = HOURS, **keys: Any) -> Replay:
    """The day from one replica of each target on."""
    one = hundred_replicas(**keys)
    return replay(one, samples(cloudy_day(seed, hours), TICK), dict.fromkeys(one.places, 1))
