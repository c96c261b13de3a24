"""`ballast experiment all`: every experiment as measurements/experiments.md shows it, one after the other."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer

from ballast.cli.output import Output, OutputOption
from ballast_lab.cli.experiments import options, report
from ballast_lab.cli.experiments.dominant_residual import dominant_residual
from ballast_lab.cli.experiments.genetic import genetic
from ballast_lab.cli.experiments.openb import openb
from ballast_lab.cli.experiments.power import power
from ballast_lab.cli.experiments.redistribution import redistribution
from ballast_lab.cli.experiments.schedule import schedule
from ballast_lab.cli.experiments.windows import windows

EXPERIMENTS: Mapping[str, tuple[Callable[..., None], Mapping[str, Any]]] = {
    "dominant-residual": (dominant_residual, {"seeds": "32"}),
    "dominant-residual-worlds": (dominant_residual, {"world": ["all"], "seeds": "32", "turns": True}),
    "redistribution": (redistribution, {"seeds": "32", "turns": True}),
    "genetic": (genetic, {"seeds": "32"}),
    "power": (power, {"seeds": "32"}),
    "windows": (windows, {"seeds": "1"}),
    "openb": (openb, {"seeds": "10", "policy": "all"}),
    "openb-redrawn": (openb, {"seeds": "3", "workload": "redrawn", "policy": "residual-learned,fgd"}),
    "schedule": (schedule, {"seeds": "12", "days": "PlanetLab/0.0,Google"}),
    "schedule-full": (schedule, {"seeds": "12", "days": "PlanetLab/0.0", "fill": "1.0,1.15"}),
}
"""By name of the folder: the command, and what it is given where `--seeds` says nothing."""
ON_TRACES = ("windows", "openb", "openb-redrawn", "schedule", "schedule-full")
"""These replay public traces and are left out without --data."""


def everything(
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder; each experiment writes into one of its own.")],
    data: options.Data = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="Seeds of all experiments, such as 32 or 8-39. Default: those of measurements/experiments.md.",
            show_default=False,
        ),
    ] = None,
    jobs: options.Jobs = -1,
    backend: options.Backend = "processes",
    output: OutputOption = Output.TABLE,
) -> None:
    """Run every experiment with the options of measurements/experiments.md, into one folder each."""
    if seeds is not None:
        options.seeds_of(seeds)
    documents = {}
    for name, (command, usual) in EXPERIMENTS.items():
        if data is None and name in ON_TRACES:
            typer.echo(
                f"{name} is left out: it needs traces. Give --data DIR, see measurements/experiments.md.", err=True
            )
            continue
        folder, started = out / name, time.monotonic()
        report.prepare(folder)
        given = {**usual, **({} if seeds is None else {"seeds": seeds})}
        with redirect_stdout(io.StringIO()):
            command(out=folder, data=data, jobs=jobs, backend=backend, **given)
        seconds = time.monotonic() - started
        typer.echo(f"{name}: seeds {given['seeds']}, {seconds:.0f} s, {folder}", err=output is Output.JSON)
        documents[name] = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    if output is Output.JSON:
        typer.echo(json.dumps(documents, indent=2, allow_nan=False))
