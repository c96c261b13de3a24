"""Watts of replicas from consumption: with noise, with a lag, and against a wrong constant."""

import random
from collections import deque
from fractions import Fraction

import pytest

from ballast.base.errors import SettingsError
from ballast.power.learned_watts import WattsLearner
from ballast.power.policy_reader import read

POLICY = {"name": "p", "feed": {"watts": 5000}, "consumption": {"query": "meter_watts"}}
MEMBER = {"ref": "ns/a", "min": 0, "max": 50, "wattsPerReplica": 20}
TRUE = {"ns/a": 20.0, "ns/b": 55.0}


def learner(**watts: float | str) -> WattsLearner:
    members = [{"ref": f"ns/{name}", "min": 0, "max": 50, "wattsPerReplica": each} for name, each in watts.items()]
    policy = {"name": "p", "feed": {"watts": 5000}, "consumption": {"query": "meter_watts"}, "independents": members}
    return WattsLearner(read([policy], "power")[0])


def lived(model: WattsLearner, actions: int, *, seed: int, noise: float = 0.0, lag: float = 0.0) -> None:
    """Random counts, 20 ticks of 15 s each; the meter tells what was drawn `lag` seconds ago."""
    chance = random.Random(seed)
    counts, drawn = {"ns/a": 20, "ns/b": 10}, deque([(0.0, 950.0)])
    for tick in range((actions + 1) * 20):
        at = 15.0 * tick
        if tick and tick % 20 == 0:
            counts = {"ns/a": chance.randint(2, 40), "ns/b": chance.randint(2, 20)}
        drawn.append((at, sum(TRUE[name] * count for name, count in counts.items())))
        while len(drawn) > 1 and drawn[1][0] <= at - lag:
            drawn.popleft()
        model.measure(Fraction(at), counts, Fraction(drawn[0][1] * chance.gauss(1, noise)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_ten_actions_tell_the_watts_despite_noise_and_a_lag(seed: int) -> None:
    model = learner(a="measured", b="measured")
    lived(model, 10, seed=seed, noise=0.03, lag=120)
    learned = model.learned()
    assert learned is not None
    for name, (watts, _) in learned.watts.items():
        assert watts == pytest.approx(TRUE[name], rel=0.05)


@pytest.mark.parametrize("seed", range(5))
def test_a_wrong_constant_is_found_within_three_actions(seed: int) -> None:
    model = learner(a=10, b=55)
    lived(model, 3, seed=seed, noise=0.01)
    learned = model.learned()
    assert learned is not None
    watts, error = learned.watts["ns/a"]
    assert watts - 3 * error > 12


@pytest.mark.parametrize("seed", range(3))
def test_what_is_measured_differs_as_far_as_it_does(seed: int) -> None:
    """One replica draws six times what the other does; they begin alike."""
    model = learner(a="measured", b="measured")
    model.measure(Fraction(0), {"ns/a": 20, "ns/b": 10}, Fraction(20 * 10 + 10 * 60))
    chance = random.Random(seed)
    for tick in range(1, 120):
        if tick % 20 == 1:
            counts = {"ns/a": chance.randint(2, 40), "ns/b": chance.randint(2, 20)}
        model.measure(Fraction(15 * tick), counts, Fraction(counts["ns/a"] * 10 + counts["ns/b"] * 60))
    learned = model.learned()
    assert learned is not None
    assert learned.watts["ns/a"][0] == pytest.approx(10, rel=0.1)
    assert learned.watts["ns/b"][0] == pytest.approx(60, rel=0.1)


def test_nothing_is_known_before_the_first_sample() -> None:
    model = learner(a="measured")
    assert model.learned() is None
    assert model.waits
    model.measure(Fraction(0), {"ns/a": 0}, Fraction(200))
    assert model.waits, "of no replica nothing follows"


def test_the_first_sample_is_shared_equally() -> None:
    model = learner(a="measured")
    model.measure(Fraction(0), {"ns/a": 10}, Fraction(200))
    learned = model.learned()
    assert learned is not None
    assert learned.watts["ns/a"][0] == pytest.approx(20, rel=0.01)
    assert not model.waits


@pytest.mark.parametrize(("noise", "least", "most"), [(0, 0.009, 0.011), (0.01, 0.014, 0.031), (0.1, 0.09, 0.11)])
def test_the_margin_is_what_the_meter_s_errors_show(noise: float, least: float, most: float) -> None:
    model = learner(a=20, b=55)
    policy = read([POLICY | {"independents": [MEMBER]}], "power")[0]
    assert model.applied(policy).margin_in_force == Fraction(2, 100)
    lived(model, 10, seed=3, noise=noise)
    assert least <= model.applied(policy).margin_in_force <= most
    own = read([POLICY | {"independents": [MEMBER], "margin": 0.3}], "power")[0]
    assert model.applied(own).margin_in_force == Fraction(3, 10)


@pytest.mark.parametrize("margin", ["auto", None])
def test_a_margin_may_be_left_to_the_meter(margin: str | None) -> None:
    (policy,) = read([POLICY | {"independents": [MEMBER], "margin": margin}], "power")
    assert policy.margin_in_force == Fraction(2, 100)


@pytest.mark.parametrize("margin", ["some", 1, -0.1, True, [1]])
def test_a_margin_that_is_none_is_refused(margin: object) -> None:
    with pytest.raises(SettingsError, match=r"margin.* expected a fraction.*or auto"):
        read([POLICY | {"independents": [MEMBER], "margin": margin}], "power")
