from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.worlds.daemons import Rig, rig
from tests.worlds.plant import Plant
from tests.worlds.surroundings import nowhere

__all__ = ["nowhere"]


@pytest.fixture
def calm(tmp_path: Path) -> Iterator[Rig]:
    """Ten nodes on which nothing changes."""
    with rig(tmp_path) as one:
        yield one


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[Plant]:
    """Two Deployments that follow a feed."""
    with rig(tmp_path, nodes=3) as one:
        yield Plant(one)
