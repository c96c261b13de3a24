"""Every alert and every condition has a page."""

import ast
import subprocess
import sys
from collections.abc import Iterator

import pytest

from ballast.base.condition_types import CONDITION_TYPES, GOOD
from ballast.base.metrics import Metrics
from ballast.cluster.conditions import Conditions
from tests.worlds.chart import ROOT
from tests.worlds.clock import FakeClock

pytestmark = pytest.mark.slow

SETTERS = {"report", "say", "set", "clear"}


def named() -> Iterator[str]:
    """The types that the code sets, where it names them."""
    for path in sorted((ROOT / "daemon" / "ballast").rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text())):
            if not isinstance(call, ast.Call) or not call.args or not isinstance(call.args[0], ast.Constant):
                continue
            function = call.func
            if isinstance(function, ast.Attribute) and function.attr in SETTERS:
                owner = ast.unparse(function.value)
                if owner.endswith("conditions"):
                    yield str(call.args[0].value)


def test_the_pages_are_those_the_generator_writes() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "runbooks.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_condition_that_is_set_is_listed() -> None:
    assert set(named()) - set(CONDITION_TYPES) == set(), "add it to ballast/condition_types.py, run scripts/runbooks.py"


def test_every_type_has_its_series_from_the_start() -> None:
    metrics = Metrics()
    Conditions(FakeClock(), metrics)
    found = {
        sample.labels["type"]: sample.value
        for family in metrics.registry.collect()
        if family.name == "ballast_condition"
        for sample in family.samples
    }
    assert found == {name: float(name in GOOD) for name in CONDITION_TYPES}
