"""`increase: auto`: the window that the feed and the start of replicas ask for, with its price."""

from fractions import Fraction

import pytest

from ballast.base.errors import SettingsError
from ballast.power.policy import PowerPolicy
from ballast.power.replay import NO_DEMAND, Replay, Simulation, replay
from ballast.power.waiting import WINDOWS, LearnedWindow
from tests.worlds.power import policy, samples

MEMBERS = [{"ref": "ns/one", "min": 0, "max": 100, "wattsPerReplica": 50, "replicas": 50}]
FLAPPING = [5000.0, 5000.0, 2600.0, 2600.0]
STAIRS = [watts for watts in (2000.0, 3000.0, 4000.0, 5000.0) for _ in range(60)]


def auto(**keys: object) -> PowerPolicy:
    return policy(**{"independents": MEMBERS, "increase": "auto", "decrease": {}, **keys})


def chosen(feed: list[float], start: float) -> int:
    learned = LearnedWindow(auto())
    for number, watts in enumerate(feed):
        learned.measure(Fraction(15 * number), Fraction(watts), start=start)
    return next(int(price.window) for price in learned.prices() if price.chosen)


def test_on_a_feed_that_flaps_starting_replicas_are_not_worth_it() -> None:
    assert chosen(FLAPPING * 200, start=120) >= 60
    assert chosen(FLAPPING * 200, start=1) < 60


def test_on_stairs_nothing_is_gained_by_waiting() -> None:
    assert chosen(STAIRS * 8, start=60) == 0


def test_before_half_an_hour_the_policy_own_window_holds() -> None:
    learned = LearnedWindow(auto(increase={"auto": True, "window": "45s"}))
    for number in range(100):
        learned.measure(Fraction(15 * number), Fraction(3000))
    assert learned.prices() == []
    assert learned.applied(auto()).increase.window == 45


def test_the_prices_are_of_what_was_followed() -> None:
    learned = LearnedWindow(auto())
    for number, watts in enumerate(FLAPPING * 300):
        learned.measure(Fraction(15 * number), Fraction(watts))
    prices = {int(price.window): price for price in learned.prices()}
    assert tuple(prices) == WINDOWS
    assert abs(prices[0].actions_per_day - 2 * 86_400 / 60) < 20
    assert prices[600].actions_per_day < 5
    assert abs(prices[600].unused_share - 1200 / 3800) < 0.05
    assert sum(price.chosen for price in prices.values()) == 1


def run(feed: list[float], increase: object, start: int) -> Replay:
    one = policy(independents=MEMBERS, increase=increase, decrease={})
    return replay(one, samples(feed), {"ns/one": 50}, NO_DEMAND, Simulation(start={"ns/one": Fraction(start)}))


@pytest.mark.slow
@pytest.mark.parametrize(("feed", "start"), [(FLAPPING * 240, 120), (STAIRS * 4, 60)])
def test_it_leaves_no_more_unused_than_the_default_and_is_never_over_for_it(feed: list[float], start: int) -> None:
    learned, default = run(feed, "auto", start), run(feed, {}, start)
    assert learned.unused <= default.unused * Fraction(102, 100)
    assert learned.over.share <= default.over.share
    assert learned.document()["increase"]
    assert "increase" not in default.document()


def test_an_anchor_has_no_watts_to_weigh() -> None:
    with pytest.raises(SettingsError, match="increase is auto: expected an absolute budget"):
        policy(increase="auto")
