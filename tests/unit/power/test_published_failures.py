"""Where the published model fails: reproduced to the letter with `compat: paper`, absent otherwise."""

from typing import Any

import pytest

from ballast.power.controller_state import ControllerMode
from ballast.power.replay import Replay
from tests.worlds.power import follow, members, policy, totals

HOLD = 12


def both(watts: list[float | None], tick: int = 15, count: int = 10, **keys: Any) -> tuple[Replay, Replay]:
    """Ours and the published one; one target of `count` replicas."""
    keys.setdefault("independents", [{"ref": "ns/t0", "max": 400}])
    runs = [follow(policy(**keys, **how), watts, tick, t0=count) for how in ({}, {"compat": "paper"})]
    return runs[0], runs[1]


def levels(*watts: float) -> list[float | None]:
    return [each for level in watts for each in [level] * HOLD]


def ends(run: Replay) -> list[int]:
    """Replicas at the end of each level."""
    return totals(run)[HOLD - 1 :: HOLD]


@pytest.mark.parametrize(
    ("bounds", "count", "powers", "ours", "paper"),
    [
        ((5, 100), 10, (1000, 100, 1000), [10, 5, 10], [10, 5, 50]),
        ((1, 20), 20, (1000, 2000, 1000), [20, 20, 20], [20, 20, 10]),
        ((1, 9999), 5, (1, 1000), [5, 5000], [5, 5000]),
        ((1, 20), 10, (1000, 800, 1300), [10, 8, 13], [10, 8, 13]),
    ],
)
def test_bounds_are_no_ratchet(
    bounds: tuple[int, int], count: int, powers: tuple[float, ...], ours: list[int], paper: list[int]
) -> None:
    run, published = both(levels(*powers), count=count, **members(bounds))
    assert ends(run) == ours
    assert ends(published) == paper


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "steps", "ideal"), [(0.946, 40, 1), (1.054, 60, 211)])
def test_small_steps_do_not_stall(factor: float, steps: int, ideal: int) -> None:
    run, published = both(levels(*(round(1000 * factor**i, 3) for i in range(steps + 1))), count=9, **members((1, 500)))
    assert ends(published)[-1] == 9
    assert abs(ends(run)[-1] - ideal) <= 0.06 * ideal


def test_a_square_wave_between_two_ends_of_a_window_is_no_signal() -> None:
    run, published = both([1000.0, 1200.0] * 100, tick=30, count=20, **members((1, 40)))
    assert run.actions == 0
    assert published.actions == 66


def test_a_pending_increase_never_takes_replicas_away() -> None:
    sides = {side: {"window": 60, "tolerance": 0.2} for side in ("increase", "decrease")}
    feed: list[float | None] = [1000, 1060, 1040, 960, 930, 900]
    run, published = both(feed, count=20, **sides)
    assert [tick.delta for tick in published.ticks] == [0, 0, 0, 0, 0, -2]
    assert published.ticks[4].state is ControllerMode.PENDING_INCREASE
    assert run.actions == 0
    assert run.ticks[5].state is ControllerMode.PENDING_DECREASE


def test_a_further_fall_does_not_cancel_a_reduction() -> None:
    run, published = both([1000, 900, 800, 700, 500, 300, 300, 300], count=20)
    assert published.cancels == 1
    assert totals(published)[5] == 20
    assert totals(run)[5] == 18
    assert run.cancels == 0


def test_a_bad_sample_does_not_end_the_controller() -> None:
    run, published = both([1000, 500, float("nan"), 500, None, 500, *[500] * 3], count=20)
    assert totals(run)[-1] == totals(published)[-1] == 10


def test_cancelled_windows_leave_the_reference_where_it_was() -> None:
    run, published = both([1000, 1100, 1000, 1100, 1180, 1300, 1300], count=20)
    assert [tick.reference for tick in run.ticks] == [1000] * 7
    assert run.cancels == 1
    assert published.ticks[5].reference == 1300
    assert published.cancels == 1
    assert published.ticks[5].reason == "Unstable"


def test_nothing_is_lost_from_zero_watts() -> None:
    """Divisions by 0 W are decided as the author's implementation does, or do not happen."""
    run, published = both(levels(1000, 0, 0, 1000), count=20, **members((2, 40)))
    assert ends(run) == [20, 2, 2, 20]
    assert ends(published)[-1] == 40
    start_dark, _ = both(levels(0, 1000, 500), count=20, **members((2, 40)))
    assert ends(start_dark) == [20, 20, 10]
    assert start_dark.ticks[0].reference is None
