"""Hooks of mkdocs: fill the navigation from folders, and let links leave the site for the repository."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

FOLDERS = {"Install": "install", "Runbooks": "runbooks", "Reference": "reference"}
REST = "Use"
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<target>(?:\.\./)+[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")


def on_config(config: Any) -> Any:
    """Adds the pages of `FOLDERS` to their sections and all others to `REST`; drops sections and pages not there."""
    docs = Path(config["docs_dir"])
    placed = {page for section in config["nav"] for pages in section.values() for page in pages}
    sections = []
    for section in config["nav"]:
        for title, pages in section.items():
            listed = [page for page in pages if (docs / page).exists()]
            if folder := FOLDERS.get(title):
                listed = [name for name in _ordered(docs, folder) if name not in placed] + listed
            if title == REST:
                listed += [page.name for page in sorted(docs.glob("*.md")) if page.name not in placed]
            if listed:
                sections.append({title: listed})
    config["nav"] = sections
    return config


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Turns a link to a file outside docs/ into one to the repository. A missing file fails the build."""
    here = Path(page.file.abs_src_path).parent
    docs, root = Path(config["docs_dir"]).resolve(), Path(config["config_file_path"]).resolve().parent
    base = _repository(root)

    def outside(found: re.Match[str]) -> str:
        target = (here / found["target"]).resolve()
        if target.is_relative_to(docs):
            return found[0]
        if not target.exists():
            raise FileNotFoundError(f"{page.file.src_uri}: {found['target']} does not exist")
        if base is None:
            return found["text"]
        return f"[{found['text']}]({base}/blob/main/{target.relative_to(root).as_posix()}{found['anchor'] or ''})"

    return _LINK.sub(outside, markdown)


def _repository(root: Path) -> str | None:
    """`Repository` of [project.urls]; without it such a link is its text alone."""
    with (root / "pyproject.toml").open("rb") as file:
        urls = tomllib.load(file)["project"].get("urls", {})
    found = urls.get("Repository") or urls.get("Source")
    return found.rstrip("/") if found else None


def _ordered(docs: Path, folder: str) -> list[str]:
    """The pages of a folder, its index first."""
    found = (path.relative_to(docs).as_posix() for path in (docs / folder).rglob("*.md"))
    return sorted(found, key=lambda name: (not name.endswith(("index.md", "README.md")), name))
