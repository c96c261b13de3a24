"""Whole lives of an absolute budget: foreign hands, exclusions, autoscalers, restarts."""

from fractions import Fraction
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ballast.power.absolute import carried
from ballast.power.autoscaled import Autoscaled
from ballast.power.controller import observe, resumed
from ballast.power.controller_state import ControllerState, Sample
from ballast.power.policy import PowerPolicy
from ballast.power.within_budget import fill, shed, watts_of
from tests.worlds.power import examples, feeds, policy, targets

WATTS = (10, 10, 25, 101)


@st.composite
def policies(draw: st.DrawFn) -> PowerPolicy:
    made = []
    for index in range(draw(st.integers(1, 5))):
        low = draw(st.integers(0, 4))
        made.append(
            {
                "ref": f"ns/t{index}",
                "min": low,
                "max": low + draw(st.integers(1, 20)),
                "wattsPerReplica": draw(st.sampled_from(WATTS)),
                "priority": draw(st.integers(-1, 1)),
            }
        )
    keys: dict[str, Any] = {"margin": draw(st.sampled_from([0, 0.02])), "decrease": {}}
    return policy(independents=made, baseWatts=draw(st.sampled_from([0, 40])), **keys)


@st.composite
def lives(draw: st.DrawFn) -> tuple[PowerPolicy, list[tuple[float | None, str, int, str]], frozenset[str]]:
    """A policy, what happens at each tick (watts, a target, a number, a deed), and the autoscaled targets."""
    one = draw(policies())
    names = sorted(one.places)
    feed = draw(feeds(40))
    deeds = st.sampled_from(["", "", "", "", "scale", "leave", "return", "demand", "restart"])
    life = [(watts, draw(st.sampled_from(names)), draw(st.integers(0, 30)), draw(deeds)) for watts in feed]
    return one, life, frozenset(name for name in names if draw(st.integers(0, 2)) == 0)


@examples
@given(lives())
def test_the_load_is_above_the_feed_only_after_another_hand_or_where_minima_forbid(
    life: tuple[PowerPolicy, list[tuple[float | None, str, int, str]], frozenset[str]],
) -> None:
    one, ticks, auto = life
    members = {name: place.member for name, place in one.places.items()}
    counts = {name: member.max for name, member in members.items()}
    demand = {name: member.max for name, member in members.items() if name in auto}
    caps = {name: members[name].max for name in auto}
    away: set[str] = set()
    state = ControllerState()
    for number, (watts, name, value, deed) in enumerate(ticks):
        if deed == "scale" and name not in auto:
            counts[name] = value
        elif deed == "scale":
            demand[name] = value
        elif deed in ("leave", "return"):
            (away.add if deed == "leave" else away.discard)(name)
        elif deed == "restart":
            state = resumed(ControllerState.load(state.dump()))
        for each in auto:
            counts[each] = max(members[each].min, min(demand[each], caps[each]))
        here = {each: caps.get(each, count) for each, count in counts.items() if each not in away}
        scaled = {each: Autoscaled(members[each].max, caps[each], counts[each], demand[each]) for each in auto - away}
        outcome = observe(one, state, Sample.of(15 * number, watts), here, autoscaled=scaled)
        state = outcome.state
        if state.plan is not None:
            for each, count in state.plan.replicas.items():
                if each in auto:
                    caps[each] = count
                    counts[each] = max(members[each].min, min(demand[each], count))
                else:
                    counts[each] = count
            state = state.committed()
        if outcome.reason in ("InvalidSample", "Fallback") or state.measured is None:
            continue
        usable = carried(one, state.measured.confirmed)
        present = [each for each in here if counts[each] or each in auto or not members[each].min]
        drawn = sum(members[each].watts * counts[each] for each in present)
        least = sum(members[each].watts * members[each].min for each in present)
        assert drawn <= max(usable, least)
        bound = [each for each in present if each not in auto]
        assert all(members[each].min <= counts[each] <= members[each].max for each in bound)
        claimed = sum(members[each].watts * (caps[each] if each in auto else counts[each]) for each in present)
        assert claimed <= max(usable, least)


@examples
@given(policies(), st.integers(0, 3000))
def test_at_a_constant_feed_it_comes_to_rest_with_no_more_room_than_the_dead_band(one: PowerPolicy, watts: int) -> None:
    counts = {name: place.member.max for name, place in one.places.items()}
    state, acted = ControllerState(), []
    for number in range(30):
        outcome = observe(one, state, Sample.of(15 * number, watts), counts)
        state = outcome.state
        if state.plan is not None:
            acted.append(number)
            counts, state = dict(state.plan.replicas), state.committed()
    assert not acted or acted[-1] < 10


@examples
@given(targets(watts=True), st.integers(0, 4000))
def test_shed_and_fill_end_within_the_watts_and_never_move_the_wrong_way(found: list[Any], watts: int) -> None:
    if not found:
        return
    limit = Fraction(watts)
    present = {target.name: target.current for target in found}
    lowest = watts_of(found, {target.name: target.minimum for target in found})
    fewer = shed(found, limit, restore_first=True)
    assert watts_of(found, fewer) <= max(limit, lowest)
    assert all(target.minimum <= fewer[target.name] <= target.current for target in found)
    more = fill(found, limit, restore_first=True)
    assert all(target.current <= more[target.name] <= target.maximum for target in found)
    if watts_of(found, present) <= limit:
        assert watts_of(found, more) <= limit
        spare = limit - watts_of(found, more)
        assert all(more[target.name] == target.maximum or target.watts > spare for target in found)
