from collections.abc import Callable, Iterator

import pytest

from ballast_lab.harness.waiting import until
from ballast_lab.simulator import EmbeddedCluster, World
from lab_tests.simulator.client import Client
from tests.worlds.clock import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    """Stands still for the world; timeouts of requests pass fifty times as fast as real time."""
    clock = FakeClock()
    clock.speed = 50.0
    return clock


@pytest.fixture
def cluster(clock: FakeClock) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(World(nodes=6, seed=3, clock=clock, scene="calm")) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: EmbeddedCluster) -> Iterator[Client]:
    client = Client(cluster)
    yield client
    client.close()


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], object]:
    """Waits until a condition holds; controllers run in another thread."""
    return until
