"""The contract tests against a real API server."""

from pathlib import Path

import pytest

from ballast_lab.harness.control_plane import ControlPlane
from tests.contract.objects import client, kube_api
from tests.contract.test_cluster_room import *  # noqa: F403
from tests.contract.test_kube_api import *  # noqa: F403
from tests.contract.test_power_actuators import *  # noqa: F403

__all__ = ["client", "kube_api"]


@pytest.fixture
def kubeconfig(plane: ControlPlane) -> Path:
    return plane.admin_kubeconfig
