"""Writes experiments.md and scoreboard.md of measurements/; with --check only tells whether they are up to date.

measurements/experiments/NAME has `text.in`: Markdown in which a line `{{FILE}}` stands for that file of it. The page of
the experiments is these texts one after the other. The files are the table and the figure that `ballast experiment all
--out measurements/experiments` wrote. Its `results.json` is not kept; that of `openb` becomes `scoreboard.md` first.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from ballast_lab.experiments import load_scoreboard
from ballast_lab.experiments.scoreboard import openb, openb_table

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "measurements"
FOLDER = DOCS / "experiments"
OPENB = FOLDER / "openb" / "scoreboard.md"
SECTIONS = (
    "introduction",
    "dominant-residual",
    "redistribution",
    "genetic",
    "openb",
    "windows",
    "schedule",
    "power",
    "worlds",
)
"""In the order of the page; a folder that is not there is left out."""

_HEAD = """\
# Scoreboard

Ballast on public data, beside the rules of other projects. The numbers come from `ballast experiment`, the page from
`scripts/experiment_pages.py`; [experiments](experiments.md) says where the data come from. No data ship with Ballast.
"""
_INCLUDED = re.compile(r"^\{\{(\S+)\}\}$", re.MULTILINE)


def rendered() -> dict[Path, str]:
    """The text of each page."""
    return {DOCS / "experiments.md": experiments(), DOCS / "scoreboard.md": scoreboard()}


def experiments() -> str:
    """All sections, with an empty line between them."""
    found = (FOLDER / name for name in SECTIONS if (FOLDER / name / "text.in").exists())
    return "\n".join(_text(folder) for folder in found)


def scoreboard() -> str:
    """The head, then what each experiment says about the rules of other projects."""
    windows = (FOLDER / "windows" / "table.md").read_text(encoding="utf-8")
    return "\n".join([_HEAD, load_scoreboard.section(windows), openb(OPENB.read_text(encoding="utf-8"))])


def renew_openb() -> None:
    """Writes the table of a run of `openb` that left its results in the folder."""
    results = OPENB.with_name("results.json")
    if results.exists():
        OPENB.write_text(openb_table(json.loads(results.read_text(encoding="utf-8"))), encoding="utf-8")


def _text(folder: Path) -> str:
    def included(line: re.Match[str]) -> str:
        return (folder / line[1]).read_text(encoding="utf-8").rstrip("\n")

    return _INCLUDED.sub(included, (folder / "text.in").read_text(encoding="utf-8"))


def main() -> None:
    if "--check" not in sys.argv[1:]:
        renew_openb()
    for path, text in rendered().items():
        if "--check" not in sys.argv[1:]:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            sys.exit(f"{path.relative_to(ROOT)} is out of step: run .venv/bin/python scripts/experiment_pages.py")


if __name__ == "__main__":
    main()
