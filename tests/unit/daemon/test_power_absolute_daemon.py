"""The whole daemon under an absolute budget: what holds for an anchor holds here, within the watts of every sample."""

from collections.abc import Callable
from typing import Any

import pytest

from ballast.runtime.daemon import Daemon
from ballast_lab.harness.waiting import until
from tests.worlds.daemons import Rig, condition, get, metric
from tests.worlds.plant import FEED, SIDE, TARGETS, Plant

pytestmark = pytest.mark.slow

EACH = 50
"""Watts of a replica: 20 of them draw the 1000 W of the beginning."""
UNCHANGED = {"plant/one": 10, "plant/two": 10}
HALF = {"plant/one": 5, "plant/two": 5}


def policy(**keys: Any) -> dict[str, Any]:
    """Two Deployments of ten replicas; falls at the next sample, rises after two ticks."""
    members = [{"ref": name, "min": 2, "max": 30, "wattsPerReplica": EACH} for name in TARGETS]
    return {"name": "sun", "feed": FEED, "margin": 0, "increase": SIDE, "independents": members, **keys}


def leads(plant: Plant, **keys: Any) -> Any:
    return plant.daemon(policy(**keys))


@pytest.fixture
def daemon(plant: Plant) -> Daemon:
    return leads(plant)


def test_a_fall_is_done_at_the_next_sample_and_a_rise_after_its_window(daemon: Daemon, plant: Plant) -> None:
    assert plant.counts() == UNCHANGED
    plant.power(500)
    assert "(ScaledDown)" in plant.tick(daemon)
    assert plant.counts() == HALF
    plant.power(1000)
    plant.tick(daemon)
    assert plant.counts() == HALF
    plant.ticks(daemon, 3)
    assert plant.counts() == UNCHANGED
    found = get(daemon, "/api/v1/power").json()["policies"][0]
    assert (found["budget"], found["load"], found["over"], found["unmet_demand"]) == ("absolute", 1000, None, 0)
    assert found["draws"][-1][1:] == [1000, None, 0, 0]
    assert [count for _, count in found["targets"][0]["history"]] == [10, 5, 10]
    assert metric(daemon, 'ballast_power_load_watts{policy="sun"}') == 1000
    assert metric(daemon, 'ballast_power_over_budget_watts{policy="sun"}') == 0


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(lambda plant: plant.power(float("nan")), id="nan"),
        pytest.param(lambda plant: plant.power(float("-inf")), id="no number"),
        pytest.param(lambda plant: plant.faults.power_silent(), id="silent"),
        pytest.param(lambda plant: plant.faults.power_doubled(), id="doubled"),
        pytest.param(lambda plant: plant.faults.prometheus_500(), id="500"),
        pytest.param(lambda plant: plant.faults.prometheus_html(), id="html"),
    ],
)
def test_a_feed_that_says_nothing_usable_changes_nothing(plant: Plant, trouble: Callable[[Plant], None]) -> None:
    daemon = leads(plant)
    before = plant.writes()
    trouble(plant)
    assert "everything stays" in plant.ticks(daemon, 12)
    assert plant.counts() == UNCHANGED
    assert plant.writes().keys() - {"configmaps"} == before.keys() - {"configmaps"}
    found = {item.type: item for item in daemon.context.conditions.list()}
    assert (found["FeedAvailable"].status, found["Fallback"].status) == ("False", "True")
    plant.faults.clear()
    plant.power(500)
    plant.ticks(daemon, 6)
    assert sum(plant.counts().values()) == 10


def test_a_site_that_takes_watts_from_the_grid_has_none_to_give(plant: Plant) -> None:
    daemon = leads(plant)
    plant.power(-5)
    plant.ticks(daemon, 4)
    assert sum(plant.counts().values()) < sum(UNCHANGED.values())


def test_an_exporter_that_died_is_told_by_the_age_of_its_samples(daemon: Daemon, plant: Plant) -> None:
    plant.faults.power_frozen()
    assert "s old, maxAge is 90 s" in plant.ticks(daemon, 5)
    conditions = daemon.context.conditions.list()
    assert plant.ticks(daemon, 5)
    assert daemon.context.conditions.list() == conditions, "told in words that hold still"


@pytest.mark.parametrize("trouble", ["back", "ahead", "silent", "restart"])
def test_a_bound_is_kept_through_silence_restarts_and_steps_of_the_clock(plant: Plant, trouble: str) -> None:
    now, path = plant.rig.clock.wall(), plant.rig.folder / "events.csv"
    path.write_text(f"time,watts,id\n{now - 9000},1000,\n{now + 240},500,grid-7\n{now + 840},1000,\n")
    one = policy(schedule={"csv": str(path)})
    daemon = plant.daemon(one)
    assert plant.counts() == UNCHANGED
    plant.ticks(daemon, 6)
    assert plant.counts() == HALF
    if trouble == "silent":
        plant.faults.power_silent()
    elif trouble == "restart":
        daemon.stop()
        plant.rig.daemons.remove(daemon)
        daemon = plant.daemon(one)
    else:
        plant.rig.clock.step_wall(-600 if trouble == "back" else 600)
    for _ in range(15):
        plant.tick(daemon)
        assert sum(plant.counts().values()) <= 10
    plant.faults.clear()
    plant.power(1000)
    plant.ticks(daemon, 45)
    assert plant.counts() == UNCHANGED
    (fall,) = get(daemon, "/api/v1/power").json()["policies"][0]["falls"]
    assert (fall["id"], fall["allowed"], fall["over_watt_hours"]) == ("grid-7", 500, 0)
    assert 0 <= fall["seconds_to_comply"] <= 60


def test_after_the_fallback_what_the_policy_says_holds(plant: Plant) -> None:
    daemon = leads(plant, fallback={"after": "2m", "policy": "floor"})
    plant.faults.power_silent()
    plant.ticks(daemon, 5)
    assert plant.counts() == {"plant/one": 2, "plant/two": 2}
    plant.faults.clear()
    plant.power(1000)
    plant.ticks(daemon, 6)
    assert plant.counts() == UNCHANGED


def test_a_pause_stops_it_and_a_resume_acts_at_the_next_sample(daemon: Daemon, plant: Plant) -> None:
    plant.rig.put_config_map("ballast-switches", {"paused.power": "true"})
    until(lambda: daemon.context.switches.paused("power"), "the switch")
    plant.power(500)
    assert "paused by key paused.power" in plant.ticks(daemon, 4)
    assert plant.counts() == UNCHANGED
    assert condition(daemon, "Paused")
    assert condition(daemon, "OverBudget") == "500 W above the feed"
    plant.rig.put_config_map("ballast-switches", {"paused.power": "false"})
    until(lambda: not daemon.context.switches.paused("power"), "the switch")
    plant.tick(daemon)
    assert plant.counts() == HALF
    plant.tick(daemon)
    assert condition(daemon, "OverBudget") is None


def test_who_excludes_himself_goes_on_drawing_unless_the_policy_lets_him_go(daemon: Daemon, plant: Plant) -> None:
    plant.annotate("plant/two", exclude_power="true")
    plant.power(800)
    sentence = plant.ticks(daemon, 2)
    assert plant.counts() == {"plant/one": 6, "plant/two": 10}
    assert "left alone: plant/two" in sentence
    plant.annotate("plant/two", exclude_power=None)
    plant.power(500)
    plant.ticks(daemon, 2)
    assert sum(plant.counts().values()) == 10


def test_what_someone_else_scales_is_brought_within_the_watts_a_tick_later(daemon: Daemon, plant: Plant) -> None:
    plant.scale("plant/two", 14)
    plant.tick(daemon)
    assert sum(plant.counts().values()) == 20
    plant.scale("plant/one", 4)
    plant.ticks(daemon, 6)
    assert sum(plant.counts().values()) == 20, "and what the watts carry comes back"


def test_a_target_that_does_not_exist_is_named_and_the_others_go_on(plant: Plant) -> None:
    keys = policy()
    keys["independents"].append({"ref": "plant/three", "max": 5, "wattsPerReplica": EACH})
    daemon = plant.daemon(keys)
    plant.power(500)
    sentence = plant.ticks(daemon, 2)
    assert plant.counts() == HALF
    assert "left alone: plant/three (there is no deployments.apps/plant/three" in sentence
    assert "plant/three" in (condition(daemon, "Degraded") or "")


def test_policies_of_both_kinds_stand_side_by_side(plant: Plant) -> None:
    one, two = policy(name="rack-a"), policy(name="rack-b", budget="anchor", margin=None)
    one["independents"], two["independents"] = [one["independents"][0]], [two["independents"][1]]
    two["feed"] = {"query": "no_such_metric", "semantics": "available"}
    del two["margin"]
    plant.power(400)
    daemon = plant.daemon(one, two)
    plant.ticks(daemon, 2)
    assert plant.counts() == {"plant/one": 8, "plant/two": 10}


def test_a_dry_run_tells_what_would_be_and_writes_its_state_alone(plant: Plant) -> None:
    daemon = plant.daemon(policy(), mode="dry-run")
    plant.power(500)
    assert "would scale plant/one 10 → 5" in plant.tick(daemon)
    assert plant.counts() == UNCHANGED
    assert set(plant.rig.patches()) <= {"leases", "configmaps"}
    found = get(daemon, "/api/v1/power").json()["policies"][0]["targets"]
    assert [(each["replicas"], each["potential"]) for each in found] == [(10, 5), (10, 5)]


def test_a_standby_does_nothing_and_takes_over_after_two_cycles(daemon: Daemon, plant: Plant) -> None:
    plant.rig.lose_lease(daemon)
    plant.power(500)
    assert "standing by: someone-else holds the Lease" in plant.ticks(daemon, 4)
    assert plant.counts() == UNCHANGED
    plant.rig.lead_again(daemon)
    assert "0 ended" in plant.tick(daemon)
    assert "1 ended" in plant.tick(daemon)
    plant.tick(daemon)
    assert plant.counts() == HALF


def restarted(plant: Plant, daemon: Any, one: dict[str, Any] | None = None) -> Any:
    daemon.stop()
    plant.rig.daemons.remove(daemon)
    return plant.daemon(one or policy())


def test_lost_state_waits_for_nobody_and_keeps_the_watts(plant: Plant) -> None:
    first = leads(plant)
    plant.power(500)
    plant.tick(first)
    plant.rig.put_config_map("ballast-state", {})
    plant.power(300)
    second = restarted(plant, first)
    assert sum(plant.counts().values()) == 6
    assert condition(second, "Rebaselined") is None
    plant.power(1000)
    plant.ticks(second, 6)
    assert sum(plant.counts().values()) == 20


def test_a_target_that_left_the_policy_gets_its_cap_back(plant: Plant) -> None:
    plant.autoscale("plant/one", most=20)
    first = leads(plant)
    plant.power(500)
    plant.ticks(first, 2)
    assert plant.cap("plant/one") < 20
    rest = policy()
    second = restarted(plant, first, {**rest, "independents": rest["independents"][1:]})
    assert plant.cap("plant/one") == 20
    plant.ticks(second, 4)
    assert plant.counts("plant/two") == {"plant/two": 10}


def test_hours_of_constant_power_write_nothing_but_the_lease(daemon: Daemon, plant: Plant) -> None:
    plant.ticks(daemon, 2)
    before = power_state(plant.rig)
    for step in range(480):
        plant.power(1015 + 14 * (step % 3 - 1))
        plant.rig.advance()
        daemon.power.cycle()
    assert power_state(plant.rig) == before
    assert set(plant.rig.patches()) == {"leases", "configmaps"}
    assert plant.counts() == UNCHANGED


def test_a_night_below_all_minima_is_told_in_words_that_hold_still(daemon: Daemon, plant: Plant) -> None:
    plant.power(60)
    plant.ticks(daemon, 4)
    assert plant.counts() == {"plant/one": 2, "plant/two": 2}
    assert condition(daemon, "Limited") == "the targets are at their minimum, the watts carry fewer"
    assert condition(daemon, "OverBudget") == "140 W above the feed"
    before, conditions = power_state(plant.rig), daemon.context.conditions.list()
    for step in range(60):
        plant.power(60 + step % 2)
        plant.rig.advance()
        daemon.power.cycle()
        assert daemon.context.conditions.list() == conditions
    assert power_state(plant.rig) == before


def power_state(one: Rig) -> dict[str, str]:
    return {key: value for key, value in one.state().items() if key.startswith("power")}
