from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.model.node import Taint
from ballast.publishing.label_plan import LabelPlanner, PublishedKeys
from ballast.publishing.load_taint import LoadTaint, percent, unknown, value_of

from .test_planning import CALM, NOTHING, START, applied, run
from .worlds import KEYS, RULES, snapshot_of

EFFECT = "PreferNoSchedule"
ASKED = replace(RULES, load_taint=EFFECT)
LOADS = st.floats(0, 1.4)


def taint(value: int | str, effect: str = EFFECT) -> Taint:
    return Taint(KEYS.load, effect, str(value))


def with_load(value: int | str, effect: str = EFFECT) -> PublishedKeys:
    return replace(NOTHING, load_taints=(taint(value, effect),))


@pytest.mark.parametrize(
    ("load", "value"), [(0.0, 0), (0.001, 5), (0.05, 5), (0.57, 60), (0.6, 60), (0.7, 70), (0.7001, 75), (1.02, 105)]
)
def test_a_value_is_the_percent_rounded_up(load: float, value: int) -> None:
    assert percent(load) == value


@pytest.mark.parametrize(
    ("values", "number"),
    [((), None), (("busy",), None), (("-5",), None), (("٣",), None), (("35", "40"), 40), ((str(2**63),), None)],
    ids=["none", "a word", "negative", "other digits", "two", "too large"],
)
def test_only_numbers_of_a_taint_count(values: tuple[str, ...], number: int | None) -> None:
    assert value_of([taint(value) for value in values]) == number


def test_it_rises_at_once_and_falls_after_two_cycles_below_the_margin() -> None:
    plans, state = run(
        LabelPlanner(KEYS, ASKED), [(load, 50) for load in (0.58, 0.61, 0.59, 0.56, 0.6, 0.55, 0.55)], NOTHING
    )
    values = [[taint.value for change in plan for taint in change.load_taints or ()] for plan in plans]
    assert values == [["60"], ["65"], [], [], [], [], ["55"]]
    assert state.load_taints == (taint(55),)


@given(st.lists(LOADS, min_size=1, max_size=40), st.integers(0, 30))
def test_a_value_never_says_less_than_the_load_and_not_much_more(loads: list[float], begin: int) -> None:
    of_node = LoadTaint(0.05, gap=75.0, value=5 * begin)
    for cycle, load in enumerate(loads):
        value = of_node.observe(30.0 * cycle, load)
        assert value is not None
        assert value >= 100 * load - 1e-4
        assert value % 5 == 0
    for cycle in (1, 2):
        value = of_node.observe(30.0 * (len(loads) + cycle), loads[-1])
    assert value is not None
    assert value <= 100 * loads[-1] + 15


@given(st.lists(LOADS, min_size=1, max_size=40))
def test_what_is_applied_is_never_asked_for_again(loads: list[float]) -> None:
    planner = LabelPlanner(KEYS, ASKED)
    _, state = run(planner, [(load, 50) for load in loads], NOTHING)
    at = (len(loads) - 1) * 30.0
    assert planner.plan(snapshot_of({"a": (loads[-1], 0.1)}, at=START + at), {"a": 50}, {"a": state}, CALM, at) == []


def test_a_restart_and_a_foreign_edit() -> None:
    _, settled = run(LabelPlanner(KEYS, ASKED), [(0.58, 50)], NOTHING)
    planner = LabelPlanner(KEYS, ASKED)
    plans, state = run(planner, [(0.56, 50), (0.56, 50)], settled)
    assert (plans, state) == ([[], []], settled)
    _, state = run(planner, [(0.56, 50)], replace(settled, load_taints=(taint(5), taint(90, "NoExecute"))))
    assert state.load_taints == (taint(60),)


def test_another_effect_replaces_the_one_before_and_none_removes_it() -> None:
    _, state = run(LabelPlanner(KEYS, replace(ASKED, load_taint="NoSchedule")), [(0.58, 50)], with_load(65))
    assert state.load_taints == (taint(65, "NoSchedule"),)
    _, state = run(LabelPlanner(KEYS, RULES), [(0.58, 50)], state)
    assert state.load_taints == ()


def test_lost_data_never_makes_a_node_better() -> None:
    planner, gone = LabelPlanner(KEYS, ASKED), snapshot_of({"a": None})
    state = {"a": with_load(35)}
    for now, value in ((0.0, 35), (3599.0, 35), (3600.0, 100), (9000.0, 100)):
        state = applied(state, planner.plan(gone, {"a": None}, state, CALM, now))
        assert state["a"].load_taints == (taint(value),), now
    plans, after = run(planner, [(0.35, 60)] * 2, state["a"])
    assert [bool(change.load_taints) for plan in plans for change in plan] == [False, True]
    assert after.load_taints == (taint(35),)


def test_a_node_nobody_measures_counts_as_full_and_a_young_one_waits() -> None:
    planner = LabelPlanner(KEYS, ASKED)
    gone = snapshot_of({"a": None, "b": None}, young=["b"])
    (change,) = planner.plan(gone, {"a": None, "b": None}, {"a": NOTHING, "b": NOTHING}, CALM, 0.0)
    assert (change.node, change.load_taints) == ("a", (taint(100),))


def test_a_freeze_changes_no_value_not_even_when_it_forgets() -> None:
    frozen = CALM.after(0.5, 0.0)
    snapshot = snapshot_of({"a": (0.95, 0.1), "b": None})
    carried = {"a": with_load(35), "b": with_load(120)}
    for now in (10.0, 3600.0):
        changes = LabelPlanner(KEYS, ASKED).plan(snapshot, {"a": 5, "b": None}, carried, frozen, now)
        assert [change.load_taints for change in changes] == [None] * len(changes)


def test_the_worst_of_what_is_known() -> None:
    assert [unknown([taint(value)], worse=True) for value in (35, 120, "busy")] == [100, 120, 100]
