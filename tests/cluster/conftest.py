"""Session-wide servers of the cluster tests; everything here carries the mark `cluster`."""

import subprocess
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ballast_lab.harness.chart import Installed, install, uninstall
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.evicting import clear
from ballast_lab.harness.objects import add_nodes, node, sweep
from ballast_lab.harness.prometheus import prometheus
from ballast_lab.harness.release import LOADS, ROOT, Release
from ballast_lab.harness.rights import Right, report
from ballast_lab.harness.tools import Tools


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


@dataclass
class Rights:
    """Of all control planes of this run."""

    granted: set[Right] = field(default_factory=set)
    used: set[Right] = field(default_factory=set)


RIGHTS = pytest.StashKey[Rights]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[RIGHTS] = Rights()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of xdist hands its rights to the process that reports."""
    sent = getattr(session.config, "workeroutput", None)
    if sent is not None:
        rights = session.config.stash[RIGHTS]
        sent["rights"] = [sorted(rights.granted), sorted(rights.used)]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    granted, used = getattr(node, "workeroutput", {}).get("rights", ((), ()))
    rights = node.config.stash[RIGHTS]
    rights.granted.update(map(tuple, granted))
    rights.used.update(map(tuple, used))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    rights = config.stash[RIGHTS]
    if rights.granted and not hasattr(config, "workeroutput"):
        terminalreporter.section("rights")
        for line in report(rights.granted, rights.used):
            terminalreporter.write_line(line)


PUBLISHING = {"settings": {"prometheus": {"url": "http://127.0.0.1:9090"}, "publishing": {"mode": "on"}}}


@pytest.fixture(scope="session")
def tools() -> Tools:
    return Tools.find()


@pytest.fixture(scope="session")
def plane(
    tools: Tools, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[ControlPlane]:
    """One control plane for the whole session; use `cluster` for an empty one."""
    plane = ControlPlane(tools, tmp_path_factory.mktemp("plane"))
    yield plane
    rights = pytestconfig.stash[RIGHTS]
    rights.granted |= set().union(*plane.rights.values())
    rights.used |= plane.used_rights()
    plane.stop()


@pytest.fixture
def cluster(plane: ControlPlane) -> Iterator[ControlPlane]:
    """The control plane without nodes or pods, before and after."""
    sweep(plane.api)
    yield plane
    sweep(plane.api)


@pytest.fixture
def quiet(cluster: ControlPlane) -> Iterator[ControlPlane]:
    """The control plane without what evictions remember either, before and after."""
    clear(cluster.api)
    yield cluster
    clear(cluster.api)


@pytest.fixture
def installed(cluster: ControlPlane) -> Iterator[Installed]:
    """The chart with publishing on."""
    yield install(cluster, PUBLISHING)
    uninstall(cluster, PUBLISHING)


@pytest.fixture(scope="session")
def helms() -> dict[str, Path]:
    done = subprocess.run([str(ROOT / "scripts" / "helm")], capture_output=True, text=True, check=True)
    return {version: Path(done.stdout.strip()) / version / "helm" for version in ("3", "4")}


@pytest.fixture(scope="module")
def prometheus_url(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with prometheus(tools, tmp_path_factory.mktemp("empty-prometheus"), []) as server:
        yield server.url


@pytest.fixture(params=["3", "4"], ids=["helm3", "helm4"])
def release(
    request: pytest.FixtureRequest, cluster: ControlPlane, helms: dict[str, Path], prometheus_url: str, tmp_path: Path
) -> Iterator[Release]:
    """Nodes are there, the chart is not installed yet."""
    add_nodes(cluster.api, [node(name) for name in LOADS])
    namespace = f"install-{tmp_path.name.lower().replace('_', '-').replace('[', '').replace(']', '')[:40]}".rstrip("-")
    release = Release(cluster, helms[request.param], tmp_path, namespace, prometheus_url)
    yield release
    release.helm("uninstall", "ballast", "--no-hooks", "--ignore-not-found")
    cluster.api.delete(f"/api/v1/namespaces/{namespace}")
