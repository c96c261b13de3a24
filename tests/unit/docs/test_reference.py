"""The generated pages name everything that the code has."""

import re
import runpy
from typing import Any

import pytest
from typer.main import get_command

from ballast.cli.app import app
from ballast.serving.openapi import DOCUMENT
from tests.unit.docs.pages import DOCS, ROOT

pytestmark = pytest.mark.slow

SCRIPT: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "reference_pages.py"))
SOURCES = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "daemon" / "ballast").rglob("*.py"))]


@pytest.mark.parametrize("name", sorted(SCRIPT["PAGES"]))
def test_every_page_is_made_and_kept(name: str) -> None:
    text = SCRIPT["PAGES"][name]()
    assert text.startswith("# ")
    kept = (DOCS / "reference" / f"{name}.md").read_text(encoding="utf-8")
    assert kept == text, "run: scripts/reference_pages.py"


def test_every_condition_has_a_row() -> None:
    page = SCRIPT["conditions"]()
    set_by = r"(?:conditions?\.(?:report|set|set_status)|PolicyCondition)\(\s*\"([A-Z]\w+)\""
    found = {name for text in SOURCES for name in re.findall(set_by, text)}
    assert {"NodesUnknown", "FeedAvailable", "LandingNotSteered"} <= found
    assert sorted(name for name in found if f"| `{name}` |" not in page) == []


def test_every_event_has_a_row() -> None:
    page = SCRIPT["events"]()
    told = r"(?:\.|_)emit\([^()]*?\"([A-Z][a-z]+(?:[A-Z][a-z]+)+)\"|(?:done_)?event(?:: str)? ?= ?\"([A-Z]\w+)\""
    found = {name for text in SOURCES for pair in re.findall(told, text) for name in pair if name}
    assert {"BatchNoRoom", "ScaledForPower"} <= found
    assert sorted(name for name in found if f"| `{name}` |" not in page) == []


def test_every_metric_has_a_row() -> None:
    page = SCRIPT["metrics"]()
    declared = r"(?i:counter|gauge|histogram|\w*MetricFamily)\(\s*\"(ballast_\w+)\""
    found = {name for text in SOURCES for name in re.findall(declared, text)}
    assert {"ballast_condition", "ballast_nodes"} <= found
    assert sorted(name for name in found if not re.search(rf"\| `{name}(?:_total)?` \|", page)) == []
    assert "`ballast_power_available_watts`" in page


def test_every_path_of_the_api_has_a_section() -> None:
    page = SCRIPT["api"]()
    assert [path for path in DOCUMENT["paths"] if f"## `GET {path}`" not in page] == []


def test_every_command_and_option_has_its_place() -> None:
    page = SCRIPT["commands"]()
    missing = []
    for path, command in SCRIPT["walk"](get_command(app), "ballast"):
        section = page.partition(f"## `{path}`\n")[2].partition("\n## ")[0]
        offered = [option for each in command.params if not getattr(each, "hidden", False) for option in each.opts]
        missing += [f"{path} {option}" for option in offered if option not in section]
    assert [each for each in missing if " -" in each and not each.endswith("--help")] == []
