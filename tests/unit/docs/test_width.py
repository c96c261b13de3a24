"""Pages wrap at 120 characters, so that they can be read and compared in a terminal."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.docs.pages import ROOT

WIDTH = 120
FOLDERS = ("docs", "measurements", "contrib", "charts", "dashboards", "examples", ".github")
PAGES = sorted([*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))])


def too_wide(text: str) -> Iterator[str]:
    """The lines beyond the width, except in code blocks and tables, and except for words that are longer themselves."""
    code = False
    for number, line in enumerate(text.splitlines(), 1):
        code ^= line.lstrip().startswith("```")
        can_wrap = re.fullmatch(r"\s*([*+-]|\d+\.|#+)?\s*\S+", line) is None
        if len(line) > WIDTH and can_wrap and not code and not line.lstrip().startswith("|"):
            yield f"line {number} has {len(line)} characters"


@pytest.mark.parametrize("page", [pytest.param(page, id=page.relative_to(ROOT).as_posix()) for page in PAGES])
def test_a_page_wraps(page: Path) -> None:
    assert list(too_wide(page.read_text(encoding="utf-8"))) == []


def test_characters_count_and_not_bytes() -> None:
    assert list(too_wide("σ " * 60)) == []
    assert list(too_wide("σ " * 61)) == ["line 1 has 122 characters"]
    assert list(too_wide("| " * 61)) == []
    assert list(too_wide("* [" + "x" * 130 + "](y)")) == []
    assert list(too_wide("```\n" + "x " * 61 + "\n```")) == []


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.name)
def test_a_page_can_be_read_at_a_sitting(page: Path) -> None:
    assert len(page.read_text(encoding="utf-8").split()) <= 6_000
