"""The contracts of import-linter and the page about the architecture know every leaf."""

from __future__ import annotations

import tomllib

from tests.unit.docs.pages import DOCS, ROOT

LEAVES = {file.stem for file in (ROOT / "daemon" / "ballast").glob("[!_]*.py")}
CONTRACTS = {
    each["name"]: each
    for each in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
}


def test_the_contract_about_leaves_has_every_leaf() -> None:
    assert set(CONTRACTS["leaves know no room"]["source_modules"]) == {f"ballast.{name}" for name in LEAVES}


def test_the_page_has_every_leaf() -> None:
    rooms = (DOCS / "architecture.md").read_text(encoding="utf-8").partition("\nleaves ")[2].partition("```")[0]
    assert set(rooms.partition(": ")[2].replace(",", "").split()) == LEAVES


def test_the_simulator_is_kept_from_every_room_but_the_model() -> None:
    packages = {f"ballast.{each.parent.name}" for each in (ROOT / "daemon" / "ballast").glob("*/__init__.py")}
    forbidden = set(CONTRACTS["the simulator knows only the model"]["forbidden_modules"])
    assert packages - forbidden == {"ballast.model", "ballast.simulator"}
