"""The contract tests run against what `kubeconfig` leads to: here the simulator, in tests/cluster a real API server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ballast_lab.simulator.cluster import EmbeddedCluster
from ballast_lab.simulator.world import World
from tests.contract.objects import client, kube_api

__all__ = ["client", "kube_api"]


@pytest.fixture(scope="session")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(World(nodes=2, scene="calm"), bookmark_seconds=1.0) as cluster:
        yield cluster


@pytest.fixture
def kubeconfig(simulated: EmbeddedCluster, tmp_path: Path) -> Path:
    """An administrator's way to an API server."""
    return simulated.kubeconfig(tmp_path / "kubeconfig")
