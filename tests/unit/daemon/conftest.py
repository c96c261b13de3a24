from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.worlds.daemons import Rig, rig
from tests.worlds.plant import Plant


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in a pod, whatever the machine's environment says."""
    for name in ("POD_NAME", "POD_NAMESPACE", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)


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
