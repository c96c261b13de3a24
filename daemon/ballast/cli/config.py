"""`ballast config`: shows the settings with their origin, and checks them."""

from __future__ import annotations

import json
from typing import Any

import typer

from ballast.cli.output import Output, OutputOption
from ballast.errors import SettingsError
from ballast.settings import examine, explain

app = typer.Typer(no_args_is_help=True, help="Show and check the settings.")


_WIDE = 10_000


@app.command()
def check() -> None:
    """Check whether `ballast run` would start with these settings. Exit 0 if it would, 2 if not."""
    from ballast.cli.checked_settings import checked

    _, warnings = checked()
    for warning in warnings:
        typer.echo(f"warning: {warning}", err=True)
    typer.echo("The settings can be used, with warnings." if warnings else "The settings can be used.")


@app.command()
def show(
    output: OutputOption = Output.TABLE,
) -> None:
    """Print every setting with its value and origin; secrets are hidden. Exit 2 if a value cannot be used."""
    findings = examine()
    rows = explain(findings=findings)
    if output is Output.JSON:
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
    else:
        _print_table(rows)
    for warning in findings.warnings:
        typer.echo(f"warning: {warning}", err=True)
    if findings.problems:
        raise SettingsError(*findings.problems)


def _print_table(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Column, Table

    table = Table(
        Column("NAME", no_wrap=True),
        Column("VALUE", overflow="fold"),
        Column("ORIGIN", no_wrap=True),
        box=None,
        pad_edge=False,
    )
    for row in rows:
        table.add_row(row["name"], _text(row["value"]), row["origin"])
    console = Console(markup=False, highlight=False)
    if not console.is_terminal:
        console.width = _WIDE
    console.print(table)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
