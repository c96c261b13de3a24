"""The page about scores describes every strategy that is built in."""

import re

import pytest

from ballast.scoring.strategy import NAMES
from tests.unit.docs.pages import DOCS

PAGE = (DOCS / "scoring.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_every_strategy_has_a_paragraph_with_its_keys_and_its_score(name: str) -> None:
    paragraphs = dict(re.findall(r"^\*\*`([\w-]+)`\*\* (.+?)(?=^\*\*`|^#)", PAGE, re.DOTALL | re.MULTILINE))
    assert name in paragraphs, f"docs/scoring.md: write a paragraph that begins with **`{name}`**"
    for entry in ("* Keys:", "* Score", "* Unknown node:"):
        assert entry in paragraphs[name], f"docs/scoring.md: {name} lacks {entry}"


@pytest.mark.parametrize("name", NAMES)
def test_the_page_says_of_every_strategy_what_a_label_is_worth(name: str) -> None:
    section = PAGE.partition("### A label has no pod\n")[2].partition("\n#")[0]
    assert section, "docs/scoring.md has no section A label has no pod"
    assert f"`{name}`" in section, f"docs/scoring.md: say under A label has no pod what a label of {name} means"
