from __future__ import annotations

from pathlib import Path

import pytest

from ballast.doctor.reference import described, markdown
from ballast.doctor.registry import CHECKS

PAGE = Path(__file__).parents[3] / "docs" / "doctor.md"


def test_the_page_is_in_step_with_the_checks() -> None:
    assert PAGE.read_text() == markdown(), "run: python -m ballast.doctor.reference > docs/doctor.md"


@pytest.mark.parametrize("name", CHECKS)
def test_every_check_says_what_it_finds_and_what_mends_it(name: str) -> None:
    assert all(described(CHECKS[name]))
    assert f"## {name}\n" in markdown()
