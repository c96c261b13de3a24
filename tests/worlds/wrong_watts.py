"""Worlds whose replicas draw other watts than declared, each target its own, behind a late meter and drains."""

import random
from dataclasses import dataclass
from fractions import Fraction

from ballast.power.replay import NO_DEMAND, Simulation, replay
from tests.worlds.power import policy, samples

DECLARED = 50


@dataclass(frozen=True)
class Judged:
    """A run with declared watts and a meter beside one that is told the true watts."""

    over: float
    """Share of the time."""
    unavoidable: float
    """The same of the one that is told the true watts: what drains, or fell below all minima."""
    use: float
    """Of the watt-hours that one uses within the feed."""
    actions: int
    told_actions: int


def judge(seed: int) -> Judged:
    """Two to four targets that draw 0.5 to 2 times the 50 W declared, a meter up to 10 min late, drains up to 10 min,
    in half of the worlds up to half of a target Pending; levels of 2 to 15 min, ticks of 15 s.
    """
    chance = random.Random(seed)
    names = [f"ns/t{index}" for index in range(chance.randint(2, 4))]
    members = [
        {"ref": name, "min": 1, "max": 60, "wattsPerReplica": DECLARED, "priority": index % 3}
        for index, name in enumerate(names)
    ]
    one = policy(independents=members, increase={}, decrease={})
    true = {name: Fraction(f"{DECLARED * 2 ** chance.uniform(-1, 1):.2f}") for name in names}
    lag, drain = chance.randint(0, 600), {name: Fraction(chance.randint(0, 600)) for name in names}
    counts = dict.fromkeys(names, 2000 // (DECLARED * len(names)))
    pending = {names[0]: int(counts[names[0]] * chance.uniform(0, 0.5))} if chance.random() < 0.5 else {}
    feed = [5000.0] * 4
    for _ in range(chance.randint(3, 8)):
        feed += [float(chance.randint(1200, 5000))] * chance.randint(8, 60)
    world = Simulation(true, drain, {}, pending, Fraction(lag), metered=True)
    closed = replay(one, samples(feed), counts, NO_DEMAND, world)
    told = replay(one.with_watts(true), samples(feed), counts, NO_DEMAND, Simulation(true, drain, {}, pending))
    used, best = (sum(float(min(t.drawn or 0, t.watts or 0)) for t in run.ticks) for run in (closed, told))
    return Judged(float(closed.over.share), float(told.over.share), used / best, closed.actions, told.actions)
