"""The daemon under an absolute budget: foreign hands, autoscalers, rollouts, pods that do not come, failing writes."""

from fractions import Fraction
from typing import Any

import pytest

from ballast.actuation.scaling.target_status import Actuator
from ballast.jobs.power import budget
from ballast.jobs.power.budget import PolicyController
from ballast.jobs.power.store import PowerStore
from ballast.jobs.power.tick_report import IdleReason, TickContext, TickReport
from ballast.model.workload import Autoscaler, Workload
from ballast.power.controller_state import Reason
from ballast.power.feed_spec import Schedule
from ballast.power.learned_watts import WattsLearner
from ballast.power.plausible import IMPOSSIBLE
from ballast.power.sections import Need
from ballast.power.verification import SAMPLES
from ballast.telemetry.feeds.budget_feed import Watts
from tests.worlds.power import policy
from tests.worlds.power_run import WALL, PowerRun


def power_run(*members: dict[str, Any], shadow: bool = False, **keys: Any) -> PowerRun:
    """Targets ns/t0, ns/t1, … of 10 W and 1..40 replicas, 10 at the start, unless told otherwise; no margin."""
    made = [
        {"ref": f"ns/t{i}", "max": 40, "wattsPerReplica": 10, "replicas": 10, **each} for i, each in enumerate(members)
    ]
    return PowerRun(policy(**{"independents": made, "margin": 0, "decrease": {}, **keys}), shadow=shadow)


def hpa(one: PowerRun, name: str, *, running: int, most: int = 40, **keys: Any) -> None:
    """An autoscaler on this target; the count of the cluster is its cap."""
    cap = one.cluster.counts.get(name, most)
    autoscaler = Autoscaler("ns", "Deployment", name, own_name=name, maximum=cap, desired=running)
    one.cluster.standing[name] = {
        "actuator": Actuator.HPA_CAP,
        "autoscaler": autoscaler,
        "replicas": min(running, cap),
        "minimum": 1,
        "maximum": most,
        "original": most,
        "capped": cap < most,
        **keys,
    }


@pytest.fixture
def one() -> PowerRun:
    return power_run({}, {})


def test_a_fall_changes_caps_first_then_by_priority_then_the_most_watts() -> None:
    members = [{"priority": 5}, {}, {"wattsPerReplica": 30}, {"priority": 9, "max": 10}]
    one = power_run(*members, confirm={"below": 0.01})
    hpa(one, "ns/t3", running=10, most=10)
    one.run([600.0] * 2)
    one.cluster.writes.clear()
    one.tick(0.0)
    assert one.cluster.counts == {"ns/t0": 1, "ns/t1": 1, "ns/t2": 1, "ns/t3": 1}
    assert [name for name, _ in one.cluster.writes] == ["ns/t3", "ns/t2", "ns/t1", "ns/t0"]


def test_a_new_fall_overtakes_the_rest_of_a_long_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "BATCH", 2)
    one = power_run(*({"priority": number // 2} for number in range(6)))
    one.run([620.0] * 2)
    report = one.tick(400.0, time_left=lambda: False)
    assert [name for name, _ in one.cluster.writes] == ["ns/t0", "ns/t1"]
    assert "2 more targets follow" in report.words
    # The feed falls further: the rest is not carried out as it was planned.
    report = one.tick(100.0)
    assert "gives way to what the watts carry now" in (report.problem or "")
    one.tick(100.0)
    assert 10 * one.total <= 100


def test_the_rest_of_a_long_fall_follows_in_the_next_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "BATCH", 2)
    one = power_run(*({} for _ in range(6)))
    one.run([620.0] * 2)
    one.tick(320.0, time_left=lambda: False)
    one.tick(320.0)
    assert 10 * one.total <= 320
    assert one.keys.data.get("power.plan.power") is None


def test_a_re_created_target_is_brought_back_at_once() -> None:
    """Deleted and applied again at night with its manifest's replicas."""
    one = power_run({}, {})
    one.run([200.0] * 3)
    one.cluster.counts["ns/t0"] = 0
    one.run([60.0] * 3)
    one.cluster.counts["ns/t0"] = 10
    one.tick(60.0)
    assert 10 * one.total <= 60


def test_over_the_budget_is_said_with_the_watts() -> None:
    one = power_run({"min": 8}, {"min": 8})
    view = one.tick(100.0)
    assert (view.outcome.load, view.over) == (160, 60)
    assert one.cluster.counts == {"ns/t0": 8, "ns/t1": 8}
    assert (view.decision.limit, view.decision.unmet) == ("AtMin", -6)
    assert one.tick(100.0).decision.limit == "AtMin"
    assert one.tick(200.0).over is None


def test_one_bad_scrape_seen_by_four_ticks_is_no_emergency() -> None:
    one = power_run({})

    def tick(watts: int, scraped: float) -> None:
        one.at += 15
        one.budget.cycle(TickContext(Fraction(one.at), WALL + one.at), Watts(Fraction(watts), WALL + scraped))

    for scraped in range(0, 180, 60):
        for _ in range(4):
            tick(0 if scraped == 60 else 400, scraped)
    assert one.total >= 10


def test_emergencies_of_an_anchor_go_by_scrapes_not_by_ticks() -> None:
    drop = {"relative": 0.5, "samples": 2}
    one = PowerRun(policy(emergencyDrop=drop, independents=[{"ref": "ns/t0", "max": 20}]))
    for at, watts, scraped in ((15, 1000, 0), (30, 0, 20), (45, 0, 20), (60, 0, 20), (75, 0, 80)):
        one.budget.cycle(TickContext(Fraction(at), WALL + at), Watts(Fraction(watts), WALL + scraped))
        assert one.total == (1 if at == 75 else 20)


def test_an_excluded_target_goes_on_drawing_its_watts(one: PowerRun) -> None:
    one.cluster.standing["ns/t0"] = {"excluded": "annotation"}
    one.run([150.0] * 3)
    assert one.cluster.counts == {"ns/t0": 10, "ns/t1": 5}
    free = power_run({}, {}, allowExclude=True)
    free.cluster.standing["ns/t0"] = {"excluded": "annotation"}
    free.run([150.0] * 3)
    assert free.cluster.counts == {"ns/t0": 10, "ns/t1": 10}


def test_an_exclusion_that_ends_leaves_nothing_above_the_feed() -> None:
    one = power_run({}, {}, allowExclude=True)
    one.cluster.standing["ns/t0"] = {"excluded": "annotation"}
    one.run([100.0] * 3)
    assert one.cluster.counts == {"ns/t0": 10, "ns/t1": 10}
    one.cluster.standing.clear()
    one.tick(100.0)
    assert one.total == 10


def test_a_rollout_shrinks_like_any_other_and_does_not_grow(one: PowerRun) -> None:
    one.cluster.standing["ns/t0"] = {"rolling": True}
    one.run([100.0] * 2)
    assert one.cluster.counts == {"ns/t0": 5, "ns/t1": 5}
    one.run([300.0] * 8)
    assert one.cluster.counts["ns/t0"] == 5
    assert one.cluster.counts["ns/t1"] == 25


def test_a_target_whose_writes_fail_leaves_its_part_to_the_others(one: PowerRun) -> None:
    one.cluster.refusing.add("ns/t0")
    one.run([100.0] * 3)
    assert one.cluster.counts == {"ns/t0": 10, "ns/t1": 1}


def test_replicas_that_must_be_ready_first_hold_a_reduction() -> None:
    one = power_run({"minReady": 4}, {})
    workload = Workload("Deployment", "ns", "t0", ready=3)
    one.cluster.standing["ns/t0"] = {"workload": workload}
    one.run([120.0] * 2)
    assert one.cluster.counts == {"ns/t0": 10, "ns/t1": 2}
    one.cluster.standing["ns/t0"] = {"workload": Workload("Deployment", "ns", "t0", ready=9)}
    one.run([50.0] * 3)
    assert one.cluster.counts["ns/t0"] == 4


def test_every_autoscaler_is_capped_in_a_shortage_also_an_idle_one(one: PowerRun) -> None:
    one.cluster.counts = {"ns/t0": 40, "ns/t1": 40}
    for name, running in (("ns/t0", 20), ("ns/t1", 1)):
        hpa(one, name, running=running)
    one.tick(1000.0)
    assert one.cluster.counts == {"ns/t0": 40, "ns/t1": 40}
    one.tick(500.0)
    assert sum(one.cluster.counts.values()) <= 50
    assert one.cluster.counts["ns/t1"] < 40
    for name, running in (("ns/t0", 20), ("ns/t1", 39)):
        hpa(one, name, running=running)
    one.tick(500.0)
    assert sum(one.cluster.counts.values()) <= 50
    assert one.cluster.counts["ns/t1"] >= 20
    for name, running in (("ns/t0", 20), ("ns/t1", 39)):
        hpa(one, name, running=running)
    one.run([1000.0] * 8)
    assert one.cluster.counts == {"ns/t0": 40, "ns/t1": 40}


def test_an_autoscaler_that_ignores_its_cap_counts_with_what_it_runs_and_the_others_give() -> None:
    one = power_run({}, {})
    one.cluster.counts = {"ns/t0": 40, "ns/t1": 10}
    hpa(one, "ns/t0", running=20)
    one.run([500.0] * 3)
    for _ in range(6):
        hpa(one, "ns/t0", running=24)
        one.cluster.standing["ns/t0"]["replicas"] = 24
        one.tick(260.0)
    assert one.cluster.counts["ns/t0"] < 24
    assert one.cluster.counts["ns/t1"] == 2
    assert one.last.outcome.load == 260
    one.cluster.standing["ns/t0"]["replicas"] = one.cluster.counts["ns/t0"]
    one.run([260.0] * 6)
    assert one.total == 26


def test_what_an_autoscaler_wants_beyond_its_cap_is_unmet_demand() -> None:
    one = power_run({})
    one.cluster.counts = {"ns/t0": 40}
    hpa(one, "ns/t0", running=30)
    assert one.tick(200.0).outcome.unmet_demand == 10


@pytest.mark.parametrize("budget", ["absolute", "anchor"])
def test_an_autoscaler_that_goes_down_by_itself_is_no_change_to_undo(budget: str) -> None:
    one = power_run({}, budget=budget, onForeignChange="enforce")
    one.cluster.counts = {"ns/t0": 40 if budget == "absolute" else 10}
    for running in (10, 10, 5, 5, 5, 5):
        if budget == "anchor":
            one.cluster.counts["ns/t0"] = running
        hpa(one, "ns/t0", running=running, maximum=40, capped=False)
        view = one.tick(1000.0)
        assert view.reason != Reason.FOREIGN_CHANGE
    assert one.cluster.writes == []


def test_what_someone_stopped_and_started_again_is_not_stopped_once_more() -> None:
    one = PowerRun(policy(onForeignChange="enforce", independents=[{"ref": "ns/t0", "min": 2, "max": 20}]), t0=10)
    one.run([1000.0] * 2)
    for count in (0, 0, 5, 5):
        one.cluster.counts["ns/t0"] = count
        one.tick(1000.0)
        assert one.cluster.counts["ns/t0"] == count


def test_a_dry_run_writes_nothing_and_stays_within_the_watts() -> None:
    one = power_run({}, {}, shadow=True)
    view = one.run([100.0, 100.0, 50.0, 50.0])
    assert one.cluster.writes == []
    assert sum(view.counts.values()) == 5


def test_a_target_that_moves_leaves_the_plan_of_the_others() -> None:
    one = PowerRun(policy(independents=[{"ref": f"ns/t{i}", "max": 20} for i in range(3)]), t0=10, t1=10, t2=10)
    one.run([1000.0, *[500.0] * 4])
    assert one.dies(500.0, 1, landed=False)
    one.cluster.counts["ns/t2"] = 11
    view = one.tick(500.0)
    assert "leaves the open plan" in (view.problem or "")
    assert (one.cluster.counts["ns/t0"], one.cluster.counts["ns/t1"]) == (5, 5)


def test_a_crash_at_any_write_leaves_a_life_within_the_watts() -> None:
    for at in range(5):
        for landed in (False, True):
            one = power_run({}, {}, {})
            one.run([400.0] * 2)
            one.dies(150.0, at, landed=landed)
            one.run([150.0] * 2)
            assert 10 * one.total <= 150, (at, landed)


def test_more_watts_bring_no_replicas_that_nobody_needs() -> None:
    one = power_run({"needs": {"load": "cpu", "target": 0.5}}, {})
    one.needed = {"ns/t0": Need(4, 4)}
    one.run([100.0] * 3)
    before = one.cluster.counts["ns/t0"]
    view = one.run([1000.0] * 8)
    assert one.cluster.counts == {"ns/t0": before, "ns/t1": 40}
    assert view.decision.limit in (None, "AtMax")
    one.needed = {"ns/t0": Need(12, 12)}
    one.run([1000.0] * 8)
    assert one.cluster.counts == {"ns/t0": 12, "ns/t1": 40}


def test_a_service_level_keeps_its_floor_and_the_others_give() -> None:
    one = power_run({"needs": {"latency": "p99", "target": 0.5, "floor": 6}}, {})
    one.needed = {"ns/t0": Need(10)}
    one.run([80.0] * 2)
    assert one.cluster.counts == {"ns/t0": 7, "ns/t1": 1}
    one.run([50.0] * 2)
    assert one.cluster.counts == {"ns/t0": 6, "ns/t1": 1}
    one.needed = {"ns/t0": Need(0, 6)}
    one.run([50.0] * 2)
    assert one.total == 5


def test_a_condition_holds_a_count_in_both_directions() -> None:
    needs = {"hold": "incident_open", "target": 0.5, "floor": 40}
    one = power_run({"needs": needs}, {})
    one.run([200.0] * 2)
    section = one.policy.places["ns/t0"].member.needs
    assert section is not None
    for value in (Fraction(1), None):
        one.needed = {"ns/t0": section.of(value, 10)}
        one.run([120.0] * 2)
        assert one.cluster.counts == {"ns/t0": 10, "ns/t1": 2}
        one.run([1000.0] * 8)
        assert one.cluster.counts["ns/t0"] == 10
    one.needed = {"ns/t0": section.of(Fraction(0), 10)}
    one.run([60.0] * 2)
    assert one.total == 6


def test_the_extra_pods_of_a_rollout_draw_their_watts(one: PowerRun) -> None:
    workload = Workload("Deployment", "ns", "t0", replicas=10, present=13, rolling=True)
    one.cluster.standing["ns/t0"] = {"rolling": True, "workload": workload}
    view = one.tick(200.0)
    assert (view.outcome.load, one.total) == (200, 17)


def test_a_reduction_that_its_controller_has_not_seen_yet_is_no_rollout(one: PowerRun) -> None:
    one.run([200.0] * 2)
    one.tick(100.0)
    late = Workload("Deployment", "ns", "t0", replicas=5, present=10, rolling=True, generation=3, observed=2)
    one.cluster.standing["ns/t0"] = {"workload": late}
    one.run([100.0] * 2)
    assert one.cluster.counts == {"ns/t0": 5, "ns/t1": 5}


def metered(*members: dict[str, Any], **keys: Any) -> PowerRun:
    """The same with a measured consumption; `PowerRun.begin` would lose the meter."""
    one = power_run(*members, consumption={"query": "own_watts"}, **keys)
    one.budget = PolicyController(
        one.policy,
        one.cluster,
        PowerStore(one.keys, "power", shadow=False),  # type: ignore[arg-type]
        shadow=False,
        meter=WattsLearner(one.policy),
    )
    return one


def measured(one: PowerRun, watts: float, consumed: float | None, **now: Any) -> TickReport:
    one.at += 15
    shown = None if consumed is None else Fraction(str(consumed))
    sample = Watts(Fraction(str(watts)), WALL + one.at, consumed=shown)
    view = one.budget.cycle(TickContext(Fraction(one.at), WALL + one.at, **now), sample)
    one.views.append(view)
    return view


def test_a_further_fall_is_carried_out_though_the_last_one_had_no_effect() -> None:
    one = metered({}, {})
    for watts, ticks in ((200, 2), (100, 30)):
        for _ in range(ticks):
            view = measured(one, watts, 200)
    assert view.inputs.missed is not None
    assert view.inputs.missed.stops
    measured(one, 50, 200)
    assert one.total == 5
    for _ in range(20):
        measured(one, 300, 200)
    assert one.total == 5, "nothing rises meanwhile"


@pytest.mark.parametrize("doubt", sorted(IMPOSSIBLE))
def test_nothing_rises_by_watts_that_cannot_be_and_a_fall_is_as_fast(doubt: str) -> None:
    one = power_run({}, {})
    one.run([200.0] * 2)
    for watts in (*[40_000] * 10, *[90_000] * 10):
        one.at += 15
        sample = Watts(Fraction(watts), WALL + one.at, doubt=doubt)
        one.budget.cycle(TickContext(Fraction(one.at), WALL + one.at), sample)
    assert one.total == 20
    one.run([100.0] * 3)
    assert one.total == 10


def test_nothing_rises_while_a_schedule_that_may_bound_has_never_been_read() -> None:
    one = power_run({}, {}, schedule={"csv": "gone.csv"})
    for watts in (200, *[400] * 12, 100, 100):
        one.at += 15
        sample = Watts(Fraction(watts), WALL + one.at, schedule_problem="the schedule cannot be read")
        one.budget.cycle(TickContext(Fraction(one.at), WALL + one.at), sample)
        assert one.total == (20 if watts > 100 else one.total)
    assert one.total == 10


def test_pods_that_take_long_to_end_are_no_missing_effect() -> None:
    one = metered({}, {})
    measured(one, 200, 200)
    for watts in [100.0] * 40 + [50.0]:
        view = measured(one, watts, 200)
        one.cluster.standing["ns/t0"] = {"leaving": 5}
        assert view.inputs.missed is None
    assert one.total == 5
    one.cluster.standing.clear()
    for _ in range(SAMPLES + 2):
        assert (view := measured(one, 50, 200)).inputs.missed is None or view.inputs.missed.stops
    assert view.inputs.missed is not None


@pytest.mark.parametrize("shown", [0, None])
def test_a_meter_at_nothing_while_pods_run_is_not_believed(shown: float | None) -> None:
    for watts in (10, "measured"):
        one = metered({"wattsPerReplica": watts}, {"wattsPerReplica": watts}, baseWatts=0, energy={"kWh": 100})
        for _ in range(4):
            view = measured(one, 200, 200)
        used = view.state.energy.used if view.state is not None and view.state.energy is not None else 0
        for _ in range(40):
            view = measured(one, 200, shown)
            assert (one.total, view.inputs.watts.consumed, view.inputs.missed) == (20, None, None)
        assert view.state is not None
        assert view.state.energy is not None
        assert view.state.energy.used - used > 190 * 15 * 40


def test_a_fall_whose_effect_does_not_come_stops_a_policy_that_holds_until_the_feed_falls_further() -> None:
    one = metered({}, {}, onNoEffect="hold")
    for _ in range(2):
        measured(one, 200, 200)
    for _ in range(30):
        view = measured(one, 100, 200)
    assert one.total == 10
    assert view.reason == IdleReason.NO_EFFECT
    assert "-100 W was predicted, +0 W were measured" in view.words
    assert measured(one, 96, 200).reason == IdleReason.NO_EFFECT
    assert one.total == 10
    measured(one, 50, 200)
    assert one.total == 5
    assert measured(one, 300, 200).reason == IdleReason.NO_EFFECT
    view = measured(one, 50, 95)
    assert view.inputs.missed is None
    assert one.total == 5


def test_a_confirmed_baseline_lets_a_stopped_policy_go_on() -> None:
    one = metered({}, {}, onNoEffect="hold")
    measured(one, 200, 200)
    for _ in range(30):
        measured(one, 100, 200)
    assert measured(one, 150, 200).reason == IdleReason.NO_EFFECT
    for _ in range(8):
        measured(one, 150, 200, confirmed=WALL + 500)
    assert one.total == 10, "nothing rises while the meter is above what is allowed"
    for _ in range(8):
        measured(one, 150, 100, confirmed=WALL + 500)
    assert one.total == 15


def test_an_effect_that_comes_stops_nothing_and_neither_does_a_rise_without_one() -> None:
    one = metered({"replicas": 5}, {"replicas": 5})
    for watts, consumed in [*[(100, 100)] * 10, *[(300, 100)] * 40]:
        view = measured(one, watts, consumed)
    assert one.total == 30
    assert view.inputs.missed is not None
    assert not view.inputs.missed.stops
    for _ in range(30):
        view = measured(one, 150, 80)
    assert 15 <= one.total <= 16


def test_what_a_policy_within_it_draws_is_taken_off_the_outer_ones_watts() -> None:
    one = power_run({}, {})
    one.tick(400)
    one.tick(400, inside=Fraction(250))
    assert one.total == 15


def test_the_daemon_waits_for_clean_hours_and_forgets_no_energy() -> None:
    """A dirty hour, a clean one; then the watts of a replica are declared anew, and the process begins again."""
    keys = {"energy": {"kWh": 0.39}, "schedule": {"csv": "unused", "as": "carbon"}}
    one = power_run({"min": 0}, **keys)
    schedule = one.policy.schedule
    assert schedule is not None
    begin = int(WALL) // 86_400 * 86_400
    forecast = Schedule.of([(begin, Fraction(500)), (begin + 3600, Fraction(100)), (begin + 7200, Fraction(500))])

    def tick(run: PowerRun, at: int) -> TickReport:
        watts = Watts(Fraction(1000), float(begin + at), forecast=forecast.meant(schedule))
        return run.budget.cycle(TickContext(Fraction(begin + at), float(begin + at)), watts)

    first = tick(one, 0)
    assert one.total == 0
    assert (first.allowed, first.over) == (0, None)
    for at in range(3450, 7141, 30):
        tick(one, at)
        assert one.total == (39 if at >= 3600 else 0)
    before = tick(one, 7140).energy_left
    assert before is not None
    assert before < 390 * 120
    again = PowerRun(policy(**{"independents": [{"ref": "ns/t0", "min": 0, "max": 40, "wattsPerReplica": 11}], **keys}))
    again.keys.data = dict(one.keys.data)
    left = tick(again, 7155).energy_left
    assert left is not None
    assert left <= before


def test_a_target_none_of_whose_pods_may_go_is_not_reduced_below_those_that_must_be_ready() -> None:
    one = power_run({"minReady": 4, "min": 1})
    one.cluster.standing["ns/t0"] = {"workload": Workload("Deployment", "ns", "t0", ready=10)}
    one.run([0.0] * 4)
    assert one.cluster.counts == {"ns/t0": 4}
