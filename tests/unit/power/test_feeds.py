"""Feeds that swing, with the defaults: the time over them, and the use of what the window of rises carries."""

import random
from fractions import Fraction

import pytest

from ballast.power.replay import NO_DEMAND, replay
from tests.worlds.power import policy, samples

WATTS, TICKS, WINDOW = 50, 960, 4
RANDOM = random.Random(1)
FEEDS = {
    "ramp of 1 % a minute": ([min(5000.0, 1000 * 1.01 ** (tick / 4)) for tick in range(TICKS)], 0.002, 45),
    "brown-outs": ([2600.0 if tick % 20 < 2 else 5000.0 for tick in range(TICKS)], 0, 100),
    "flapping, above a half": ([5000.0, 2600.0] * (TICKS // 2), 0, 2),
    "flapping, two low ones": ([5000.0, 2000.0, 2000.0] * (TICKS // 3), 0.002, 4),
    "noise": ([4000 + 500 * RANDOM.uniform(-1, 1) for _ in range(TICKS)], 0, 220),
    # Each cliff is a fall of more than a half, whose second part waits for a sample.
    "saw with cliffs": ([max(1250.0, 5000 * 1.1 ** ((tick % 40) / 4 - 10)) for tick in range(TICKS)], 0.025, 410),
    # Low samples confirm one another, so it is served at its lower level.
    "flapping, below a half": ([5000.0, 2000.0] * (TICKS // 2), 0.002, 2),
}


@pytest.mark.parametrize("name", FEEDS)
def test_feeds_that_swing(name: str) -> None:
    feed, over, actions = FEEDS[name]
    one = policy(
        independents=[{"ref": "ns/one", "min": 0, "max": 100, "wattsPerReplica": WATTS}], increase={}, decrease={}
    )
    result = replay(one, samples(feed), {"ns/one": 50}, NO_DEMAND)
    carried = sum(min(feed[max(0, tick - WINDOW) : tick + 1]) // WATTS * WATTS for tick in range(len(feed)))
    assert sum(tick.drawn or Fraction(0) for tick in result.ticks) >= 0.95 * carried
    assert result.over.share <= over
    assert result.over.worst_watts <= 450
    assert result.actions <= actions


@pytest.mark.parametrize("apart", [900, 3600])
def test_slow_feeds_fall_with_their_row_once_their_pace_is_known(apart: int) -> None:
    one = policy(
        independents=[{"ref": "ns/one", "min": 0, "max": 100, "wattsPerReplica": WATTS}], increase={}, decrease={}
    )
    feed = samples([5000.0, 2000.0] * 12, apart)
    result = replay(one, feed, {"ns/one": 50}, NO_DEMAND, interval=Fraction(15))
    # Of the first two rows nobody knows yet that the next one is far.
    rows = [float(tick.t or 0) for tick in result.ticks if (tick.drawn or 0) > (tick.watts or 0)]
    assert {row // apart for row in rows} == {float((feed[1].at or 0) // apart)}
    assert 0 < result.over.share <= Fraction(1, 22)
