"""What could be shed within a time."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.power.pledge import WITHIN, pledges
from ballast.power.policy import PowerPolicy
from ballast.power.policy_reader import read

WEB = {"ref": "s/web", "min": 2, "max": 50, "wattsPerReplica": 10, "priority": 5}
BATCH = {"ref": "s/batch", "min": 0, "max": 50, "wattsPerReplica": 40, "priority": 1}
RUNNING = {"s/web": 12, "s/batch": 5}


def policy(*members: dict[str, Any], **keys: Any) -> PowerPolicy:
    return read([{"name": "p", "feed": {"watts": 5000}, "independents": members or (WEB, BATCH), **keys}], "power")[0]


def shed(one: PowerPolicy, delay: float = 5, running: dict[str, int] | None = None) -> dict[str, tuple[float, Any]]:
    found = pledges(one, running or RUNNING, one.places.keys(), Fraction(delay))
    return {each.within: (float(each.watts), {key: float(w) for key, w in each.by_priority.items()}) for each in found}


def test_all_above_the_minima_by_priority() -> None:
    assert shed(policy()) == dict.fromkeys(WITHIN, (300.0, {1: 200.0, 5: 100.0}))


def test_what_takes_longer_is_not_promised_earlier() -> None:
    assert {within: watts for within, (watts, _) in shed(policy(), 45).items()} == {"10s": 0, "1m": 300, "10m": 300}
    slow = policy(decrease={"window": "5m"})
    assert {within: watts for within, (watts, _) in shed(slow).items()} == {"10s": 0, "1m": 0, "10m": 300}


def test_steps_bound_it() -> None:
    """One replica each 15 s: the lowest priority first."""
    stepped = policy(decrease={"maxStep": {"pods": 1, "period": "15s"}})
    assert shed(stepped, 0)["10s"] == (40.0, {1: 40.0})
    assert shed(stepped, 0)["1m"] == (200.0, {1: 200.0})
    own = policy(WEB, {**BATCH, "maxStep": {"pods": 2, "period": "1m"}})
    assert shed(own, 0)["10s"] == (180.0, {1: 80.0, 5: 100.0})


def test_what_cannot_be_changed_or_has_no_watts_is_no_promise() -> None:
    one = policy()
    found = pledges(one, RUNNING, {"s/web"}, Fraction(0))
    assert [float(each.watts) for each in found] == [100.0] * 3
    bare = policy({"ref": "s/web", "min": 0, "max": 5})
    assert pledges(bare, {"s/web": 5}, {"s/web"}, Fraction(0)) == []


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 700))
def test_more_time_never_sheds_less_and_never_below_the_minima(web: int, batch: int, delay: int) -> None:
    one = policy()
    watts = [each[0] for each in shed(one, delay, {"s/web": web, "s/batch": batch}).values()]
    assert watts == sorted(watts)
    assert watts[-1] <= max(0, web - 2) * 10 + batch * 40


@pytest.mark.parametrize("metered", [True, False])
def test_the_sum_of_policies(metered: bool) -> None:
    from ballast.cli.power.pledge import together

    part = {"within": "10s", "watts": 10.0, "by_priority": {"10": 4.0, "2": 6.0}, "rests_on": "meter"}
    other = {"within": "10s", "watts": 1.0, "by_priority": {"2": 1.0}, "rests_on": "meter" if metered else "declared"}
    assert together([[part], [other]]) == [
        {
            "within": "10s",
            "watts": 11.0,
            "by_priority": {"2": 7.0, "10": 4.0},
            "rests_on": "meter" if metered else "declared",
        }
    ]
