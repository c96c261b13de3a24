"""A saved state of power that Ballast did not write like this costs no memory and no time, and is begun anew."""

import json
from typing import Any

import pytest

from tests.unit.daemon.test_power_absolute import power_run
from tests.worlds.power_run import PowerRun

STATE = "power.state.power"
DEEP = "[" * 100_000 + "]" * 100_000


def spoiled(text: str) -> PowerRun:
    """A run whose saved state is this text when the next process leads."""
    one = power_run({}, {})
    one.run([200.0] * 3)
    one.keys.data[STATE] = text
    one.begin()
    return one


@pytest.mark.parametrize(
    "number", ["1e999999999", "1E-999999999", "inf", "nan", "1/0", "1_000", " 1", "0x10", "9" * 5000]
)
@pytest.mark.parametrize("field", ["reference", "seen"])
def test_a_number_of_any_size_is_refused_at_once(number: str, field: str) -> None:
    one = spoiled(json.dumps({"state": {field: number}}))
    one.run([100.0] * 3)
    assert one.total <= 10


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{",
        '{"state": ' + DEEP + "}",
        '{"state": {}, "more": ' + DEEP + "}",
        '{"state": {"last": {"ns/t0": -1}}}',
        '{"state": {"last": {"ns/t0": 1e999}}}',
        '{"state": {"schema": 2}}',
        '{"state": {}, "watts": {"ns/t0": "1e999999999"}}',
    ],
)
def test_what_is_no_state_of_power_is_begun_anew(text: str) -> None:
    one = spoiled(text)
    one.run([100.0] * 3)
    assert one.total <= 10


@pytest.mark.parametrize("state", [{"last": {"ns/t0": 10**30}}, {"baseline": {"ns/t1": 10**30}}, {"sequence": 10**30}])
def test_counts_beyond_any_replica_move_nothing_beyond_its_bounds(state: dict[str, Any]) -> None:
    one = spoiled(json.dumps({"state": state}))
    one.run([100.0] * 3)
    assert one.total <= 10
