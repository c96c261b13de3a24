from __future__ import annotations

import pytest

from tests.unit.actuation.mill import NODES, Mill


@pytest.fixture
def mill() -> Mill:
    """One Deployment of six pods on three nodes."""
    made = Mill()
    for node in NODES[:3] * 2:
        made.add(node)
    return made
