"""A budget by measured watts."""

from fractions import Fraction

from ballast.power.replay import NO_DEMAND, Simulation, replay
from tests.worlds.power import policy, samples


def test_measured_watts_keep_the_budget_whatever_they_are() -> None:
    members = [
        {"ref": f"ns/t{i}", "min": 1, "max": 40, "wattsPerReplica": "measured", "replicas": 10} for i in range(2)
    ]
    one = policy(independents=members, decrease={}, consumption={"query": "drawn_watts"})
    assert one.absolute
    feed = [1000.0] * 20 + [600.0] * 20 + [900.0] * 20 + [500.0] * 40
    true = {"ns/t0": Fraction(20), "ns/t1": Fraction(30)}
    run = replay(one, samples(feed), {"ns/t0": 10, "ns/t1": 10}, NO_DEMAND, Simulation(watts=true))
    last = run.ticks[-1].replicas
    drawn = 20 * last["ns/t0"] + 30 * last["ns/t1"]
    assert 400 <= drawn <= 510
    assert run.over.share < Fraction(1, 10)
