"""The commands of `ballast`."""

from __future__ import annotations

from typing import Annotated

import typer

from ballast import __version__
from ballast.cli import config, demo, doctor, experiment, explain, pause, plan, profile, release, run, score
from ballast.cli.power import commands as power

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"ballast {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Measure the real load of every Kubernetes node and give it to the scheduler."""


app.command()(run.run)
app.command()(demo.demo)
app.command()(doctor.doctor)
app.add_typer(config.app, name="config")
app.add_typer(power.app, name="power")
app.command()(profile.profile)
app.command()(score.score)
app.add_typer(plan.app, name="plan")
app.command()(explain.explain)
app.add_typer(experiment.app, name="experiment")
app.command()(release.release)
app.command()(pause.pause)
app.command()(pause.resume)
