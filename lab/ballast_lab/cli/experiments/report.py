"""Results on the terminal and in a folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from ballast.base.errors import UsageError
from ballast_lab.experiments.results import Results

_WIDTH = 1000
"""Columns of a table; a narrow terminal wraps its lines and nothing is cut off."""


def prepare(folder: Path | None) -> None:
    """Makes the folder, so that a long experiment does not end without one. Raises UsageError."""
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--out {folder}: {error.strerror}.") from None


def write(folder: Path, found: Results) -> list[Path]:
    """`results.json`, `table.md` and the figures, with their paths. Raises UsageError."""
    texts = {"results.json": as_json(found) + "\n", "table.md": found.table, **found.figures}
    for name, text in texts.items():
        try:
            (folder / name).write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"--out {folder}: {name}: {error.strerror}.") from None
    return [folder / name for name in texts]


def as_json(found: Results) -> str:
    """The content of `results.json`."""
    return json.dumps(found.document(), indent=2, allow_nan=False)


def tell_where(folder: Path | None, found: Results) -> None:
    """Writes the results and says where, or how to write them."""
    if folder is None:
        typer.echo("\nTo write results.json, table.md and the figures, use --out DIR.")
    else:
        typer.echo(f"\nWritten: {', '.join(map(str, write(folder, found)))}.")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, left: int) -> None:
    """The first `left` columns are aligned to the left."""
    table = Table(box=None, pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index < left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    Console(width=_WIDTH, markup=False, highlight=False).print(table)


def print_markdown(text: str) -> None:
    """Tables in Markdown as tables of the terminal, everything else as it is."""
    lines: list[list[str]] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("| "):
            lines.append([cell.strip("* ") for cell in line.strip("| ").split(" | ")])
            continue
        if lines:
            print_table([head.upper() for head in lines[0]], lines[2:], left=1)
            lines = []
        typer.echo(line)
