"""Who gets the watts back: higher priorities first, also in the place of lower ones, and at rest nobody swaps."""

from fractions import Fraction
from itertools import accumulate
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ballast.power.controller import observe
from ballast.power.controller_state import ControllerState, FeedHistory, Sample
from ballast.power.policy import PowerPolicy
from tests.worlds.power import examples, follow, policy

FEED_LASTS = 7
"""Ticks of 15 s: the window of 60 s, one tick in which lower priorities give, one in which the higher one rises."""


def absolute(*members: dict[str, Any], **keys: Any) -> PowerPolicy:
    return policy(independents=list(members), **{"margin": 0, "increase": {}, "decrease": {}, **keys})


def test_a_ramp_ends_with_all_of_the_high_priority() -> None:
    one = absolute(
        {"ref": "ns/llm", "min": 1, "max": 8, "priority": 10, "wattsPerReplica": 700, "replicas": 8},
        {"ref": "ns/light", "min": 0, "max": 100, "wattsPerReplica": 50, "replicas": 0},
    )
    ramp = [min(5800.0, 1400 * 1.06**step) for step in range(26) for _ in range(8)]
    run = follow(one, [*[5800.0] * 8, *[1400.0] * 8, *ramp, *[5800.0] * 50], llm=8, light=0)
    assert dict(run.ticks[-1].replicas) == {"ns/llm": 8, "ns/light": 4}
    assert run.over.share < Fraction(1, 100)


def test_a_bad_minute_at_the_edge_does_not_swap_again_and_again() -> None:
    one = absolute(
        {"ref": "ns/llm", "min": 0, "max": 2, "priority": 10, "wattsPerReplica": 700, "replicas": 2},
        {"ref": "ns/light", "min": 0, "max": 20, "wattsPerReplica": 50, "replicas": 0},
    )
    edge = [watts for _ in range(20) for watts in [1395.0] * 8 + [1405.0] * 8]
    run = follow(one, [1405.0] * 8 + edge, llm=2, light=0)
    assert run.actions <= 4
    assert follow(one, [1405.0] * 8 + [1395.0] * 8 + [1405.0] * 60, llm=2, light=0).ticks[-1].replicas["ns/llm"] == 2


def test_what_the_feed_carries_steadily_is_used_whatever_the_dead_band() -> None:
    one = absolute({"ref": "ns/gpu", "min": 0, "max": 5, "wattsPerReplica": 1000}, deadband=0.3)
    run = follow(one, [4000.0] * 4 + [5000.0] * 60, gpu=4)
    totals = [tick.total for tick in run.ticks]
    assert (totals[42], totals[46], run.actions) == (4, 5, 1)


@st.composite
def feeds_of_steps(draw: st.DrawFn) -> list[int]:
    """Ramps, stairs and walks: levels that each last longer than a rise takes."""
    start = draw(st.integers(0, 4000))
    kind = draw(st.sampled_from(["walk", "ramp", "stairs"]))
    steps = {
        "walk": st.integers(-500, 500),
        "ramp": st.just(draw(st.integers(-200, 200))),
        "stairs": st.sampled_from([-1500, 0, 1500]),
    }[kind]
    changes = draw(st.lists(steps, min_size=4, max_size=12))
    return [min(max(level, 0), 5000) for level in accumulate(changes, initial=start)]


@st.composite
def worlds(draw: st.DrawFn) -> PowerPolicy:
    members = []
    for index in range(draw(st.integers(2, 4))):
        low, more = draw(st.integers(0, 2)), draw(st.integers(1, 15))
        watts = draw(st.sampled_from([10, 25, 50, 101, 700]))
        members.append(
            {
                "ref": f"ns/t{index}",
                "min": low,
                "max": low + more,
                "wattsPerReplica": watts,
                "priority": draw(st.integers(0, 2)),
                "replicas": low + draw(st.integers(0, more)),
            }
        )
    return absolute(*members)


@examples
@given(worlds(), feeds_of_steps())
def test_after_a_window_no_lower_one_has_what_a_higher_one_below_its_baseline_would_fit_into(
    one: PowerPolicy, levels: list[int]
) -> None:
    members = {name: place.member for name, place in one.places.items()}
    counts = {name: member.start for name, member in members.items()}
    if any(count == 0 and members[name].min for name, count in counts.items()):
        return
    baseline, state = dict(counts), ControllerState()
    ticks = [watts for watts in levels for _ in range(FEED_LASTS)] + [levels[-1]] * 50
    changed = 0
    for number, watts in enumerate(ticks):
        state = observe(one, state, Sample.of(15 * number, watts), counts).state
        if state.plan is not None:
            changed, counts, state = number, dict(state.plan.replicas), state.committed()
        if number % FEED_LASTS != FEED_LASTS - 1 and number < len(ticks) - 1:
            continue
        band = Fraction(1) if number == len(ticks) - 1 else 1 + one.deadband
        for name, member in members.items():
            lower = [other for other in members.values() if other.priority < member.priority]
            given_back = sum(((counts[low.name] - low.min) * low.watts for low in lower), Fraction(0))
            below = counts[name] < min(baseline[name], member.max)
            in_place = one.drawn(counts) - given_back + member.watts
            assert not (below and given_back and in_place * band <= watts), (number, name, counts)
    assert len(ticks) - changed > 5, "at constant watts it comes to rest"


@given(st.lists(st.integers(0, 5), min_size=2, max_size=40), st.integers(1, 8))
def test_the_history_knows_the_lowest_level_of_any_window(levels: list[int], length: int) -> None:
    history = FeedHistory.begun(Fraction(0), Fraction(levels[0]))
    for at, level in enumerate(levels[1:], 1):
        history = history.add(Fraction(at), Fraction(level), fresh=True, keep=Fraction(8))
        # A level holds until the next one, so the one in force when the window begins counts.
        lowest = min(levels[max(0, at - length) : at + 1])
        known = history.low(Fraction(at), Fraction(length))
        assert known == (lowest if at >= length else None)
