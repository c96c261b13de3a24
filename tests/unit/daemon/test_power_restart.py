"""What a meter has taught outlives the process."""

import json
from fractions import Fraction
from typing import Any

import pytest

from ballast.jobs.power.budget import PolicyController
from ballast.jobs.power.kept_learning import EVERY
from ballast.jobs.power.store import PowerStore
from ballast.jobs.power.tick_report import TickContext, TickReport
from ballast.power.learned_watts import WattsLearner
from ballast.telemetry.feeds.budget_feed import Watts
from tests.worlds.power import policy
from tests.worlds.power_run import WALL, Keys, PowerRun

KEY = "power.learned.power"
TRUE, BASE = 80, 700


class Heard(Keys):
    """It hears what cannot be read."""

    def begin_anew(self, key: str, text: str, error: Exception) -> None:
        self.data[f"unreadable.{key}"] = text


class Metered:
    """Replicas that draw 80 W beside 700 W of idle nodes; 50 W and nothing are declared, or they are to be measured."""

    def __init__(self, watts: Any = 50, **keys: Any) -> None:
        members = [{"ref": f"ns/t{n}", "min": 1, "max": 60, "wattsPerReplica": watts, "replicas": 30} for n in (0, 1)]
        changes = {"increase": {}, "decrease": {}, "consumption": {"query": "pdu"}} | keys
        self.run = PowerRun(policy(independents=members, **changes))
        self.run.keys = Heard(self.run.crash_point)
        self.begin()

    def begin(self) -> None:
        self.run.budget = PolicyController(
            self.run.policy,
            self.run.cluster,  # type: ignore[arg-type]
            PowerStore(self.run.keys, "power", shadow=False),  # type: ignore[arg-type]
            shadow=False,
            meter=WattsLearner(self.run.policy),
        )

    @property
    def drawn(self) -> int:
        return BASE + TRUE * self.run.total

    def tick(self, watts: int, *, meter: bool = True, **now: Any) -> TickReport:
        self.run.at += 15
        shown = Fraction(self.drawn) if meter else None
        sample = Watts(Fraction(watts), WALL + self.run.at, consumed=shown)
        return self.run.budget.cycle(TickContext(Fraction(self.run.at), WALL + self.run.at, **now), sample)

    def learn(self) -> None:
        """Through falls and rises, for an hour."""
        for number in range(240):
            self.tick(3000 if number // 20 % 2 else 6000)


@pytest.mark.parametrize("watts", [50, "measured"])
def test_the_first_fall_after_a_start_is_judged_by_what_was_learned_though_the_meter_is_gone(watts: Any) -> None:
    one = Metered(watts)
    one.learn()
    one.begin()
    for _ in range(4):
        one.tick(2500, meter=False)
    assert 0.85 * 2500 <= one.drawn <= 2500


def test_without_what_was_learned_the_same_fall_goes_too_far_up() -> None:
    one = Metered()
    one.learn()
    del one.run.keys.data[KEY]
    one.begin()
    for _ in range(4):
        one.tick(2500, meter=False)
    assert one.drawn > 2500


def test_it_is_learned_on_from_there() -> None:
    one = Metered()
    one.learn()
    one.begin()
    one.learn()
    one.tick(6000)
    assert one.run.budget.in_force.places["ns/t0"].member.watts == pytest.approx(TRUE, rel=0.05)


def test_it_is_saved_seldom_and_by_the_leader_alone() -> None:
    one = Metered()
    for number in range(240):
        one.tick(3000 if number // 20 % 2 else 6000, standby=True, hold="another one leads")
    assert KEY not in one.run.keys.data
    saved = set()
    for number in range(240):
        one.tick(3000 if number // 20 % 2 else 6000)
        saved.add(one.run.keys.data.get(KEY))
    assert 1 <= len(saved - {None}) <= 240 * 15 / EVERY + 1


def test_it_is_saved_no_more_often_where_the_process_starts_again_and_again() -> None:
    one, saved = Metered(), set()
    for number in range(240):
        if not number % 10:
            one.begin()
        one.tick(3000 if number // 20 % 2 else 6000)
        saved.add(one.run.keys.data.get(KEY))
    assert 1 <= len(saved - {None}) <= 240 * 15 / EVERY + 1


def spoiled(**fields: Any) -> str:
    one = Metered()
    one.learn()
    return json.dumps(json.loads(one.run.keys.data[KEY]) | fields)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "{",
        spoiled()[:200],
        spoiled(version=2),
        spoiled(used=[0.0, 1.0]),
        spoiled(expected=[1.0]),
        spoiled(scale=-1),
        spoiled(scale=0),
        spoiled(watts={"ns/t0": 0, "ns/t1": -5}),
        spoiled(at=-1e200),
        spoiled(spread=[[-1.0, 0, 0], [0, 1, 0], [0, 0, 1]]),
        spoiled(at="soon"),
        spoiled(more=1),
        spoiled(scale=1).replace('"scale": 1', '"scale": NaN'),
        spoiled(scale=1).replace('"scale": 1', '"scale": 1e999'),
    ],
)
def test_what_cannot_be_read_is_none_and_is_not_lost(text: str) -> None:
    one = Metered()
    one.run.keys.data[KEY] = text
    one.tick(6000, meter=False)
    assert one.run.keys.data[f"unreadable.{KEY}"] == text
    assert one.run.budget.in_force.places["ns/t0"].member.watts == 50


def test_what_was_learned_of_other_watts_does_not_count() -> None:
    one = Metered(60)
    one.run.keys.data[KEY] = spoiled()
    one.tick(6000, meter=False)
    assert one.run.budget.in_force.places["ns/t0"].member.watts == 60


def test_a_time_in_the_future_counts_as_now() -> None:
    one = Metered()
    one.run.keys.data[KEY] = spoiled(at=WALL + 80 * 365 * 86_400)
    one.tick(2500, meter=False)
    one.tick(2500, meter=False)
    assert 0.85 * 2500 <= one.drawn <= 2500


@pytest.mark.parametrize(
    "fields",
    [
        {"used": [0.0, 0.0, 0.0]},
        {"used": [0.0, 0.25, 0.25]},
        {"expected": [-1e9, -1e9, -1e9]},
        {"expected": [0.0, 0.0, 0.0]},
        {"spread": [[1, 5, 5], [5, 1, 5], [5, 5, 1]]},
        {"spread": [[1, 0, 9], [0, 1, 0], [0, 0, 1]]},
    ],
)
@pytest.mark.parametrize("watts", [50, "measured"])
def test_what_contradicts_itself_is_learned_anew(watts: Any, fields: dict[str, Any]) -> None:
    one = Metered(watts)
    one.learn()
    one.run.keys.data[KEY] = json.dumps(json.loads(one.run.keys.data[KEY]) | fields)
    one.begin()
    one.tick(6000, meter=False)
    member = one.run.budget.in_force.places["ns/t0"].member
    assert member.watts == Metered(watts).run.budget.in_force.places["ns/t0"].member.watts
