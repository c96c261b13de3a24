"""Planners and checks of other packages come through entry points; what cannot be used is refused by name."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from types import ModuleType

import pytest

from ballast.base import registry as registries
from ballast.base.errors import SettingsError, UsageError
from ballast.eviction import gate
from ballast.eviction.check_input import CheckInput, CheckResult, refuse
from ballast.eviction.gate import Row, Scope
from ballast.planners import built_in
from ballast.planners.rebalance import Rebalance
from ballast.settings import load
from ballast.settings.prometheus import PRESETS
from ballast.telemetry.queries import questions

Install = Callable[..., None]


class Consolidate(Rebalance):
    """A planner of somebody else."""

    name = "nightly"


class Lacking:
    """A planner that misses most of the protocol."""

    name = "lacking"
    needs_landing = True

    def idle(self) -> None:
        """The only method."""


def night(case: CheckInput) -> CheckResult:
    """A check of somebody else."""
    return refuse("it is night")


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    def add(group: str, **objects: object) -> None:
        module = ModuleType("others")
        vars(module).update(objects)
        monkeypatch.setitem(sys.modules, "others", module)
        points = EntryPoints(EntryPoint(name, f"others:{name}", group) for name in objects)
        monkeypatch.setattr(registries, "installed", lambda group, path: points.select(group=group))
        built_in.planners.cache_clear()

    yield add
    built_in.planners.cache_clear()


def _rows() -> tuple[Row, ...]:
    return gate.REGISTRY.load_all()


def test_a_planner_of_another_package_comes_after_the_built_in_ones(install: Install) -> None:
    install("ballast.planners", ours=Consolidate())
    assert [each.name for each in built_in.planners()] == [*(each.name for each in built_in.BUILT_IN), "nightly"]
    assert isinstance(built_in.planner("nightly"), Consolidate)


def test_a_planner_that_lacks_something_is_refused_by_name(install: Install) -> None:
    install("ballast.planners", ours=Lacking())
    with pytest.raises(
        UsageError, match=r"ours = others:ours of group ballast\.planners .*: a Lacking lacks needs_confirmation, "
    ):
        built_in.planners()


def test_a_planner_class_is_refused(install: Install) -> None:
    install("ballast.planners", ours=Consolidate)
    with pytest.raises(UsageError, match="an instance"):
        built_in.planners()


def test_the_name_of_a_built_in_planner_is_taken(install: Install) -> None:
    install("ballast.planners", ours=Rebalance())
    with pytest.raises(UsageError, match="the name rebalance is already in use"):
        built_in.planners()


def test_what_cannot_be_loaded_is_named(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install("ballast.planners", ours=Consolidate())
    vars(sys.modules["others"]).clear()
    with pytest.raises(
        UsageError, match=r"Entry point ours = others:ours .* cannot be used: it cannot be imported: AttributeError"
    ):
        built_in.planners()


def test_an_unknown_planner_is_refused_with_those_there_are(install: Install) -> None:
    install("ballast.planners")
    with pytest.raises(UsageError, match="Choose one of relieve, redistribute, rebalance"):
        built_in.planner("shuffle")
    assert built_in.find("shuffle") is None


def test_a_check_of_another_package_is_a_row(install: Install) -> None:
    row = Row("night", night, Scope.NODE)
    install("ballast.checks", ours=row)
    assert _rows() == (row,)


@pytest.mark.parametrize(
    ("broken", "lacks"),
    [
        (night, "a function is not a ballast.eviction.gate.Row"),
        (Row("", night, Scope.NODE), "a Row lacks name of Row"),
        (Row("night", None, "node"), "a Row lacks check, scope of Row"),  # type: ignore[arg-type]
        (Row("pdb", night, Scope.NODE), "the name pdb is already in use"),
    ],
)
def test_a_check_that_lacks_something_is_refused_by_name(install: Install, broken: object, lacks: str) -> None:
    install("ballast.checks", ours=broken)
    with pytest.raises(UsageError, match=r"Entry point ours = others:ours of group ballast\.checks") as caught:
        _rows()
    assert lacks in str(caught.value)


def test_settings_take_the_planners_of_other_packages(install: Install) -> None:
    install(built_in.REGISTRY.group, nightly=Consolidate())
    assert load({"BALLAST_EVICTION__PLANNERS": "relieve,nightly"}).eviction.planners == ("relieve", "nightly")
    with pytest.raises(SettingsError, match=r"BALLAST_EVICTION__PLANNERS .*'tidi' is not one of them"):
        load({"BALLAST_EVICTION__PLANNERS": "tidi"})


@pytest.mark.parametrize(
    ("broken", "lacks"),
    [
        (Lacking(), "a Lacking lacks queries, freshness of Preset"),
        (type("Whole", (), {"queries": night, "freshness": night}), "Whole is a class, and an instance is needed"),
    ],
)
def test_a_preset_that_lacks_something_is_refused_by_name(install: Install, broken: object, lacks: str) -> None:
    install(PRESETS.group, theirs=broken)
    with pytest.raises(SettingsError, match=r"Entry point theirs = others:theirs of group ballast\.presets") as caught:
        load({"BALLAST_PROMETHEUS__PRESET": "theirs"})
    assert lacks in str(caught.value)


def test_a_preset_has_the_name_of_its_entry_point_and_replaces_no_built_in_one(install: Install) -> None:
    install(PRESETS.group, **{"node-exporter": Lacking(), "theirs": Lacking()})
    assert questions(load({})).problems == {}
    with pytest.raises(SettingsError, match=r"expected one of 'node-exporter', .*'psi' or 'theirs'"):
        load({"BALLAST_PROMETHEUS__PRESET": "telegraf"})


def test_the_command_line_refuses_a_broken_check_in_one_line(tmp_path: Path) -> None:
    info = tmp_path / "others-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[ballast.checks]\nnight = others:night\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "ballast", "plan", "relieve", "--cluster", "c.json", "--metrics", "m.json"]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(
        "Entry point night = others:night of group ballast.checks (package others) cannot be "
    )
    assert done.stderr.count("\n") == 1
