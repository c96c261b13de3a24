"""A day of sun with clouds, as a feed."""

from typing import Any

from ballast.power.policy import PowerPolicy
from ballast.power.replay import Replay, replay
from ballast_lab.experiments.power.signals import CLOUD_HOURS, CLOUD_TICK, cloudy_day
from tests.worlds.power import policy, samples

EACH = 50


def hundred_replicas(**keys: Any) -> PowerPolicy:
    """100 replicas of 50 W in four targets."""
    members = [{"ref": f"ns/t{i}", "min": 0, "max": 25, "wattsPerReplica": EACH, "replicas": 25} for i in range(4)]
    return policy(**{"independents": members, "increase": {}, "decrease": {}, **keys})


def lived(seed: int, hours: float = CLOUD_HOURS, **keys: Any) -> Replay:
    """The day from one replica of each target on."""
    one = hundred_replicas(**keys)
    return replay(one, samples(cloudy_day(seed, hours), CLOUD_TICK), dict.fromkeys(one.places, 1))
