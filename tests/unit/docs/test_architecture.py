"""The page about the architecture and the contracts of import-linter know every room."""

import re
import tomllib
from pathlib import Path

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


NAMED = re.compile(r"`([\w/]+(?:\.py|/))`")
"""Files and folders."""


def _is_there(name: str, line: str) -> bool:
    """A path from the root or in the daemon, or a name beside a path that the same line has."""
    paths = [Path(path) for path in NAMED.findall(line) if "/" in path]
    beside = [path.parent if path.suffix else path for path in paths]
    return any((top / near / name).exists() for top in (ROOT, ROOT / "daemon/ballast") for near in (Path(), *beside))


def test_the_page_names_files_that_are_there() -> None:
    lines = (DOCS / "architecture.md").read_text(encoding="utf-8").splitlines()
    named = [(name, line) for line in lines for name in NAMED.findall(line)]
    assert len(named) > 100
    assert [name for name, line in named if not _is_there(name, line)] == []


def test_a_file_that_is_not_there_is_noticed() -> None:
    assert _is_there("lease.py", "`cluster/writer.py`, `lease.py`")
    assert not _is_there("lease.py", "`lease.py`")
    assert not _is_there("jobs/gone.py", "`jobs/gone.py`")
