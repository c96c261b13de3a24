"""The whole daemon with its default settings: noise moves nothing, and a node that is hot then is soon relieved."""

from pathlib import Path

import pytest

from ballast.eviction.gate_rules import GateRules
from ballast_lab.bench.even_world import noisy_day


@pytest.mark.parametrize("noise", [0.02, 0.1])
def test_noise_moves_nothing_and_a_hot_node_is_soon_relieved(tmp_path: Path, noise: float) -> None:
    moved, cycles = noisy_day(tmp_path, 5, 20, noise, minutes=30)
    assert moved == 0
    assert cycles is not None
    assert cycles <= GateRules().confirmations + 1
