"""`ballast experiment`: reproduces published tables, and measures on public traces, without a cluster."""

from __future__ import annotations

import typer

from ballast.cli.experiment_genetic import genetic
from ballast.cli.experiments.dominant_residual import dominant_residual
from ballast.cli.experiments.openb import openb
from ballast.cli.experiments.power import power
from ballast.cli.experiments.redistribution import redistribution
from ballast.cli.experiments.windows import windows

app = typer.Typer(no_args_is_help=True, help="Reproduce published tables and measure on public traces, offline.")
app.command("dominant-residual")(dominant_residual)
app.command()(redistribution)
app.command()(windows)
app.command()(power)
app.command()(genetic)
app.command()(openb)
