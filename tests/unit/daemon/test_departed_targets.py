"""Targets that have left the policies get their caps back, once, whatever happens in between."""

import json
from collections.abc import Collection

import pytest

from ballast.base.errors import ClusterError
from ballast.cluster.write import Result, WriteOutcome
from ballast.jobs.power.departed import PAUSE, DepartedTargets
from ballast.power.policy import PowerPolicy
from tests.worlds.power import members, policy
from tests.worlds.power_run import WRITE, CrashPoint, Keys

pytestmark = pytest.mark.slow


class Plant:
    """What is stored, and who got a cap back."""

    def __init__(self, **data: str) -> None:
        self.keys = Keys(CrashPoint(), {key.replace("_", "."): text for key, text in data.items()})
        self.asked: list[set[str]] = []
        self.result = Result.DONE
        self.blind = False

    def restore(self, names: Collection[str]) -> list[WriteOutcome]:
        if self.blind:
            raise ClusterError("horizontalpodautoscalers have not been listed yet")
        self.asked.append(set(names))
        return [WriteOutcome(WRITE, self.result, "no rights")]

    def leavers(self, *policies: PowerPolicy) -> DepartedTargets:
        return DepartedTargets(self.keys, policies, self.restore)  # type: ignore[arg-type]


TWO = json.dumps({"state": {"last": {"ns/t0": 5, "ns/t1": 5}}})
ONE = policy(**members((1, 40)))


def test_who_left_a_policy_gets_it_back_once() -> None:
    plant = Plant(power_state_power=TWO, conditions="[]")
    leavers = plant.leavers(ONE)
    assert [leavers.cycle(), leavers.cycle()] == [None, None]
    assert plant.asked == [{"ns/t1"}]
    assert plant.keys.data == {"power.state.power": TWO, "conditions": "[]"}


def test_nobody_left_writes_nothing() -> None:
    plant = Plant(power_state_power=TWO)
    leavers = plant.leavers(policy(**members((1, 40), (1, 40))))
    assert [leavers.cycle(), leavers.cycle()] == [None, None]
    assert (plant.asked, plant.keys.writes) == ([], 0)


def test_a_policy_that_is_gone_leaves_nothing_behind() -> None:
    plan = json.dumps({"replicas": {"ns/t2": 3}, "status": "open"})
    plant = Plant(power_state_old=TWO, power_plan_old=plan, power_shadow_old=TWO, power_state_power=TWO)
    plant.keys.data |= {"power.learned.old": "{}", "power.schedule.old": "[]", "power.falls.old": "[]"}
    plant.leavers(ONE).cycle()
    assert plant.asked == [{"ns/t1", "ns/t2"}]
    assert set(plant.keys.data) == {"power.state.power"}


def test_who_moved_to_another_policy_keeps_its_cap() -> None:
    plant = Plant(power_state_power=TWO)
    other = policy(name="other", independents=[{"ref": "ns/t1", "max": 9}])
    assert plant.leavers(ONE, other).cycle() is None
    assert plant.asked == []


def test_what_fails_is_tried_again_also_by_the_next_leader() -> None:
    plant = Plant(power_state_power=TWO)
    plant.result = Result.FAILED
    leavers = plant.leavers(ONE)
    assert "is not given back: no rights" in (leavers.cycle() or "")
    assert "is not given back: no rights" in (leavers.cycle() or "")
    assert len(plant.asked) == 1, "not at once"
    for _ in range(PAUSE):
        leavers.cycle()
    assert len(plant.asked) == 2
    plant.keys.data["power.state.power"] = json.dumps({"state": {"last": {"ns/t0": 5}}})
    plant.result = Result.DONE
    next_leader = plant.leavers(ONE)
    assert next_leader.cycle() is None
    assert plant.asked == [{"ns/t1"}] * 3
    assert "power.left" not in plant.keys.data


@pytest.mark.parametrize("trouble", ["blind", "unreadable", "broken"])
def test_nothing_is_lost_while_the_cluster_does_not_answer(trouble: str) -> None:
    plant = Plant(power_state_power=TWO)
    leavers = plant.leavers(ONE)
    plant.blind, plant.keys.unreadable = trouble == "blind", trouble == "unreadable"
    plant.keys.broken = "no space" if trouble == "broken" else ""
    assert "are not given back" in (leavers.cycle() or "")
    plant.blind, plant.keys.unreadable, plant.keys.broken = False, False, ""
    assert leavers.cycle() is None
    assert plant.asked == [{"ns/t1"}]


def test_state_that_nobody_understands_names_nobody() -> None:
    plant = Plant(power_state_power="{rubbish", power_left="5")
    assert plant.leavers(ONE).cycle() is None
    assert plant.asked == []
