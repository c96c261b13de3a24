import re
import runpy

import pytest
import yaml

from tests.unit.docs.pages import DOCS, NAMES, ROOT, anchors, prose

LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?(?P<target>[^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")


@pytest.mark.parametrize("name", NAMES)
def test_every_link_leads_somewhere(name: str) -> None:
    here = (ROOT / name).parent
    broken = []
    for found in LINK.finditer(prose(name)):
        target, _, anchor = found["target"].partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        file = (here / target).resolve() if target else ROOT / name
        there = file.is_relative_to(ROOT) and file.exists()
        if there and anchor and file.suffix == ".md":
            there = anchor in anchors(file.relative_to(ROOT).as_posix())
        if not there:
            broken.append(found["target"])
    assert broken == []


def pages_of(entry: object) -> set[str]:
    """The pages of a navigation."""
    if isinstance(entry, str):
        return {entry}
    inner = entry.values() if isinstance(entry, dict) else entry
    return {page for each in inner for page in pages_of(each)}  # type: ignore[attr-defined]


def navigation() -> list[dict[str, list[str]]]:
    found: list[dict[str, list[str]]] = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    return found


def test_the_site_leaves_no_page_out() -> None:
    hooks = runpy.run_path(str(ROOT / "scripts" / "docs_site.py"))
    shown = pages_of(hooks["on_config"]({"docs_dir": str(DOCS), "nav": navigation()})["nav"])
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert sorted(page for page in pages - shown if not page.startswith("experiments/")) == []
    assert sorted(page for page in shown if not (DOCS / page).exists()) == []


def test_the_navigation_names_pages_that_are_there() -> None:
    assert sorted(page for page in pages_of(navigation()) if not (DOCS / page).exists()) == []
