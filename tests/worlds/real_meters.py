"""Worlds whose meter shows more than replicas draw, averages, is late, or whose limit others share."""

import random
from dataclasses import dataclass
from fractions import Fraction

from ballast.power.replay import NO_DEMAND, Replay, Simulation, replay
from tests.worlds.power import policy, samples


@dataclass(frozen=True)
class Judged:
    """A run behind its meter, beside one that is told the true watts and the base."""

    over: float
    """Share of the time beyond that one's."""
    use: float
    """Of the watt-hours that one uses within the feed."""


def judge(seed: int, *, idle: bool = False, averaged: int = 0, wrong: bool = False, lag: int = 0) -> Judged:
    """Two to four targets; a feed of levels of 2 to 15 minutes for two hours, ticks of 15 s."""
    chance = random.Random(f"{seed} {idle} {averaged} {wrong} {lag}")
    names = [f"ns/t{index}" for index in range(chance.randint(2, 4))]
    declared = {name: chance.randint(20, 200) for name in names}
    members = [
        {"ref": name, "min": 1, "max": 60, "wattsPerReplica": declared[name], "priority": index % 3}
        for index, name in enumerate(names)
    ]
    true = {
        name: Fraction(f"{watts * (2 ** chance.uniform(-1, 1) if wrong else 1):.2f}")
        for name, watts in declared.items()
    }
    most = float(sum(60 * watts for watts in true.values()))
    base = Fraction(round(most * chance.uniform(0.1, 0.3))) if idle else Fraction(0)
    feed: list[float] = []
    while len(feed) < 480:
        feed += [float(base) + most * chance.uniform(0.15, 0.95)] * chance.randint(8, 60)
    one = policy(independents=members, increase={}, decrease={})
    counts = dict.fromkeys(names, 20)
    world = Simulation(true, {}, {}, {}, Fraction(lag), metered=True, base=base, averaged=Fraction(averaged))
    closed = replay(one, samples(feed), counts, NO_DEMAND, world)
    told = replay(one.with_watts(true, base), samples(feed), counts, NO_DEMAND, Simulation(true))
    beyond = len(_over(closed) - _over(told)) / len(feed)
    unavoidable = float(base) * len(feed)
    return Judged(beyond, (_used(closed) - unavoidable) / (_used(told) - unavoidable))


def _over(run: Replay) -> set[int]:
    return {number for number, tick in enumerate(run.ticks) if (tick.drawn or 0) > (tick.watts or 0)}


def _used(run: Replay) -> float:
    return float(sum(min(tick.drawn or 0, tick.watts or 0) for tick in run.ticks))
