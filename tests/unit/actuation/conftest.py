import pytest

from tests.worlds.evicting import NODES, EvictingApi


@pytest.fixture
def server() -> EvictingApi:
    """One Deployment of six pods on three nodes."""
    made = EvictingApi()
    for node in NODES[:3] * 2:
        made.add(node)
    return made
