"""A rehearsal decides what the daemon decides: the same plans, steps, refusals and conditions, minute by minute."""

from pathlib import Path

import numpy as np
import pytest

from ballast.model.sample import Floats
from lab_tests.rehearse.two_worlds import Minute, TwoWorlds, compare


def spiky(pods: int, generator: np.random.Generator) -> Floats:
    """[pod, five minutes]: calm, with a spike of an hour now and then."""
    base = generator.lognormal(0, 0.5, (pods, 1))
    begins = generator.random((pods, 48)) < 0.05
    spikes = np.maximum.reduce([np.roll(begins, shift, axis=1) for shift in range(12)])
    return np.asarray(base * (1.0 + 4.0 * spikes) * generator.uniform(0.9, 1.1, (pods, 48)))


@pytest.mark.parametrize("seed", [6, pytest.param(2, marks=pytest.mark.slow), pytest.param(5, marks=pytest.mark.slow)])
def test_a_rehearsal_decides_what_the_daemon_decides(tmp_path: Path, seed: int) -> None:
    worlds = compare(tmp_path, 60, {}, nodes=12, each=12, mean=0.5, seed=seed, drawn=spiky)
    assert worlds.difference() is None
    assert sum(len(minute.moves) for minute in worlds.foretold) > 2, "there was something to decide"
    assert len({tuple(minute.refused) for minute in worlds.foretold}) > 2


def test_the_first_difference_is_told() -> None:
    same, other = Minute(refused={"rate": 2}, sentence="calm"), Minute(refused={"rate": 3}, sentence="busy")
    said = TwoWorlds([same, same], [same, other]).difference()
    assert said is not None
    assert said.startswith("minute 1, refused")
    assert "{'rate': 2}" in said
    assert "{'rate': 3}" in said
