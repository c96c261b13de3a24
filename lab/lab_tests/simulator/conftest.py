import time
from collections.abc import Callable, Iterator

import pytest

from ballast_lab.simulator import EmbeddedCluster, World
from lab_tests.simulator.client import Client
from tests.worlds.clock import FakeClock

PATIENCE = 60.0


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
def eventually() -> Callable[[Callable[[], object]], None]:
    """Waits until a condition holds; controllers run in another thread."""

    def wait(holds: Callable[[], object]) -> None:
        end = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < end, "the condition did not hold in time"
            time.sleep(0.01)

    return wait
