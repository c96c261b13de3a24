from pathlib import Path

import pytest

from ballast.base.condition_types import CONDITION_TYPES
from ballast.doctor.checks import CHECKS
from ballast_lab.pages.doctor import SEEN, described, markdown

PAGE = Path(__file__).parents[3] / "docs" / "doctor.md"


def test_the_page_is_in_step_with_the_checks() -> None:
    assert PAGE.read_text() == markdown(), "run: python -m ballast_lab.pages.doctor > docs/doctor.md"


@pytest.mark.parametrize("name", CHECKS)
def test_every_check_says_what_it_finds_and_what_mends_it(name: str) -> None:
    assert all(described(CHECKS[name]))
    assert f"## {name}\n" in markdown()


def test_every_check_names_its_condition_or_what_the_daemon_cannot_see() -> None:
    assert set(SEEN) == set(CHECKS)
    for name, seen in SEEN.items():
        assert seen.conditions or seen.unseen, name
        assert set(seen.conditions) <= set(CONDITION_TYPES), name
