"""An anchor whose reference and counts say opposite things, after changes by others: it is left, not kept for ever."""

from typing import Any

import pytest

from ballast.power.controller_state import ControllerMode, Reason
from tests.worlds.power import Rig, members, policy, rig


def returned_by_day(**keys: Any) -> Rig:
    """Two targets of 10 at 1000 W; one is away from night (4) to day and returns with the 4 of the night."""
    daemon = rig(policy(**members((1, 40), (1, 40)), **keys), t0=10, t1=10).run([1000.0] * 2 + [400.0] * 8)
    away = daemon.cluster.pop("ns/t1")
    daemon.run([400.0] * 3 + [1000.0] * 8)
    daemon.cluster["ns/t1"] = away
    daemon.run([1000.0] * 3)
    assert daemon.cluster == {"ns/t0": 10, "ns/t1": 4}
    return daemon


def lowered_at_its_maximum(**keys: Any) -> Rig:
    """A target at its maximum of 31, at watts that carry many more; someone sets 26."""
    daemon = rig(policy(**members((1, 31)), **keys), t0=20).run([1000.0] * 2 + [3000.0] * 8)
    daemon.scale("ns/t0", 26)
    return daemon.run([3000.0] * 3)


@pytest.mark.parametrize("keys", [{}, {"increase": {"window": 0}, "decrease": {"window": 0}}], ids=["windows", "none"])
def test_a_fall_that_carries_more_than_runs_leads_up(keys: dict[str, Any]) -> None:
    daemon = returned_by_day(**keys).run([900.0] * 20)
    assert daemon.total == 18
    daemon.outcomes.clear()
    daemon.run([900.0] * 20)
    assert {outcome.reason for outcome in daemon.outcomes} == {Reason.INSIDE}
    assert daemon.state.mode is ControllerMode.STABLE


def test_a_fall_to_watts_that_carry_the_maximum_leads_to_it() -> None:
    daemon = lowered_at_its_maximum().run([2000.0] * 20)
    assert daemon.total == 31


def test_an_emergency_that_carries_more_than_runs_is_none() -> None:
    daemon = lowered_at_its_maximum(emergencyDrop={"relative": 0.4})
    before = len(daemon.outcomes)
    daemon.run([1700.0] * 20)
    assert daemon.total == 29
    acted = [outcome.reason for outcome in daemon.outcomes[before:] if outcome.state.plan]
    assert acted == [Reason.SCALED_UP]


def test_below_what_runs_a_fall_is_a_fall() -> None:
    daemon = returned_by_day().run([500.0] * 8)
    assert daemon.total == 10
