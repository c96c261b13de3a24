"""The page about the architecture and the contracts of import-linter know every room."""

import tomllib

from tests.unit.docs.pages import DOCS, ROOT

ROOMS = {file.parent.name for file in (ROOT / "daemon" / "ballast").glob("*/__init__.py")}
CONTRACTS = {
    contract["name"]: contract
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
}


def test_every_room_has_its_layer() -> None:
    layers = {room.strip() for layer in CONTRACTS["rooms"]["layers"] for room in layer.split("|")}
    assert layers == {f"ballast.{room}" for room in ROOMS - {"settings"}} | {"ballast_lab"}


def test_the_page_has_every_room() -> None:
    drawing = (DOCS / "architecture.md").read_text(encoding="utf-8").partition("\n```\n")[2].partition("```")[0]
    assert {name for line in drawing.splitlines() for name in line[:36].split()} >= ROOMS


def test_the_simulator_is_kept_from_every_room_but_the_model() -> None:
    forbidden = set(CONTRACTS["the simulator knows only the model"]["forbidden_modules"])
    assert {f"ballast.{room}" for room in ROOMS} - forbidden == {"ballast.model", "ballast.answers", "ballast.base"}
