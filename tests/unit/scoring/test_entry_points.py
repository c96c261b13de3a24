"""Strategies of other packages, found by their entry points."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ballast.base.errors import SettingsError, UsageError
from ballast.cli.checked_settings import checked
from ballast.scoring import strategy as registry
from ballast.scoring.protocol import TRAITS
from ballast.scoring.strategy import NAMES, names, strategy
from ballast.settings import examine
from ballast.settings import load as settings
from tests.unit.daemon.test_strategies import THERE, ExtenderWorld
from tests.unit.placement.snapshots import snapshot
from tests.unit.scoring.worlds import a_fleet, by_node, node, pod, scored

EXAMPLE = Path(__file__).parents[3] / "examples" / "extensions"


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    """What was found is kept, so each test begins and ends with nothing found."""
    registry._installed.cache_clear()
    yield
    registry._installed.cache_clear()


def installed(folder: Path, monkeypatch: pytest.MonkeyPatch, package: str, **entries: str) -> None:
    """A package with these entry points, as an installer leaves it."""
    info = folder / f"{package.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = [f"{name.replace('_', '-')} = {value}" for name, value in entries.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{registry.GROUP}]", *lines, ""]))
    monkeypatch.syspath_prepend(str(folder))


def provided(monkeypatch: pytest.MonkeyPatch, **attributes: Any) -> None:
    module = ModuleType("their_module")
    vars(module).update(attributes)
    monkeypatch.setitem(sys.modules, "their_module", module)


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    [(name, value)] = project["entry-points"][registry.GROUP].items()
    monkeypatch.syspath_prepend(str(EXAMPLE))
    installed(tmp_path, monkeypatch, project["name"], **{name: value})


@pytest.mark.usefixtures("example")
def test_the_example_is_found_and_scores() -> None:
    assert names() == (*NAMES, "free-bandwidth")
    bandwidth = {"cpu": "4", "example.com/mbps": "1000"}
    nodes = [node("a", bandwidth), node("b", bandwidth), node("c", {"cpu": "4"})]
    fleet = a_fleet(nodes, [pod({"example.com/mbps": "500"}, name="p", on="a")])
    arriving = pod({"example.com/mbps": "250"})
    assert by_node(fleet, scored(fleet, arriving, "free-bandwidth")) == {"a": 25, "b": 75, "c": 0}
    assert by_node(fleet, scored(fleet, arriving, "free-bandwidth", resource="cpu")) == {"a": 100, "b": 100, "c": 100}
    with pytest.raises(UsageError, match=r"The strategy free-bandwidth has no key resorce\. Did you mean resource"):
        strategy("free-bandwidth", {"resorce": "cpu"})


@pytest.mark.usefixtures("example")
def test_the_daemon_uses_the_example_by_its_name() -> None:
    keys = {"BALLAST_SCORING__KEYS": '{"free-bandwidth": {"resource": "cpu"}}'}
    world = ExtenderWorld(snapshot([0.1] * 3), THERE, {"BALLAST_EXTENDER__STRATEGY": "free-bandwidth", **keys})
    assert world.service.node_scores("free-bandwidth") == {"n0": 69, "n1": 50, "n2": 97}
    assert world.chosen("x") == "n2"


def test_nothing_is_imported_before_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path, monkeypatch, "their-package", theirs="their_missing_module:parse")
    assert "theirs" in names()
    assert strategy("balanced") is not None
    with pytest.raises(UsageError) as refused:
        strategy("theirs")
    assert str(refused.value).startswith(
        "The strategy 'theirs' of the package their-package (entry point theirs = their_missing_module:parse) cannot "
        "be used: it cannot be imported: ModuleNotFoundError"
    )


def test_what_the_protocol_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Half:
        needs_load = True
        warms = "yes"

    installed(tmp_path, monkeypatch, "their-package", half="their_module:parse", no_function="their_module:VALUE")
    provided(monkeypatch, parse=lambda given: Half(), VALUE=3)
    with pytest.raises(UsageError, match=r"their-package .*: a Half lacks score, needs_pods, needs_pod, warms"):
        strategy("half")
    with pytest.raises(UsageError, match=r"their-package .*: it is no function that makes a strategy from its keys"):
        strategy("no-function")


def test_a_built_in_strategy_cannot_be_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path, monkeypatch, "their-package", balanced="their_missing_module:parse")
    monkeypatch.setenv("BALLAST_PROMETHEUS__URL", "http://prometheus:9090")
    assert names() == NAMES
    assert strategy("balanced") is not None
    assert checked()[1] == (
        "Entry point balanced = their_missing_module:parse of group ballast.strategies has no effect, since balanced "
        "is built in. Give it another name.",
    )


def test_what_a_strategy_reads_counts_as_measured_for_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = SimpleNamespace(score=print, reads=("network",), **dict.fromkeys(TRAITS, False))
    provided(monkeypatch, parse=lambda given: made)
    installed(tmp_path, monkeypatch, "their-package", theirs="their_module:parse")
    used = {"BALLAST_EXTENDER__STRATEGY": "theirs"}
    assert examine({**used, "BALLAST_TELEMETRY__RESOURCES": "cpu,memory,network"}).warnings == ()
    [text] = examine(used).warnings
    assert text.startswith("The strategy theirs reads network, but BALLAST_TELEMETRY__RESOURCES does not have it")
    made.reads = "network"
    with pytest.raises(UsageError, match="the reads of a SimpleNamespace are no tuple of names of resources"):
        strategy("theirs")


def test_the_settings_refuse_a_name_that_is_not_installed() -> None:
    with pytest.raises(SettingsError, match=r"expected one of .*load-variation"):
        settings({"BALLAST_EXTENDER__STRATEGY": "free-bandwidth"})
