"""`ballast experiment genetic`: the published genetic algorithm beside its numbers."""

from __future__ import annotations

import typer

from ballast.cli.output import Output, OutputOption
from ballast_lab.cli.experiments import options, report


def genetic(
    out: options.Out = None,
    data: options.Data = None,
    seeds: options.Seeds = "32",
    jobs: options.Jobs = -1,
    backend: options.Backend = "processes",
    output: OutputOption = Output.TABLE,
) -> None:
    """Repeat figures 2 to 9 and tables 1 to 3 of the genetic algorithm for Kubernetes (Hu and Xue)."""
    chosen = options.seeds_of(seeds)
    with options.spread(backend, jobs, "genetic") as begin:
        from ballast_lab.experiments.genetic import results

        report.prepare(out)
        outcome = results(chosen, jobs, begin)
    if output is Output.JSON:
        if out is not None:
            report.write(out, outcome)
        typer.echo(report.as_json(outcome))
        return
    report.print_markdown(outcome.table)
    report.tell_where(out, outcome)
