"""A budget whose policy, targets or memory are not what they were."""

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.actuation.scaling.target_status import Actuator, TargetStatus
from ballast.jobs.power.build_power import own_watts
from ballast.jobs.power.tick_report import IdleReason
from ballast.model.workload import Workload
from ballast.power.controller_state import Reason
from tests.worlds.power import examples, members, policy
from tests.worlds.power_run import PowerRun

SEEN: Any = {"actuator": Actuator.SCALE, "count": 1}
span = st.integers(1, 7)
TWO = members((1, 40), (1, 40))


def power_run(keys: dict[str, Any] | None = None, *, shadow: bool = False, **counts: int) -> PowerRun:
    return PowerRun(policy(**(TWO | (keys or {}))), shadow=shadow, **({"t0": 10, "t1": 10} | counts))


def edited(one: PowerRun, **keys: Any) -> PowerRun:
    """A new process with another policy."""
    one.policy = policy(**(TWO | keys))
    one.begin()
    return one


@pytest.fixture
def one() -> PowerRun:
    return power_run()


def test_a_target_that_left_the_policy_takes_its_share_of_the_power_along(one: PowerRun) -> None:
    one.tick(1000)
    edited(one, **members((1, 40)))
    one.run([1000.0, *[500.0] * 8])
    assert one.cluster.counts == {"ns/t0": 5, "ns/t1": 10}
    one.run([1000.0] * 8)
    assert one.cluster.counts == {"ns/t0": 10, "ns/t1": 10}


def test_a_target_that_came_to_the_policy_brings_its_share(one: PowerRun) -> None:
    edited(one, **members((1, 40)))
    one.tick(1000)
    edited(one)
    one.run([1000.0, *[500.0] * 8])
    assert one.cluster.counts == {"ns/t0": 5, "ns/t1": 5}


def test_a_target_of_other_watts_that_left_takes_them_along() -> None:
    both = {"budget": "anchor", **members((1, 40), (1, 40), wattsPerReplica=25)}
    both["independents"][1]["wattsPerReplica"] = 75
    one = power_run(both)
    one.tick(1000)
    edited(one, budget="anchor", **members((1, 40), wattsPerReplica=25))
    one.run([1000.0, *[500.0] * 8])
    assert one.cluster.counts == {"ns/t0": 5, "ns/t1": 10}


@pytest.mark.parametrize("leaving", [{"problem": "there is none"}, {"problem": "contended"}, {"excluded": "annotated"}])
def test_a_target_that_leaves_while_a_plan_is_open_does_not_leave_its_power_to_the_others(
    leaving: dict[str, Any],
) -> None:
    one = power_run()
    one.run([1000.0, *[700.0] * 4])
    assert one.dies(700, 1, landed=False)
    one.cluster.standing["ns/t1"] = leaving
    one.at += 700
    one.run([1000.0] * 20)
    assert one.cluster.counts == {"ns/t0": 10, "ns/t1": 10}
    one.run([700.0] * 10)
    assert one.cluster.counts == {"ns/t0": 7, "ns/t1": 10}


def test_a_target_that_left_the_policy_while_a_plan_was_open_takes_its_share_along(one: PowerRun) -> None:
    one.run([1000.0, *[700.0] * 4])
    assert one.dies(700, 1, landed=False)
    one.at += 700
    edited(one, **members((1, 40)))
    one.run([1000.0] * 20)
    assert one.cluster.counts == {"ns/t0": 10, "ns/t1": 10}
    one.run([700.0] * 10)
    assert one.cluster.counts == {"ns/t0": 7, "ns/t1": 10}


def test_who_is_away_for_a_moment_at_night_has_its_place_again_in_the_morning(one: PowerRun) -> None:
    one.run([1000.0, *[10.0] * 8])
    one.cluster.standing["ns/t1"] = {"problem": "nobody knows for a moment"}
    one.tick(10)
    one.cluster.standing.clear()
    one.run([10.0, *[1000.0] * 8])
    assert one.cluster.counts == {"ns/t0": 10, "ns/t1": 10}


def test_who_is_excluded_at_night_and_returns_by_day_does_not_multiply_the_budget(one: PowerRun) -> None:
    one.run([1000.0, *[10.0] * 8])
    assert one.cluster.counts == {"ns/t0": 1, "ns/t1": 1}
    one.cluster.standing["ns/t1"] = {"excluded": "annotated"}
    one.run([10.0] * 2)
    one.run([1000.0] * 8)
    assert one.cluster.counts == {"ns/t0": 10, "ns/t1": 1}
    one.cluster.standing.clear()
    one.run([1000.0] * 8)
    one.run([1100.0] * 8)
    assert one.total <= 22


def test_zero_by_hand_at_night_and_ten_by_day_do_not_multiply_the_budget(one: PowerRun) -> None:
    one.run([1000.0, *[10.0] * 8])
    one.cluster.counts["ns/t1"] = 0
    one.run([10.0] * 2)
    one.run([1000.0] * 8)
    one.cluster.counts["ns/t1"] = 10
    one.run([1000.0] * 8)
    one.run([1100.0] * 8)
    assert one.total <= 23


steps = st.lists(
    st.tuples(st.sampled_from([10, 60, 300, 1000, 4000, 9000]), st.sampled_from(["", "ns/t0", "ns/t1", "ns/t2"]), span)
)


@examples
@given(steps)
def test_whoever_was_away_and_whenever_the_measure_is_the_same_afterwards(steps: list[tuple[int, str, int]]) -> None:
    one = PowerRun(policy(**members((1, 60), (1, 60), (1, 60))), t0=10, t1=10, t2=10)
    one.tick(1000)
    for watts, who, ticks in steps:
        if who and one.cluster.standing.pop(who, None) is None:
            one.cluster.standing[who] = {"excluded": "annotated"}
        one.run([float(watts)] * ticks)
    one.cluster.standing.clear()
    anchor = one.tick(1000).state.anchor
    assert anchor is not None
    assert anchor.load / anchor.watts == pytest.approx(30 / 1000)


def test_who_comes_new_at_night_counts_as_by_day(one: PowerRun) -> None:
    edited(one, **members((1, 40)))
    one.run([1000.0, *[10.0] * 8])
    edited(one)
    one.run([10.0, *[1000.0] * 8])
    assert one.cluster.counts["ns/t0"] <= 20
    assert one.total <= 21


def test_a_fallback_is_due_also_when_ballast_restarted_while_the_feed_was_silent() -> None:
    one = power_run({"fallback": {"after": "5m", "policy": "floor"}})
    one.run([1000.0, *[None] * 5])
    one.begin()
    one.run([None] * 19)
    assert one.cluster.writes == []
    one.run([None] * 3)
    assert one.cluster.counts == {"ns/t0": 1, "ns/t1": 1}
    one.run([1000.0] * 8)
    assert one.cluster.counts == {"ns/t0": 10, "ns/t1": 10}


def test_what_was_silent_while_nobody_was_to_act_is_silent_all_the_same() -> None:
    one = power_run({"fallback": {"after": "5m", "policy": "floor"}})
    one.tick(1000)
    for _ in range(25):
        one.tick(None, hold="paused by key paused.power")
    one.run([None] * 2)
    assert one.cluster.counts == {"ns/t0": 1, "ns/t1": 1}


def test_to_be_excluded_is_no_change_by_someone_else(one: PowerRun) -> None:
    one.tick(1000)
    one.cluster.standing["ns/t1"] = {"excluded": "annotated"}
    assert one.tick(1000).decision.foreign == 0
    one.cluster.standing.clear()
    assert one.tick(1000).decision.foreign == 0


def test_before_there_is_anything_to_remember_nothing_is_written(one: PowerRun) -> None:
    one.run([None, None, 0.5])
    assert one.keys.data == {}


def test_what_a_dry_run_would_have_done_is_no_baseline() -> None:
    one = power_run(shadow=True)
    one.run([1000.0, *[500.0] * 8])
    assert sum(one.last.counts.values()) == 10
    one.shadow = one.cluster.dry = False
    one.begin()
    view = one.tick(500)
    assert view.reason == Reason.BOOTSTRAPPED
    assert dict(view.state.baseline) == {"ns/t0": 10, "ns/t1": 10}


@pytest.mark.parametrize("standing", [{"maximum": 10}, {"rolling": True}])
def test_a_fallback_beyond_what_a_target_allows_is_not_planned_again_and_again(standing: dict[str, Any]) -> None:
    one = power_run({"fallback": {"after": "5m", "policy": "replicas", "replicas": {"ns/t1": 15}}})
    one.cluster.standing["ns/t1"] = standing
    one.run([1000.0, *[None] * 30])
    written = one.keys.writes
    one.run([None] * 30)
    assert one.keys.writes == written
    assert one.cluster.writes == []


def test_the_published_model_goes_on_when_its_targets_are_at_their_bounds() -> None:
    one = power_run({"compat": "paper"})
    one.traces = ["ns/t0", "ns/t1"]
    one.run([1000.0, *[10.0] * 8])
    assert one.cluster.counts == {"ns/t0": 1, "ns/t1": 1}
    one.run([5.0] * 8)
    assert one.last.reason != IdleReason.BASELINE
    one.run([100.0] * 8)
    assert one.total > 2


def test_a_new_baseline_of_a_dry_run_is_what_is_really_there() -> None:
    one = power_run(shadow=True)
    one.run([1000.0, *[500.0] * 8])
    assert dict(one.last.counts) == {"ns/t0": 5, "ns/t1": 5}
    view = one.tick(500, confirmed=one.last.inputs.now.wall)
    assert view.reason == Reason.BOOTSTRAPPED
    assert dict(view.counts) == {"ns/t0": 10, "ns/t1": 10}
    assert dict(one.tick(500).counts) == {"ns/t0": 10, "ns/t1": 10}


def test_a_rollout_does_not_stop_a_dry_run() -> None:
    one = power_run(shadow=True)
    one.run([1000.0, *[500.0] * 8])
    one.cluster.standing["ns/t1"] = {"rolling": True}
    view = one.run([300.0] * 8)
    assert view.problem is None
    assert dict(view.counts) == {"ns/t0": 1, "ns/t1": 5}


@pytest.mark.parametrize(
    "keys",
    [
        {"feed": {"query": "other_watts", "semantics": "limit"}},
        {"feed": {"query": "sun_watts", "semantics": "available", "unit": "kW"}},
        {"basePower": 300},
        {"budget": "anchor", **members((1, 40), (1, 40), wattsPerReplica=50)},
    ],
)
def test_numbers_that_mean_something_else_now_are_a_new_beginning(keys: dict[str, Any]) -> None:
    feed = {"feed": {"query": "sun_watts", "semantics": "available"}}
    one = power_run(feed)
    one.tick(1000)
    edited(one, **{**feed, **keys})
    view = one.tick(1000)
    assert view.reason == Reason.BOOTSTRAPPED
    one.run([1000.0] * 8)
    assert one.cluster.writes == []
    one.run([700.0] * 8)
    assert one.total < 20


def test_a_new_meaning_waits_for_a_word_where_ballast_put_a_target_at_its_bound() -> None:
    one = power_run({"feed": {"query": "sun_watts", "semantics": "available"}})
    one.traces = ["ns/t0", "ns/t1"]
    one.run([1000.0, *[10.0] * 8])
    edited(one, feed={"query": "other_watts", "semantics": "limit"})
    view = one.tick(10)
    assert view.reason == IdleReason.BASELINE
    assert "the policy's feed" in (view.decision.rebaselining or "")
    one.begin()
    assert one.tick(10).reason == IdleReason.BASELINE
    assert one.tick(10, confirmed=one.last.inputs.now.wall).reason == Reason.BOOTSTRAPPED


def test_a_nominal_that_is_set_later_counts_from_then_on(one: PowerRun) -> None:
    one.tick(1000)
    edited(one, nominal={"watts": 2000, "replicas": 20})
    one.run([1000.0] * 8)
    assert one.total == 10


def test_a_feed_that_is_only_read_with_more_patience_means_the_same() -> None:
    feed = {"query": "sun_watts", "semantics": "available"}
    one = power_run({"feed": feed})
    one.tick(1000)
    edited(one, feed={**feed, "maxAge": "20s", "expectSeries": 2})
    assert one.tick(1000).reason == Reason.INSIDE


def test_lost_state_waits_also_at_a_bound_of_the_object_itself() -> None:
    one = power_run(t0=3)
    one.traces = ["ns/t0"]
    one.cluster.standing["ns/t0"] = {"minimum": 3}
    assert one.tick(10).reason == IdleReason.BASELINE


@pytest.mark.parametrize(
    ("key", "old", "new"),
    [
        ("power.state.power", '"1000"', '"1/0"'),
        ("power.state.power", '"1000"', '"0"'),
        ("power.state.power", '"1000"', '"-5"'),
        ("power.state.power", '"ns/t0":10', '"ns/t0":-10'),
    ],
)
def test_state_with_impossible_numbers_counts_as_lost(one: PowerRun, key: str, old: str, new: str) -> None:
    one.tick(1000)
    assert old in one.keys.data[key]
    one.keys.data[key] = one.keys.data[key].replace(old, new)
    one.begin()
    assert one.tick(1000).reason == Reason.BOOTSTRAPPED


def test_a_plan_of_the_future_is_dropped(one: PowerRun) -> None:
    one.run([1000.0, *[700.0] * 4])
    assert one.dies(700, 1, landed=False)
    one.at -= 3600
    view = one.tick(1000)
    assert "future" in (view.problem or "")
    assert one.total == 20


def test_what_the_targets_use_is_known_also_when_one_is_not_there_and_unknown_when_one_is_not_seen() -> None:
    one = policy(budget="anchor", **members((1, 9), (1, 9), (1, 9), wattsPerReplica=50))
    counted = Workload("Deployment", "ns", "t0", replicas=4, present=3)
    silent = Workload("Widget", "ns", "t1", replicas=None)

    def used(gone: int | None) -> Fraction | None:
        made = ({"workload": counted, "replicas": 4}, {"workload": silent, "replicas": 2}, {"replicas": gone})
        found = {f"ns/t{i}": TargetStatus(name=f"ns/t{i}", kind="", **each, **SEEN) for i, each in enumerate(made)}
        return own_watts(one, SimpleNamespace(read=lambda policy: found))  # type: ignore[arg-type]

    assert used(0) == (3 + 2) * 50
    assert used(None) is None
