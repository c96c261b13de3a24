"""Beside the published model: ramps, and signals of the kinds its author replayed."""

import math
import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.worlds.power import follow, policy, totals

RAMPS = [
    (0.2, (26, 0, 7), (24, 8)),
    (0.5, (21, 0, 9), (21, 8)),
    (1, (11, 5, 15), (19, 8)),
    (2, (2, 9, 32), (16, 8)),
    (5, (0, 6, 40), (8, 8)),
    (10, (0, 4, 40), (5, 8)),
    (20, (0, 2, 40), (3, 8)),
]
"""Percent of 1000 W a minute down to 200 W; actions, cancels and last replicas as published; actions, last of ours."""

SIDES = {side: {"window": 120, "tolerance": 0.05} for side in ("increase", "decrease")}


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "published", "ours"), RAMPS)
def test_a_ramp_of_any_steepness_ends_where_it_should(
    rate: float, published: tuple[int, ...], ours: tuple[int, ...]
) -> None:
    count = math.ceil(800 / (rate * 2.5)) + 1
    feed = [max(200.0, 1000 - rate * 2.5 * i) for i in range(count)] + [200.0] * 80
    run, paper = (follow(policy(**SIDES, **keys), feed, one=40) for keys in ({}, {"compat": "paper"}))
    assert (paper.actions, paper.cancels, totals(paper)[-1]) == published
    assert (run.actions, totals(run)[-1]) == ours


def full_cycle() -> Iterator[float]:
    """Up to the double and back, in steps of a minute, with a little jitter."""
    jitter = random.Random(1)
    for i in range(80):
        share = i / 40 if i < 40 else (80 - i) / 40
        for _ in range(6):
            yield 105 + 115 * share + jitter.uniform(-1, 1)
    yield from [108.0] * 60


def solar_with_clouds() -> Iterator[float]:
    """Half a sine of an hour above 50 W, with clouds that take up to two thirds for two minutes."""
    clouds = random.Random(2)
    cover, left = 1.0, 0
    for i in range(360):
        if not left and clouds.random() < 0.04:
            cover, left = clouds.uniform(0.35, 0.8), clouds.randint(6, 14)
        left = max(0, left - 1)
        cover = cover if left else 1.0
        yield 50 + 203 * math.sin(math.pi * i / 360) * cover
    yield from [50.0] * 60


def priority_ramp() -> Iterator[float]:
    """Steep both ways: 150 to 400 W in five minutes, and back."""
    for start, end in ((150, 400), (400, 150)):
        for i in range(30):
            yield start + (end - start) * i / 30
        yield from [float(end)] * 30


def wide_noise() -> Iterator[float]:
    """Plus and minus a fifth around 500 W, a new value every ten seconds."""
    noise = random.Random(3)
    for _ in range(360):
        yield 500 + noise.uniform(-100, 100)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("signal", "count", "part"), [(full_cycle, 10, 1 / 3), (solar_with_clouds, 10, 1 / 3), (priority_ramp, 14, 0.4)]
)
def test_signals_are_followed_several_times_closer(signal: Any, count: int, part: float) -> None:
    run, paper = _both(list(signal()), count)
    assert run.error is not None
    assert paper.error is not None
    assert run.error <= part * paper.error


def test_noise_is_followed_less() -> None:
    run, paper = _both(list(wide_noise()), 20)
    assert run.actions < paper.actions


def _both(feed: list[float], count: int) -> tuple[Any, Any]:
    """At 8 % tolerance, windows of 30 and 60 s, a sample every 10 s."""
    sides = {"increase": {"window": 30, "tolerance": 0.08}, "decrease": {"window": 60, "tolerance": 0.08}}
    found = (follow(policy(**sides, **keys), feed, tick=10, one=count) for keys in ({}, {"compat": "paper"}))
    run, paper = found
    return run, paper
