"""The `ballast` command."""

from __future__ import annotations

import sys

import typer

from ballast.cli import config, demo, pause, power, profile, release, run, score
from ballast.errors import BallastError, SettingsError, UsageError

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.command()(run.run)
app.command()(demo.demo)
app.add_typer(config.app, name="config")
app.add_typer(power.app, name="power")
app.command()(profile.profile)
app.command()(score.score)
app.command()(release.release)
app.command()(pause.pause)
app.command()(pause.resume)


def main() -> None:
    """Exit 1: refused or failed; 2: wrong use or configuration."""
    try:
        app()
    except BallastError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2 if isinstance(error, SettingsError | UsageError) else 1)
