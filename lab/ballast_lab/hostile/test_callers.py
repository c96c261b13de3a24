"""Anybody in the network: no request takes the daemon down, slows the scheduler's, or changes an answer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from ballast_lab.hostile.attacks import ATTACKS, UNSEEN
from ballast_lab.hostile.measuring import LIVEZ, P99, SLACK, attacked_by


@pytest.mark.parametrize("name", ATTACKS)
def test_it_stays_alive_answers_and_gives_memory_back(
    name: str, environment: Mapping[str, str], tmp_path: Path
) -> None:
    found = attacked_by(ATTACKS[name], environment, tmp_path)
    told = f"{name}: {found}"
    print(told)
    assert found.given_back, told
    assert found.bounded, told
    assert not found.failed, (told, found.failed[:5])
    assert found.p99 <= SLACK * P99, told
    assert found.livez <= SLACK * LIVEZ, told
    if name == UNSEEN:
        assert found.after >= 0.8 * found.before
