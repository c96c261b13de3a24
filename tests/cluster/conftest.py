"""Session-wide servers of the cluster tests; everything here carries the mark `cluster`."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.cluster.harness.chart import Installed, install, uninstall
from tests.cluster.harness.control_plane import ControlPlane
from tests.cluster.harness.objects import sweep
from tests.cluster.harness.tools import Tools


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.cluster)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.CallInfo[None], None]:
    """A failure shows the last lines of every server the test used."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if report.failed:
        used = {id(each): each for each in getattr(item, "funcargs", {}).values() if hasattr(each, "tails")}
        for server in used.values():
            report.sections.append(("servers", server.tails()))


PUBLISHING = {"settings": {"prometheus": {"url": "http://127.0.0.1:9090"}, "publishing": {"mode": "on"}}}


@pytest.fixture(scope="session")
def tools() -> Tools:
    return Tools.find()


@pytest.fixture(scope="session")
def plane(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """One control plane for the whole session; use `cluster` for an empty one."""
    plane = ControlPlane(tools, tmp_path_factory.mktemp("plane"))
    yield plane
    plane.stop()


@pytest.fixture
def cluster(plane: ControlPlane) -> Iterator[ControlPlane]:
    """The control plane without nodes or pods, before and after."""
    sweep(plane.api)
    yield plane
    sweep(plane.api)


@pytest.fixture
def installed(cluster: ControlPlane) -> Iterator[Installed]:
    """The chart with publishing on."""
    yield install(cluster, PUBLISHING)
    uninstall(cluster, PUBLISHING)
