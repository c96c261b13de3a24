"""The pages of the documentation, and what is in them."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", *DOCS.rglob("*.md"), *(ROOT / "measurements").rglob("*.md")])
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]

_BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<body>.*?)^(?P=indent)```", re.DOTALL | re.MULTILINE
)
_CODE = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)


def blocks(name: str, *languages: str) -> Iterator[str]:
    """The code blocks of a page in some languages."""
    for found in _BLOCK.finditer((ROOT / name).read_text(encoding="utf-8")):
        if found["language"] in languages:
            yield found["body"]


def prose(name: str) -> str:
    """A page without its code blocks."""
    return _CODE.sub("", (ROOT / name).read_text(encoding="utf-8"))


def anchors(name: str) -> frozenset[str]:
    """The anchors of the headings, as GitHub and mkdocs make them."""
    found: set[str] = set()
    for line in prose(name).splitlines():
        if heading := re.match(r"#+ +(.*)", line):
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).replace("`", "")
            slug = re.sub(r"[^\w\- ]", "", text.lower()).strip()
            found |= {re.sub(r"[ ]", "-", slug), re.sub(r"[-\s]+", "-", slug)}
    return frozenset(found)
