"""The page of the judge of faults is the one that its tables and results make."""

import runpy
from pathlib import Path
from typing import Any

from ballast_lab.faults import counts
from ballast_lab.faults.cells import AT_START, all_cells
from ballast_lab.faults.parts.registry import PARTS
from tests.unit.docs.pages import DOCS, ROOT

SCRIPT: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "reliability_page.py"))
FOUND = counts.read(DOCS / "reliability.json")


def test_it_is_up_to_date() -> None:
    text = (DOCS / "reliability.md").read_text(encoding="utf-8")
    assert text == SCRIPT["page"](FOUND), "run: scripts/reliability_page.py"


def test_every_kind_of_write_is_explained() -> None:
    assert {kind for part in PARTS.values() for kind in (*part.kinds, *AT_START)} == set(SCRIPT["KINDS"])


def test_what_was_found_is_of_cells_that_exist() -> None:
    assert set(FOUND["cells"]) <= {str(cell) for cell in all_cells()}
    assert FOUND["broken"] == 0


def test_what_was_found_is_written_as_it_is_read(tmp_path: Path) -> None:
    counts.write(tmp_path / "counts.json", FOUND)
    assert counts.read(tmp_path / "counts.json") == FOUND
    assert (tmp_path / "counts.json").read_bytes() == (DOCS / "reliability.json").read_bytes()
