"""Strategies of other packages, found by their entry points."""

import json
import sys
import tomllib
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ballast.base.errors import SettingsError, UsageError
from ballast.cli.run import check_settings
from ballast.cli.score import score
from ballast.scoring.strategy import NAMES, REGISTRY, names, strategy
from ballast.settings import examine
from ballast.settings import load as settings
from tests.unit.daemon.test_strategies import THERE, ExtenderWorld
from tests.unit.scoring.worlds import a_fleet, by_node, node, pod, scored
from tests.worlds.snapshots import snapshot

EXAMPLE = Path(__file__).parents[3] / "examples" / "extensions"


def installed(folder: Path, monkeypatch: pytest.MonkeyPatch, package: str, **entries: str) -> None:
    """A package with these entry points, as an installer leaves it."""
    info = folder / f"{package.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = [f"{name.replace('_', '-')} = {value}" for name, value in entries.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{REGISTRY.group}]", *lines, ""]))
    monkeypatch.syspath_prepend(str(folder))


def provided(monkeypatch: pytest.MonkeyPatch, **attributes: Any) -> None:
    module = ModuleType("their_module")
    vars(module).update(attributes)
    monkeypatch.setitem(sys.modules, "their_module", module)


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    [(name, value)] = project["entry-points"][REGISTRY.group].items()
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
        "Entry point theirs = their_missing_module:parse of group ballast.strategies (package their-package) cannot be "
        "used: it cannot be imported: ModuleNotFoundError"
    )


def test_what_the_protocol_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Half:
        needs_load = True
        warms = "yes"

    installed(tmp_path, monkeypatch, "their-package", half="their_module:parse", no_function="their_module:VALUE")
    provided(monkeypatch, parse=lambda given: Half(), VALUE=3)
    with pytest.raises(UsageError, match=r"their-package.*: a Half lacks needs_pods, needs_pod, warms, score of"):
        strategy("half")
    with pytest.raises(UsageError, match=r"their-package.*: a int is not a collections.abc.Callable"):
        strategy("no-function")


class Whole:
    """A strategy of somebody else."""

    needs_load = needs_pods = needs_pod = warms = False

    def score(self, fleet: object, pod: object = None) -> object:
        """Nothing that scores are."""
        return {}


def fails(keys: object) -> object:
    """A factory with a fault."""
    raise KeyError("resource")


class Narrow(Whole):
    """It takes no pod."""

    def score(self, fleet: object) -> object:  # type: ignore[override]
        """Nothing that scores are."""
        return {}


@pytest.mark.parametrize(
    ("parse", "why"),
    [
        (fails, "making it failed: KeyError: 'resource'"),
        (lambda: Whole(), "making it failed: TypeError"),
        (lambda keys: None, "a NoneType lacks needs_load, needs_pods, needs_pod, warms, score of Strategy"),
        (lambda keys: Whole, "Whole is a class, and an instance is needed"),
        (lambda keys: Narrow(), "a Narrow lacks score of Strategy"),
    ],
)
def test_a_broken_strategy_is_a_problem_of_the_settings_and_no_traceback(
    parse: object, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provided(monkeypatch, parse=parse)
    installed(tmp_path, monkeypatch, "their-package", theirs="their_module:parse")
    monkeypatch.setenv("BALLAST_PROMETHEUS__URL", "http://prometheus:9090")
    monkeypatch.setenv("BALLAST_EXTENDER__STRATEGY", "theirs")
    with pytest.raises(
        SettingsError, match="BALLAST_EXTENDER__STRATEGY: Entry point theirs = their_module:parse"
    ) as no:
        check_settings()
    assert f"cannot be used: {why}" in str(no.value)


def test_what_is_no_score_is_refused_by_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    provided(monkeypatch, parse=lambda keys: Whole())
    installed(tmp_path, monkeypatch, "their-package", theirs="their_module:parse")
    batch = tmp_path / "cases"
    only = {"kind": "Node", "metadata": {"name": "a"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi"}}}
    arriving = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
    batch.write_text(json.dumps({"cluster": {"items": [only]}, "pod": arriving, "strategy": "theirs"}))
    score(batch=batch)
    assert json.loads(capsys.readouterr().out) == {
        "error": "The strategy theirs gave no ballast.scoring.scores.Scores, but {}."
    }


def test_a_built_in_strategy_cannot_be_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path, monkeypatch, "their-package", balanced="their_missing_module:parse")
    monkeypatch.setenv("BALLAST_PROMETHEUS__URL", "http://prometheus:9090")
    assert names() == NAMES
    assert strategy("balanced") is not None
    assert check_settings()[1] == (
        "Entry point balanced = their_missing_module:parse of group ballast.strategies (package their-package) has "
        "no effect, since balanced is built in. Give it another name.",
    )


def test_what_a_strategy_reads_counts_as_measured_for_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    traits = ("needs_load", "needs_pods", "needs_pod", "warms")
    made = SimpleNamespace(score=print, reads=("network",), **dict.fromkeys(traits, False))
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
