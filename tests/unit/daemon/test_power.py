"""The whole daemon against the simulator: a feed in its Prometheus, targets behind its API, and what people see."""

import json
import re
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ballast.base.errors import SettingsError
from ballast.jobs.power.build_power import findings
from ballast.runtime.daemon import Daemon
from ballast.settings import load
from ballast_lab.demo import running as demo
from ballast_lab.harness.waiting import until
from ballast_lab.simulator.kube.kinds import BY_NAME
from tests.worlds.daemons import OWN, condition, get, metric
from tests.worlds.plant import TARGETS, Plant, policy

pytestmark = pytest.mark.slow


def seen(daemon: Daemon, number: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = get(daemon, "/api/v1/power").json()["policies"][number]
    return found


@pytest.fixture
def daemon(plant: Plant) -> Daemon:
    return plant.daemon()


def test_night_falls_and_morning_comes(daemon: Daemon, plant: Plant) -> None:
    assert "the baseline is taken" in daemon.board.cycles[-1].sentence
    plant.power(500)
    assert "below the dead band (950 W to 1,050 W) for 0 s of 60 s" in plant.tick(daemon)
    document = seen(daemon)
    assert document["state"] == "PENDING_DECREASE"
    assert document["window"]["length"] == 60
    assert document["deadband"] == [950, 1050]
    sentence = plant.ticks(daemon, 2)
    assert "scaled plant/one 10 → 5, plant/two 10 → 5 (ScaledDown)" in sentence
    assert plant.counts() == {"plant/one": 5, "plant/two": 5}
    plant.power(1000)
    plant.ticks(daemon, 3)
    assert plant.counts() == {"plant/one": 10, "plant/two": 10}
    document = seen(daemon)
    assert [action["reason"] for action in document["actions"]] == ["ScaledUp", "ScaledDown"]
    assert document["actions"][0]["changes"] == {"plant/one": 5, "plant/two": 5}
    assert [target["replicas"] for target in document["targets"]] == [10, 10]
    assert document["history"][-1][1:] == [1000, 1000, 950, 1050, 20, "STABLE"]


def test_metrics_tell_of_it(daemon: Daemon, plant: Plant) -> None:
    plant.power(500)
    plant.ticks(daemon, 3)
    found = {
        'available_watts{policy="sun"}': 500,
        'reference_watts{policy="sun"}': 500,
        'relative_change{policy="sun"}': 0,
        'state{policy="sun",state="STABLE"}': 1,
        'target_replicas{policy="sun"}': 10,
        'current_replicas{policy="sun"}': 10,
        'unmet_replicas{policy="sun"}': 0,
        'actions_total{direction="down",policy="sun",result="done"}': 1,
        'target_replicas_by_workload{name="one",policy="sun",workload_namespace="plant"}': 5,
        "leader": 1,
    }
    assert {name: metric(daemon, f"ballast_power_{name}") for name in found} == found
    assert metric(daemon, 'ballast_queries_total{resource="power",result="ok"}') == 12
    plant.faults.power_silent()
    plant.tick(daemon)
    assert metric(daemon, 'ballast_power_available_watts{policy="sun"}') is None
    assert metric(daemon, 'ballast_power_feed_invalid_total{policy="sun",reason="series"}') == 1


@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        (lambda plant: plant.power(float("nan")), "nan W is not a valid power"),
        (lambda plant: plant.power(float("-inf")), "-inf W is not a valid power"),
        (lambda plant: plant.faults.power_silent(), "gives 0 series"),
        (lambda plant: plant.faults.power_doubled(), "gives 2 series, expectSeries is 1"),
        (lambda plant: plant.faults.prometheus_500(), "answers 500"),
        (lambda plant: plant.faults.prometheus_html(), "login"),
    ],
)
def test_a_feed_that_says_nothing_usable_changes_nothing(
    plant: Plant, trouble: Callable[[Plant], None], told: str
) -> None:
    daemon = plant.daemon()
    before = plant.writes()
    trouble(plant)
    sentence = plant.ticks(daemon, 12)
    assert "no usable sample" in sentence
    assert "everything stays" in sentence
    assert plant.writes().keys() - {"configmaps"} == before.keys() - {"configmaps"}
    assert plant.counts() == {"plant/one": 10, "plant/two": 10}
    found = {item.type: item for item in daemon.context.conditions.list()}
    assert found["FeedAvailable"].status == "False"
    assert told in found["FeedAvailable"].message or told == "login"
    assert found["Fallback"].status == "True"
    plant.faults.clear()
    plant.power(500)
    plant.ticks(daemon, 3)
    assert plant.counts() == {"plant/one": 5, "plant/two": 5}
    assert condition(daemon, "FeedAvailable") is not None or found["FeedAvailable"].status == "False"


def test_an_exporter_that_died_is_told_by_the_age_of_its_samples(daemon: Daemon, plant: Plant) -> None:
    plant.faults.power_frozen()
    sentence = plant.ticks(daemon, 5)
    assert "s old, maxAge is 90 s" in sentence
    assert metric(daemon, 'ballast_power_feed_invalid_total{policy="sun",reason="stale"}')


def test_after_the_fallback_what_the_policy_says_holds(plant: Plant) -> None:
    daemon = plant.daemon(policy(fallback={"after": "2m", "policy": "floor"}))
    plant.faults.power_silent()
    plant.ticks(daemon, 5)
    assert plant.counts() == {"plant/one": 2, "plant/two": 2}
    plant.faults.clear()
    plant.power(1000)
    plant.ticks(daemon, 4)
    assert plant.counts() == {"plant/one": 10, "plant/two": 10}


def test_a_pause_stops_it_and_a_resume_begins_a_new_window(daemon: Daemon, plant: Plant) -> None:
    plant.rig.put_config_map("ballast-switches", {"paused.power": "true"})
    until(lambda: daemon.context.switches.paused("power"), "the switch")
    plant.power(500)
    assert "paused by key paused.power" in plant.ticks(daemon, 4)
    assert plant.counts() == {"plant/one": 10, "plant/two": 10}
    assert get(daemon, "/api/v1/power").json()["paused"]
    assert condition(daemon, "Paused")
    plant.rig.put_config_map("ballast-switches", {"paused.power": "false"})
    until(lambda: not daemon.context.switches.paused("power"), "the switch")
    assert "for 0 s of 60 s" in plant.tick(daemon)
    plant.ticks(daemon, 2)
    assert plant.counts() == {"plant/one": 5, "plant/two": 5}


def test_an_excluded_target_is_left_alone_and_its_return_changes_nothing(daemon: Daemon, plant: Plant) -> None:
    plant.annotate("plant/two", exclude_power="true")
    plant.power(500)
    sentence = plant.ticks(daemon, 4)
    assert plant.counts() == {"plant/one": 5, "plant/two": 10}
    assert "left alone: plant/two" in sentence
    assert seen(daemon)["targets"][1]["excluded"]
    plant.annotate("plant/two", exclude_power=None)
    plant.ticks(daemon, 4)
    assert plant.counts() == {"plant/one": 5, "plant/two": 10}


def test_what_someone_else_scales_is_neither_undone_nor_amplified(daemon: Daemon, plant: Plant) -> None:
    plant.scale("plant/two", 14)
    plant.ticks(daemon, 4)
    assert plant.counts() == {"plant/one": 10, "plant/two": 14}
    assert metric(daemon, 'ballast_power_foreign_changes_total{policy="sun"}') == 1


def test_a_target_that_does_not_exist_is_named_and_the_others_go_on(plant: Plant) -> None:
    keys = policy()
    keys["independents"].append({"ref": "plant/three", "max": 5})
    daemon = plant.daemon(keys)
    plant.power(500)
    sentence = plant.ticks(daemon, 3)
    assert plant.counts() == {"plant/one": 5, "plant/two": 5}
    assert "left alone: plant/three (there is no deployments.apps/plant/three" in sentence
    assert "plant/three" in (condition(daemon, "Degraded") or "")


def test_policies_stand_side_by_side_and_one_that_fails_stops_no_other(plant: Plant) -> None:
    one, two = policy(name="rack-a"), policy(name="rack-b")
    one["independents"], two["independents"] = [one["independents"][0]], [two["independents"][1]]
    one["feed"] = {"query": "no_such_metric", "semantics": "available"}
    daemon = plant.daemon(one, two)
    plant.power(500)
    sentence = plant.ticks(daemon, 3)
    assert plant.counts() == {"plant/one": 10, "plant/two": 5}
    assert "rack-a: no usable sample" in sentence
    assert "rack-b: 500 W of 500 W reference" in sentence
    assert "rack-a" in next(item.message for item in daemon.context.conditions.list() if item.type == "FeedAvailable")


def test_an_emergency_acts_in_two_ticks(plant: Plant) -> None:
    daemon = plant.daemon(policy(emergencyDrop={"relative": 0.4}, decrease={"window": "10m", "tolerance": 0.04}))
    plant.power(500)
    assert plant.counts() == {"plant/one": 10, "plant/two": 10}
    assert "(EmergencyDrop)" in plant.ticks(daemon, 2)
    assert plant.counts() == {"plant/one": 5, "plant/two": 5}


def test_a_dry_run_tells_what_would_be_and_writes_its_state_alone(plant: Plant) -> None:
    daemon = plant.daemon(mode="dry-run")
    plant.power(500)
    assert "would scale plant/one 10 → 5" in plant.ticks(daemon, 3)
    assert plant.counts() == {"plant/one": 10, "plant/two": 10}
    assert set(plant.rig.patches()) <= {"leases", "configmaps"}
    document = seen(daemon)
    assert document["shadow"]
    assert [(each["replicas"], each["potential"]) for each in document["targets"]] == [(10, 5), (10, 5)]
    assert metric(daemon, 'ballast_power_current_replicas{policy="sun"}') == 20
    assert metric(daemon, 'ballast_power_potential_current_replicas{policy="sun"}') == 10
    plant.power(1000)
    plant.ticks(daemon, 3)
    assert metric(daemon, 'ballast_power_potential_current_replicas{policy="sun"}') == 20


def test_a_standby_does_nothing_and_takes_over_after_two_cycles(daemon: Daemon, plant: Plant) -> None:
    plant.rig.lose_lease(daemon)
    plant.power(500)
    assert "standing by: someone-else holds the Lease" in plant.ticks(daemon, 4)
    assert plant.counts() == {"plant/one": 10, "plant/two": 10}
    plant.rig.lead_again(daemon)
    assert "0 ended" in plant.tick(daemon)
    assert "1 ended" in plant.tick(daemon)
    assert "for 0 s of 60 s" in plant.tick(daemon)
    plant.ticks(daemon, 2)
    assert plant.counts() == {"plant/one": 5, "plant/two": 5}


def test_lost_state_waits_for_a_word_where_ballast_put_a_target_at_its_bound(plant: Plant) -> None:
    first = plant.daemon()
    plant.power(100)
    plant.ticks(first, 3)
    assert plant.counts() == {"plant/one": 2, "plant/two": 2}
    first.stop()
    plant.rig.daemons.remove(first)
    plant.rig.put_config_map("ballast-state", {})
    plant.power(1000)
    second = plant.daemon()
    assert "the state was lost" in plant.ticks(second, 3)
    assert condition(second, "Rebaselined")
    assert plant.counts() == {"plant/one": 2, "plant/two": 2}
    moment = "2023-11-15T00:00:00Z"
    plant.rig.put_config_map("ballast-switches", {"power.rebaseline": moment})
    until(lambda: second.context.switches.values.get("power.rebaseline"), "the switch")
    assert "the baseline is taken" in plant.tick(second)
    assert condition(second, "Rebaselined") is None


def test_a_target_that_left_the_policy_gets_its_cap_back_and_the_others_keep_their_measure(plant: Plant) -> None:
    plant.autoscale("plant/one", most=20)
    first = plant.daemon()
    plant.power(500)
    plant.ticks(first, 3)
    assert (plant.cap("plant/one"), plant.counts("plant/two")) == (5, {"plant/two": 5})
    first.stop()
    plant.rig.daemons.remove(first)
    keys = policy()
    second = plant.daemon({**keys, "independents": keys["independents"][1:]})
    assert plant.cap("plant/one") == 20
    assert "power.left" not in power_state(plant)
    plant.power(1000)
    plant.ticks(second, 4)
    assert plant.counts("plant/two") == {"plant/two": 10}


def test_a_confirmation_that_cannot_be_read_is_told_in_words_that_hold_still(daemon: Daemon, plant: Plant) -> None:
    plant.rig.put_config_map("ballast-switches", {"power.rebaseline": "yesterday"})
    until(lambda: daemon.context.switches.values.get("power.rebaseline"), "the switch")
    plant.tick(daemon)
    assert (
        condition(daemon, "Degraded")
        == "key power.rebaseline of ballast-switches is 'yesterday', expected a time in RFC 3339"
    )
    conditions = daemon.context.conditions.list()
    plant.ticks(daemon, 3)
    assert daemon.context.conditions.list() == conditions


def power_state(plant: Plant) -> dict[str, str]:
    return {key: value for key, value in plant.rig.state().items() if key.startswith("power")}


def test_a_day_of_constant_power_writes_nothing_but_the_lease(daemon: Daemon, plant: Plant) -> None:
    plant.ticks(daemon, 2)
    before = power_state(plant)
    for step in range(2_880):
        plant.power(1000 + 40 * (step % 3 - 1))
        plant.rig.advance()
        daemon.power.cycle()  # type: ignore[union-attr]
    assert power_state(plant) == before
    assert set(plant.rig.patches()) == {"leases", "configmaps"}
    assert daemon.board.power.policies[0].history[-1][-1] == "STABLE"


def test_a_night_below_all_bounds_writes_nothing_either(daemon: Daemon, plant: Plant) -> None:
    plant.power(30)
    plant.ticks(daemon, 12)
    assert plant.counts() == {"plant/one": 2, "plant/two": 2}
    plant.power(60)
    plant.ticks(daemon, 12)
    plant.rig.watch(daemon)
    assert condition(daemon, "Limited") == "the targets are at their minimum, the watts carry fewer"
    before = plant.rig.state()
    conditions = daemon.context.conditions.list()
    for step in range(480):
        plant.power(60 + step % 2)
        plant.rig.advance()
        daemon.power.cycle()  # type: ignore[union-attr]
        assert daemon.context.conditions.list() == conditions
    assert power_state(plant) == {key: value for key, value in before.items() if key.startswith("power")}


def test_a_silent_feed_is_told_in_words_that_hold_still(daemon: Daemon, plant: Plant) -> None:
    plant.faults.power_frozen()
    plant.ticks(daemon, 15)
    conditions = daemon.context.conditions.list()
    for _ in range(30):
        plant.rig.advance()
        daemon.power.cycle()  # type: ignore[union-attr]
        assert daemon.context.conditions.list() == conditions


def test_events_tell_of_what_begins_and_ends(daemon: Daemon, plant: Plant) -> None:
    plant.power(500)
    plant.ticks(daemon, 3)
    plant.faults.power_silent()
    plant.tick(daemon)

    def reasons() -> set[str]:
        return {
            one.read()["reason"]
            for namespace in (OWN, "plant")
            for one in plant.rig.cluster.store.all(BY_NAME["Event"], namespace)
        }

    until(lambda: {"PowerDecreaseDetected", "ScaledForPower", "FeedInvalid"} <= reasons(), "the Events")


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"decrease": {"window": "10s"}}, "decrease.window is 10s, shorter than one tick"),
        ({"independents": [{"ref": "a/b", "max": 1}, {"ref": "a/b", "max": 2}]}, "a/b is listed 2 times"),
        ({"independents": [{"ref": "a/b", "min": 3, "max": 1}]}, "min is 3, max 1"),
        ({"feed": {"query": "a - b", "semantics": "available"}}, "the age of its samples cannot be queried"),
        ({"feed": {"query": "draw_watts", "semantics": "consumption"}}, "can be no budget"),
    ],
)
def test_a_policy_that_cannot_be_followed_is_refused_at_start(plant: Plant, keys: dict[str, Any], told: str) -> None:
    path = plant.rig.folder / "ballast.yaml"
    path.write_text(json.dumps({"power": {"policies": [policy(**keys)]}}))
    settings = load(plant.rig.environment(CONFIG_FILE=str(path), POWER__MODE="on"))
    assert any(told in problem for problem in findings(settings).problems)
    with pytest.raises(SettingsError, match=re.escape(told)):
        Daemon(settings)


def test_the_scene_of_power_follows_a_short_solar_day() -> None:
    said: list[str] = []
    stop = threading.Event()

    def hear(line: str) -> None:
        said.append(line)
        if "the baseline is taken" in line:
            stop.set()

    summary = demo.run(demo.Options(nodes=5, seconds=60, headless=True, scene="power"), stop, hear)
    assert stop.is_set()
    for name, targets in (("sun", 6), ("rack", 2)):
        assert any(f"{name}: " in line and f"replicas in {targets} targets" in line for line in said)
    assert summary["nodes"] == 5


@pytest.mark.parametrize("mode", ["on", "dry-run"])
def test_members_of_an_acting_policy_are_known_to_evictions(plant: Plant, mode: str) -> None:
    daemon = plant.daemon(mode=mode, acting=False, EVICTION__MODE="on", EVICTION__SURGE="true")
    assert daemon.eviction is not None
    assert daemon.board.snapshot is not None
    budgeted = daemon.eviction.moments.take_moment(daemon.board.snapshot).objects.budgeted
    members = {tuple(name.split("/")) for name in TARGETS} if mode == "on" else set()
    assert {(namespace, name) for namespace, _, name in budgeted} == members
    daemon.stop()
