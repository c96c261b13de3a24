"""A consumption that is averaged is met by an own part that is averaged over the same range."""

from fractions import Fraction

import pytest

from ballast.power.averaging import Average, range_of
from ballast.power.controller import observe
from ballast.power.controller_state import ControllerState, Sample
from ballast.power.feed_spec import remaining
from tests.worlds.power import policy


@pytest.mark.parametrize(
    ("query", "length"),
    [
        ("sum(node_watts)", 0),
        ("sum(rate(joules_total[5m]))", 300),
        ("avg_over_time(x[1h30m])", 5400),
        ("max_over_time(rate(x[1m])[10m:15s])", 600),
        ('x{a="b"} + rate(y[1w])', 604_800),
    ],
)
def test_the_range_stands_in_the_query(query: str, length: int) -> None:
    assert range_of(query) == length


def test_the_mean_of_what_held() -> None:
    average = Average(Fraction(60))
    found = [average.add(Fraction(at), Fraction(value)) for at, value in ((0, 100), (30, 40), (60, 40), (90, 40))]
    assert found == [100, 100, 70, 40]
    assert Average(Fraction(0)).add(Fraction(0), Fraction(7)) == 7


@pytest.mark.slow
@pytest.mark.parametrize("lag", [60, 300, 600])
def test_nothing_swings_when_both_are_averaged_alike(lag: int) -> None:
    """A limit of 1000 W is shared with others, who go from 300 to 450 W after an hour; 20 W a replica."""
    one = policy(independents=[{"ref": "ns/t0", "max": 60, "wattsPerReplica": 20}], margin=0, decrease={})
    state, counts = ControllerState(), {"ns/t0": 35}
    total, own = Average(Fraction(lag)), Average(Fraction(lag))
    actions, over = 0, 0
    for tick in range(960):
        at, others = Fraction(15 * tick), 300 if tick < 240 else 450
        mine = Fraction(20 * counts["ns/t0"])
        watts = remaining(Fraction(1000), total.add(at, others + mine), own.add(at, mine))
        state = observe(one, state, Sample(at, watts), counts).state
        if state.plan is not None:
            actions += state.plan.replicas != counts
            counts, state = dict(state.plan.replicas), state.committed()
        over += 15 * (others + 20 * counts["ns/t0"] > 1000)
    assert 23 <= counts["ns/t0"] <= 27
    assert over <= 1.1 * lag
    assert actions <= 12
