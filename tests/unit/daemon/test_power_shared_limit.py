"""A limit that others share: what is ending, and a meter that is late, are never taken for the others."""

from collections import deque
from fractions import Fraction

import pytest

from ballast.jobs.power.budget import PolicyController
from ballast.jobs.power.store import PowerStore
from ballast.jobs.power.tick_report import TickContext
from ballast.power.learned_watts import WattsLearner
from ballast.telemetry.feeds.budget_feed import Watts
from tests.worlds.power import policy
from tests.worlds.power_run import WALL, PowerRun

EACH, TICK = 50, 30


class _Rack:
    """Replicas of 50 W under one limit with others; removed ones draw for `drain` s, the meter is `lag` s late."""

    def __init__(self, drain: int, lag: int) -> None:
        feed = {"semantics": "limit-minus-consumption", "limit": {"query": "limit"}, "consumption": {"query": "rack"}}
        members = [{"ref": "ns/t0", "min": 2, "max": 120, "wattsPerReplica": EACH, "replicas": 100}]
        self.run = PowerRun(policy(independents=members, feed=feed, increase={}, decrease={}))
        self.run.budget = PolicyController(
            self.run.policy,
            self.run.cluster,  # type: ignore[arg-type]
            PowerStore(self.run.keys, "power", shadow=False),  # type: ignore[arg-type]
            shadow=False,
            meter=WattsLearner(self.run.policy),
        )
        self.drain, self.lag, self.at = drain, lag, 0
        self.ending: deque[tuple[int, int]] = deque()
        self.past: list[tuple[int, float]] = []

    def drawn(self, others: float) -> float:
        return others + EACH * (self.run.total + sum(count for _, count in self.ending))

    def tick(self, limit: float, others: float) -> tuple[int, float]:
        """The replicas after it, and what is drawn."""
        self.at += TICK
        while self.ending and self.ending[0][0] <= self.at:
            self.ending.popleft()
        self.past.append((self.at, self.drawn(others)))
        shown = next((watts for at, watts in reversed(self.past) if at <= self.at - self.lag), self.past[0][1])
        self.run.cluster.standing["ns/t0"] = {"leaving": sum(count for _, count in self.ending)}
        before = self.run.total
        watts = Watts(Fraction(str(limit)), WALL + self.at, consumed=Fraction(f"{shown:.3f}"))
        self.run.budget.cycle(TickContext(Fraction(self.at), WALL + self.at), watts)
        if self.drain and self.run.total < before:
            self.ending.append((self.at + self.drain, before - self.run.total))
        return self.run.total, self.drawn(others)


@pytest.mark.parametrize("part", [0.6, 0.8, 0.9])
@pytest.mark.parametrize(("drain", "lag"), [(0, 0), (120, 0), (300, 0), (600, 0), (0, 120), (0, 300), (300, 120)])
def test_a_fall_of_the_limit_takes_what_has_to_go_and_little_more(drain: int, lag: int, part: float) -> None:
    rack, others = _Rack(drain, lag), 1000
    for _ in range(20):
        rack.tick(6500, others)
    limit = 6500 * part
    fit = int((limit - others) * 0.98 / EACH)  # the margin is left
    seen = [rack.tick(limit, others) for _ in range(80)]
    assert min(count for count, _ in seen) >= 0.9 * fit
    assert max(drawn for _, drawn in seen[drain // TICK + 1 :]) <= limit
    assert seen[-1][0] >= 0.9 * fit


@pytest.mark.parametrize("lag", [0, 60])
def test_others_that_rise_are_made_room_for_and_what_they_leave_is_used(lag: int) -> None:
    rack = _Rack(60, lag)
    for _ in range(20):
        rack.tick(5200, 1000)
    more = [rack.tick(5200, 1800) for _ in range(60)]
    assert more[-1][1] <= 5200
    assert sum(drawn > 5200 for _, drawn in more) <= (lag + 60) // TICK + 3
    less = [rack.tick(5200, 800) for _ in range(120)]
    assert max(drawn for _, drawn in less) <= 5200
    assert less[-1][0] >= 0.93 * (5200 - 800) / EACH
