"""`ballast experiment power`: budgets on recorded shapes, ramps, clouds, and public series."""

from __future__ import annotations

import typer

from ballast.cli.output import Output, OutputOption
from ballast_lab.cli.experiments import options, report


def power(
    data: options.Data = None,
    out: options.Out = None,
    seeds: options.Seeds = "3",
    jobs: options.Jobs = -1,
    backend: options.Backend = "processes",
    output: OutputOption = Output.TABLE,
) -> None:
    """Follow power feeds with the published model, Ballast's budgets and simple rules, and count what was over.

    --data has a folder power with public series of sun and carbon intensity (measurements/experiments.md says where
    they come from); without it they are left out. --seeds are those of clouds and noise.
    """
    chosen = options.seeds_of(seeds)
    with options.spread(backend, jobs, "power") as begin:
        from ballast_lab.experiments.power.results import results
        from ballast_lab.experiments.power.traces import carbon_days, public_signals

        report.prepare(out)
        public, notes = public_signals(data)
        for note in notes:
            typer.echo(f"warning: {note}", err=True)
        outcome = results(public, notes, carbon_days(data), seeds=chosen, jobs=jobs, begin=begin)
    if output is Output.JSON:
        if out is not None:
            report.write(out, outcome)
        typer.echo(report.as_json(outcome))
        return
    report.print_markdown(outcome.table)
    report.tell_where(out, outcome)
