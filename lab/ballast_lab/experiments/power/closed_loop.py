"""A limit that is shared with others, seen through a meter that averages: does the number of replicas swing?

A limit of 1000 W for four hours; others draw 300 W, after an hour 450 W; a replica draws 20 W.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from ballast.power.averaging import Average
from ballast.power.controller import observe
from ballast.power.controller_state import ControllerState, Sample
from ballast.power.feed_spec import remaining
from ballast.power.learned_watts import WattsLearner
from ballast.power.policy_reader import read
from ballast_lab.experiments.power.contestants import REF

LIMIT, BEFORE, AFTER, TRUE = 1000, 300, 450, 20
TICK, TICKS, STEP = 15, 960, 240
LAGS = (60, 300, 600)


@dataclass(frozen=True)
class ClosedLoop:
    """`declared` are watts of a replica, None: measured. `matched`: the own part is averaged as the meter averages."""

    name: str
    budget: str
    declared: int | None
    matched: bool


WAYS = (
    ClosedLoop("anchor, own part at once", "anchor", 20, matched=False),
    ClosedLoop("anchor, own part averaged", "anchor", 20, matched=True),
    ClosedLoop("absolute", "absolute", 20, matched=True),
    ClosedLoop("absolute, 10 W declared", "absolute", 10, matched=True),
    ClosedLoop("absolute, 30 W declared", "absolute", 30, matched=True),
    ClosedLoop("absolute, measured", "absolute", None, matched=True),
)


def lived(way: ClosedLoop, lag: int) -> Iterator[tuple[str, float]]:
    """Actions, seconds over the limit, and the range of replicas after the step."""
    member = {"ref": REF, "max": 60, "wattsPerReplica": "measured" if way.declared is None else way.declared}
    feed = {"limit": {"watts": LIMIT}, "consumption": {"query": f"avg_over_time(site_watts[{lag}s])"}}
    feed |= {"semantics": "limit-minus-consumption", "own": {"query": "own_watts"}}
    given = {"independents": [member], "budget": way.budget, "feed": feed}
    if way.declared is None:
        given |= {"consumption": {"query": f"avg_over_time(own_watts[{lag}s])"}}
    policy = read([given])[0]
    meter = WattsLearner(policy) if way.declared is None else None
    state, counts, seen = ControllerState(), {REF: 35}, []
    total, own, believed = Average(Fraction(lag)), Average(Fraction(lag)), Average(Fraction(lag if way.matched else 0))
    total.add(Fraction(-lag), Fraction(BEFORE + TRUE * counts[REF]))
    own.add(Fraction(-lag), Fraction(TRUE * counts[REF]))
    actions = over = 0
    for tick in range(TICKS):
        at, others = Fraction(TICK * tick), BEFORE if tick < STEP else AFTER
        drawn = Fraction(TRUE * counts[REF])
        if meter is not None:
            meter.measure(at, counts, own.add(at, drawn))
        in_force = policy if meter is None else meter.applied(policy)
        mine = believed.add(at, in_force.places[REF].member.watts * counts[REF])
        watts = remaining(Fraction(LIMIT), total.add(at, others + drawn), mine)
        state = observe(in_force, state, Sample(at, watts), counts).state
        if state.plan is not None:
            actions += state.plan.replicas != counts
            counts, state = dict(state.plan.replicas), state.committed()
            # What was changed draws from now on, not from the next look on.
            drawn, now = Fraction(TRUE * counts[REF]), at + Fraction(1, 1000)
            total.add(now, others + drawn)
            own.add(now, drawn)
            believed.add(now, in_force.places[REF].member.watts * counts[REF])
        over += TICK * (others + TRUE * counts[REF] > LIMIT)
        if tick >= STEP:
            seen.append(counts[REF])
    yield from {"actions": actions, "s over": over, "fewest": min(seen), "most": max(seen)}.items()
