"""The whole daemon: evictions start no further replica of what a power policy scales."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.worlds.daemons import rig
from tests.worlds.plant import TARGETS, Plant

pytestmark = pytest.mark.slow


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[Plant]:
    with rig(tmp_path, nodes=3) as one:
        yield Plant(one)


@pytest.mark.parametrize("mode", ["on", "dry-run"])
def test_members_of_an_acting_policy_are_known_to_evictions(plant: Plant, mode: str) -> None:
    daemon = plant.daemon(mode=mode, acting=False, EVICTION__MODE="on", EVICTION__SURGE="true")
    assert daemon.eviction is not None
    assert daemon.board.snapshot is not None
    budgeted = daemon.eviction.moments.take_moment(daemon.board.snapshot).objects.budgeted
    members = {tuple(name.split("/")) for name in TARGETS} if mode == "on" else set()
    assert {(namespace, name) for namespace, _, name in budgeted} == members
    daemon.stop()
