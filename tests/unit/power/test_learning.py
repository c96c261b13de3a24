"""Watts of replicas from consumption: with noise, with a lag, and against a wrong constant."""

import random
from collections import deque

import pytest

from ballast.power.learned_watts import WattsModel

TRUE = {"ns/a": 20.0, "ns/b": 55.0}


def lived(model: WattsModel, actions: int, *, seed: int, noise: float = 0.0, lag: float = 0.0, every: int = 20) -> None:
    """Random counts, `every` ticks of 15 s each; the meter tells what was drawn `lag` seconds ago."""
    chance = random.Random(seed)
    counts, drawn = {"ns/a": 20, "ns/b": 10}, deque([(0.0, 950.0)])
    for tick in range((actions + 1) * every):
        at = 15.0 * tick
        if tick and tick % every == 0:
            counts = {"ns/a": chance.randint(2, 40), "ns/b": chance.randint(2, 20)}
        drawn.append((at, sum(TRUE[name] * count for name, count in counts.items())))
        while len(drawn) > 1 and drawn[1][0] <= at - lag:
            drawn.popleft()
        seen = drawn[0][1]
        model.measure(at, counts, seen * chance.gauss(1, noise))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_ten_actions_tell_the_watts_despite_noise_and_a_lag(seed: int) -> None:
    model = WattsModel({"ns/a": None, "ns/b": None})
    lived(model, 10, seed=seed, noise=0.03, lag=120)
    learned = model.learned()
    assert learned is not None
    for name, (watts, _) in learned.watts.items():
        assert watts == pytest.approx(TRUE[name], rel=0.05)


@pytest.mark.parametrize("seed", range(5))
def test_a_wrong_constant_is_found_within_three_actions(seed: int) -> None:
    model = WattsModel({"ns/a": 10.0, "ns/b": 55.0})
    lived(model, 3, seed=seed, noise=0.01)
    learned = model.learned()
    assert learned is not None
    watts, error = learned.watts["ns/a"]
    assert watts - 3 * error > 12


def test_nothing_is_known_before_the_first_sample() -> None:
    assert WattsModel({"ns/a": None}).learned() is None


def test_the_first_sample_is_shared_equally() -> None:
    model = WattsModel({"ns/a": None})
    model.measure(0.0, {"ns/a": 10}, 200.0)
    learned = model.learned()
    assert learned is not None
    assert learned.watts["ns/a"][0] == pytest.approx(20, rel=0.01)
