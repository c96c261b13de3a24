"""Caps of autoscalers under an absolute budget: all or none, and lent while their owner is idle."""

from fractions import Fraction
from typing import Any

from ballast.power.policy import PowerPolicy
from ballast.power.replay import RecordedDemand, Replay, replay
from tests.worlds.power import policy, samples


def scaled(*maxima: int, **keys: Any) -> PowerPolicy:
    made = [
        {"ref": f"ns/t{i}", "min": 1, "max": most, "wattsPerReplica": 10, "replicas": 1}
        for i, most in enumerate(maxima)
    ]
    return policy(**{"independents": made, "margin": 0, "decrease": {}, **keys})


def wants(**rows: list[int]) -> RecordedDemand:
    """Replicas wanted at each tick of 15 s."""
    return RecordedDemand(
        {f"ns/{name}": [(Fraction(15 * i), count) for i, count in enumerate(counts)] for name, counts in rows.items()}
    )


def played(one: PowerPolicy, watts: list[float], demand: RecordedDemand) -> Replay:
    return replay(one, samples(watts), {name: place.member.start for name, place in one.places.items()}, demand)


def test_in_a_shortage_every_autoscaler_has_a_cap_whatever_it_runs() -> None:
    run = played(scaled(40, 40), [1000.0, 500.0, 500.0], wants(t0=[20, 20, 20], t1=[1, 1, 39]))
    assert run.ticks[0].caps == {"ns/t0": None, "ns/t1": None}
    for tick in run.ticks[1:]:
        assert None not in tick.caps.values()
        assert 10 * tick.total <= 500


def test_while_the_watts_carry_all_originals_there_is_no_cap() -> None:
    run = played(scaled(40, 10), [500.0] * 3, wants(t0=[20, 20, 40], t1=[1, 1, 10]))
    assert all(set(tick.caps.values()) == {None} for tick in run.ticks)
    run = played(scaled(40), [300.0, *[400.0] * 6], wants(t0=[20] * 7))
    assert run.ticks[0].caps == {"ns/t0": 30}
    assert run.ticks[-1].caps == {"ns/t0": None}


def test_an_evening_dip_does_not_throttle_the_morning() -> None:
    """The autoscaler was at 5 of 40 by itself when a cloud came."""
    feed = [1000.0] * 4 + [600.0] * 2 + [1000.0] * 10
    one = scaled(40, independents=[{"ref": "ns/t0", "min": 1, "max": 40, "wattsPerReplica": 25, "replicas": 5}])
    run = played(one, feed, wants(t0=[5] * 6 + [40] * 10))
    assert run.ticks[5].caps == {"ns/t0": 24}
    assert run.ticks[-1].caps == {"ns/t0": None}
    assert run.ticks[-1].total == 40


def test_what_an_idle_one_leaves_is_lent_and_given_back_within_a_tick() -> None:
    run = played(scaled(40, 40), [300.0] * 6, wants(t0=[40] * 6, t1=[2, 2, 2, 40, 40, 40]))
    assert run.ticks[2].replicas["ns/t0"] >= 26
    assert run.ticks[3].replicas == {"ns/t0": 15, "ns/t1": 15}
    assert all(10 * tick.total <= 300 for tick in run.ticks)
    assert run.unused <= Fraction(10 * 75, 3600)


def test_a_demand_that_wavers_moves_no_cap() -> None:
    run = played(scaled(40, 40), [300.0] * 8, wants(t0=[10, 11] * 4, t1=[5, 4] * 4))
    assert len({tuple(sorted(tick.caps.items())) for tick in run.ticks}) == 1


def test_priorities_decide_about_caps_too() -> None:
    members = [
        {"ref": f"ns/t{i}", "min": 1, "max": 20, "wattsPerReplica": 10, "replicas": 1, "priority": i} for i in (0, 1)
    ]
    run = played(scaled(independents=members), [250.0] * 2, wants(t0=[20, 20], t1=[20, 20]))
    assert run.ticks[-1].caps == {"ns/t0": 5, "ns/t1": 20}
