"""The page of the judge of faults is the one that its tables and results make."""

from __future__ import annotations

import json
import runpy
from typing import Any

from ballast_lab.faults.cells import AT_START, all_cells
from ballast_lab.faults.parts.registry import PARTS
from tests.unit.docs.pages import DOCS, ROOT

SCRIPT: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "reliability_page.py"))
FOUND = json.loads((DOCS / "reliability.json").read_text(encoding="utf-8"))


def test_it_is_up_to_date() -> None:
    text = (DOCS / "reliability.md").read_text(encoding="utf-8")
    assert text == SCRIPT["page"](FOUND), "run: scripts/reliability_page.py"


def test_every_kind_of_write_is_explained() -> None:
    assert {kind for part in PARTS.values() for kind in (*part.kinds, *AT_START)} == set(SCRIPT["KINDS"])


def test_what_was_found_is_of_cells_that_exist() -> None:
    assert set(FOUND["cells"]) <= {str(cell) for cell in all_cells()}
    assert FOUND["broken"] == 0
