"""Feeds that swing for four hours, a sample every 15 s, and what the window of rises carries of them."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from ballast.power.controller_state import Sample
from ballast.power.policy import PowerPolicy
from ballast.power.replay import NO_DEMAND, replay
from tests.worlds.power import policy

WATTS, TICKS, APART, WINDOW = 50, 960, 15, 4
RANDOM = random.Random(1)
FEEDS: dict[str, list[float]] = {
    "ramp of 1 % a minute": [min(5000.0, 1000 * 1.01 ** (tick / 4)) for tick in range(TICKS)],
    "brown-outs": [2600.0 if tick % 20 < 2 else 5000.0 for tick in range(TICKS)],
    "flapping, above a half": [5000.0, 2600.0] * (TICKS // 2),
    "flapping, two low ones": [5000.0, 2000.0, 2000.0] * (TICKS // 3),
    "noise": [4000 + 500 * RANDOM.uniform(-1, 1) for _ in range(TICKS)],
    "saw with cliffs": [max(1250.0, 5000 * 1.1 ** ((tick % 40) / 4 - 10)) for tick in range(TICKS)],
    "flapping, below a half": [5000.0, 2000.0] * (TICKS // 2),
}


@dataclass(frozen=True)
class Followed:
    """Shares: of the time over the feed, and of the watt-hours that whole replicas at the sliding minimum draw."""

    over: float
    worst_watts: float
    use: float
    actions: int


def one_target() -> PowerPolicy:
    return policy(
        independents=[{"ref": "ns/one", "min": 0, "max": 100, "wattsPerReplica": WATTS}], increase={}, decrease={}
    )


def follow(feed: list[float], *, asked_again: bool) -> Followed:
    """With the defaults, from half of the replicas on.

    `asked_again`: a source with a new value at any time, which the daemon asks once more a second after a sudden fall.
    """
    run = replay(one_target(), _samples(feed, asked_again=asked_again), {"ns/one": 50}, NO_DEMAND)
    carried = sum(min(feed[max(0, tick - WINDOW) : tick + 1]) // WATTS * WATTS for tick in range(len(feed)))
    rows = [tick for tick in run.ticks if (tick.t or 0) % APART == 0]
    used = float(sum((tick.drawn or Fraction(0) for tick in rows), Fraction(0)))
    return Followed(float(run.over.share), float(run.over.worst_watts), used / carried, run.actions)


def _samples(feed: list[float], *, asked_again: bool) -> Iterator[Sample]:
    before = feed[0]
    for tick, watts in enumerate(feed):
        yield Sample.of(APART * tick, watts)
        if asked_again and 2 * watts < before:
            yield Sample.of(APART * tick + 1, watts)
        before = watts
