import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ballast.model.node import Node
from ballast.publishing.freeze import Freeze
from ballast.publishing.label_plan import PIECE, LabelPlanner, NodeChange, PublishedKeys
from ballast.publishing.node_keys import window_annotation, window_end

from .worlds import KEYS, RULES, snapshot_of

CALM = Freeze(max_unknown=0.2, forget_after=3600.0)
NOTHING = PublishedKeys(None, None, None, tainted=False)
START = 1_700_000_000.0


def applied(carried: dict[str, PublishedKeys], changes: list[NodeChange]) -> dict[str, PublishedKeys]:
    """What the nodes carry after the patches."""
    result = dict(carried)
    for change in changes:
        old = result[change.node]
        result[change.node] = PublishedKeys(
            change.labels.get(KEYS.score, old.score),
            change.labels.get(KEYS.load, old.load),
            change.annotations.get(KEYS.window, old.window),
            old.tainted if change.taint is None else change.taint,
            old.load_taints if change.load_taints is None else change.load_taints,
        )
    return result


def run(
    planner: LabelPlanner, loads: list[tuple[float, int]], carried: PublishedKeys, *, step: float = 30.0
) -> tuple[list[list[NodeChange]], PublishedKeys]:
    """Cycles of one node with a (cpu load, score) each."""
    plans, state = [], {"a": carried}
    for cycle, (load, score) in enumerate(loads):
        snapshot = snapshot_of({"a": (load, 0.1)}, at=START + cycle * step)
        plans.append(planner.plan(snapshot, {"a": score}, state, CALM, cycle * step))
        state = applied(state, plans[-1])
    return plans, state["a"]


def test_a_plan_of_many_nodes_is_made_in_pieces() -> None:
    names, pauses = [f"n{number}" for number in range(2 * PIECE + 1)], list[int]()
    planner = LabelPlanner(KEYS, RULES, between=lambda: pauses.append(1))
    plan = planner.plan(
        snapshot_of(dict.fromkeys(names, (0.5, 0.1)), at=START),
        dict.fromkeys(names, 74),
        dict.fromkeys(names, NOTHING),
        CALM,
        0.0,
    )
    assert (len(plan), len(pauses)) == (len(names), 3)


def test_a_first_known_node_gets_everything_in_one_patch() -> None:
    plans, state = run(LabelPlanner(KEYS, RULES), [(0.5, 74)] * 3, NOTHING)
    assert [len(plan) for plan in plans] == [1, 0, 0]
    assert (state.score, state.load) == ("18", "normal")
    assert state.window is not None
    assert window_end(state.window) == START


def test_a_restart_changes_nothing_that_is_right() -> None:
    _, settled = run(LabelPlanner(KEYS, RULES), [(0.5, 74)], NOTHING)
    plans, state = run(LabelPlanner(KEYS, RULES), [(0.5, 76), (0.5, 77), (0.5, 77)], settled)
    assert plans == [[], [], []]
    assert state == settled


def test_a_score_moves_after_six_minutes_and_a_jump_at_once() -> None:
    _, settled = run(LabelPlanner(KEYS, RULES), [(0.5, 70)], NOTHING)
    plans, state = run(LabelPlanner(KEYS, RULES), [(0.5, 78)] * 13, settled)
    assert [len(plan) for plan in plans] == [0] * 12 + [1]
    assert state.score == "19"
    plans, state = run(LabelPlanner(KEYS, RULES), [(0.5, 50)], settled)
    assert [len(plan) for plan in plans] == [1]
    assert state.score == "12"


def test_the_annotation_rides_along_and_is_refreshed_when_old() -> None:
    planner = LabelPlanner(KEYS, RULES)
    plans, _ = run(planner, [(0.5, 70)] * 122, NOTHING)
    written = [cycle for cycle, plan in enumerate(plans) if plan]
    assert len(written) == 2
    assert 0.9 * 3600 <= written[1] * 30 <= 3600
    assert plans[written[1]][0].labels == {}


def test_a_foreign_edit_is_put_right() -> None:
    planner = LabelPlanner(KEYS, RULES)
    _, settled = run(planner, [(0.5, 70)], NOTHING)
    plans, state = run(planner, [(0.5, 70)], replace(settled, score="3"))
    assert len(plans[0]) == 1
    assert state.score == "17"


def test_an_unreadable_label_counts_as_none() -> None:
    _, state = run(LabelPlanner(KEYS, RULES), [(0.5, 70)], PublishedKeys("eleven", "busy", "{", tainted=False))
    assert (state.score, state.load) == ("17", "normal")


def test_a_silent_node_loses_what_was_published() -> None:
    _, settled = run(LabelPlanner(KEYS, RULES), [(0.95, 20)], NOTHING)
    settled = replace(settled, tainted=True)
    planner, gone = LabelPlanner(KEYS, RULES), snapshot_of({"a": None})
    (change,) = planner.plan(gone, {"a": None}, {"a": settled}, CALM, 0.0)
    state = applied({"a": settled}, [change])["a"]
    assert state == PublishedKeys(None, "unknown", None, tainted=True)
    assert planner.plan(gone, {"a": None}, {"a": state}, CALM, 3599.0) == []
    (change,) = planner.plan(gone, {"a": None}, {"a": state}, CALM, 3600.0)
    assert change.taint is False
    assert not change.labels


def test_a_taint_stays_while_the_node_is_not_known_and_until_it_is_below() -> None:
    rules = replace(RULES, taint=True)
    planner = LabelPlanner(KEYS, rules)
    _, hot = run(planner, [(0.95, 20)] * 3, NOTHING)
    assert hot.tainted
    (change,) = planner.plan(snapshot_of({"a": None}), {"a": None}, {"a": hot}, CALM, 100.0)
    state = applied({"a": hot}, [change])["a"]
    assert state == PublishedKeys(None, "unknown", None, tainted=True)
    plans, state = run(planner, [(0.95, 20), (0.4, 60), (0.4, 60)], state)
    assert [[change.taint for change in plan] for plan in plans] == [[None], [None], [False]]


def test_a_new_node_under_an_old_name_inherits_no_debounce() -> None:
    planner = LabelPlanner(KEYS, RULES)
    old, new = ({"a": Node(name="a", uid=uid)} for uid in ("1", "2"))
    planner.plan(snapshot_of({"a": (0.7, 0.1)}, nodes=old), {"a": 60}, {"a": NOTHING}, CALM, 0.0)
    (change,) = planner.plan(snapshot_of({"a": (0.85, 0.1)}, nodes=new), {"a": 55}, {"a": NOTHING}, CALM, 30.0)
    assert change.labels == {KEYS.score: "13", KEYS.load: "high"}


def test_a_young_node_keeps_its_keys_until_they_are_forgotten() -> None:
    planner = LabelPlanner(KEYS, RULES)
    _, settled = run(planner, [(0.5, 70)], NOTHING)
    snapshot = snapshot_of({"a": None}, young=["a"])
    assert planner.plan(snapshot, {"a": None}, {"a": settled}, CALM, 100.0) == []
    assert planner.plan(snapshot, {"a": None}, {"a": settled}, CALM, 3699.0) == []
    (change,) = planner.plan(snapshot, {"a": None}, {"a": settled}, CALM, 3700.0)
    assert change.labels == {KEYS.score: None, KEYS.load: "unknown"}


def test_a_freeze_writes_nothing_and_then_withdraws_from_all() -> None:
    planner = LabelPlanner(KEYS, RULES)
    _, settled = run(planner, [(0.5, 70)], NOTHING)
    frozen = CALM.after(0.5, 0.0)
    snapshot = snapshot_of({"a": (0.95, 0.1), "b": None})
    carried = {"a": settled, "b": settled}
    scores = {"a": 5, "b": None}
    assert planner.plan(snapshot, scores, carried, frozen, 3599.0) == []
    changes = planner.plan(snapshot, scores, carried, frozen, 3600.0)
    assert {change.node for change in changes} == {"a", "b"}
    assert all(change.labels == {KEYS.score: None, KEYS.load: "unknown"} for change in changes)


def test_the_class_is_debounced_with_hysteresis() -> None:
    _, settled = run(LabelPlanner(KEYS, RULES), [(0.7, 60)], NOTHING)
    plans, state = run(
        LabelPlanner(KEYS, RULES), [(0.85, 60), (0.75, 60), (0.85, 60), (0.85, 60), (0.77, 60), (0.77, 60)], settled
    )
    assert [len(plan) for plan in plans] == [0, 0, 0, 1, 0, 0]
    assert state.load == "high"


def test_the_taint_is_its_own_part_of_the_change_and_only_when_asked() -> None:
    rules = replace(RULES, taint=True)
    plans, state = run(LabelPlanner(KEYS, rules), [(0.95, 20)] * 3, NOTHING)
    assert state.tainted
    plans, state = run(LabelPlanner(KEYS, rules), [(0.86, 20), (0.84, 20), (0.84, 20)], state)
    assert [[change.taint for change in plan] for plan in plans] == [[], [], [False]]
    _, state = run(LabelPlanner(KEYS, RULES), [(0.95, 20)] * 3, NOTHING)
    assert not state.tainted
    _, state = run(LabelPlanner(KEYS, RULES), [(0.95, 20)], replace(state, tainted=True))
    assert not state.tainted


def test_a_node_with_one_known_resource_is_published() -> None:
    snapshot = snapshot_of({"a": (float("nan"), 0.4)})
    (change,) = LabelPlanner(KEYS, RULES).plan(snapshot, {"a": 80}, {"a": NOTHING}, CALM, 0.0)
    assert change.labels == {KEYS.score: "19", KEYS.load: "normal"}
    annotation = json.loads(change.annotations[KEYS.window] or "")
    assert set(annotation) == {"v", "end", "length", "memory"}


def test_the_annotation_is_word_for_word() -> None:
    text = window_annotation(snapshot_of({"a": (0.42134, 0.5)}, at=1_700_000_010.0), 0)
    assert text == (
        '{"cpu":{"cov":1.0,"mean":0.4213,"n":60,"std":0.0},"end":"2023-11-14T22:13:30Z","length":900,'
        '"memory":{"cov":1.0,"mean":0.5,"n":60,"std":0.0},"v":1}'
    )


@given(st.lists(st.tuples(st.floats(0, 1.2), st.integers(0, 100)), min_size=1, max_size=40))
def test_what_is_applied_is_never_asked_for_again(cycles: list[tuple[float, int]]) -> None:
    planner = LabelPlanner(KEYS, RULES)
    _, state = run(planner, cycles, NOTHING)
    last = cycles[-1]
    snapshot = snapshot_of({"a": (last[0], 0.1)}, at=START + (len(cycles) - 1) * 30)
    assert planner.plan(snapshot, {"a": last[1]}, {"a": state}, CALM, (len(cycles) - 1) * 30.0) == []
