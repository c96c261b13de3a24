"""`ballast config`: shows the settings with their origin, and checks them."""

import json
from typing import Annotated, Any

import typer

from ballast.base.errors import SettingsError, UsageError
from ballast.cli.output import Output, OutputOption
from ballast.settings import Settings, examine, explain

app = typer.Typer(no_args_is_help=True, help="Show and check the settings.")


_WIDE = 10_000
MOST = 10_000_000


@app.command()
def check(
    sizing: Annotated[
        str | None, typer.Option(metavar="NODES,PODS", help="Also print the memory limit for a cluster of that size.")
    ] = None,
) -> None:
    """Check whether `ballast run` would start with these settings. Exit 0 if it would, 2 if not."""
    from ballast.cli.run import check_settings

    size = None if sizing is None else _size(sizing)
    settings, warnings = check_settings()
    for warning in warnings:
        typer.echo(f"warning: {warning}", err=True)
    typer.echo("The settings can be used, with warnings." if warnings else "The settings can be used.")
    if size is not None:
        _print_sizing(settings, *size)


@app.command()
def show(output: OutputOption = Output.TABLE) -> None:
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


def _size(text: str) -> tuple[int, int]:
    nodes, _, pods = text.replace("_", "").partition(",")
    if not (nodes.strip().isdecimal() and pods.strip().isdecimal() and 0 < int(nodes) <= MOST and int(pods) <= MOST):
        raise UsageError(
            f"--sizing {text} cannot be used: expected NODES,PODS such as 5000,30000, nodes from 1 and each at most "
            f"{MOST:,}."
        )
    return int(nodes), int(pods)


def _print_sizing(settings: Settings, nodes: int, pods: int) -> None:
    from ballast.runtime import sizing

    shares = sizing.shares(settings, nodes, pods)
    for share in shares:
        typer.echo(f"{share.size / 2**20:6.0f} MiB  {share.what}")
    typer.echo(f"memory limit: {sizing.limit(shares)}Mi (resources.limits.memory in the chart)")


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
