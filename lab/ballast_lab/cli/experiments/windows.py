"""`ballast experiment windows`: which window and statistic predicts the load of the next hour."""

from __future__ import annotations

import typer

from ballast.base.errors import UsageError
from ballast.cli.output import Output, OutputOption
from ballast_lab.cli.experiments import options, report


def windows(
    data: options.Data = None,
    out: options.Out = None,
    seeds: options.Seeds = "1",
    jobs: options.Jobs = -1,
    backend: options.Backend = "processes",
    output: OutputOption = Output.TABLE,
) -> None:
    """Order nodes by windows of public load traces, and compare with the load of the next hour.

    --data has a folder load with the traces (measurements/experiments.md says where
    they come from). --seeds changes nothing:
    nothing here is random.
    """
    options.seeds_of(seeds)
    if data is None:
        raise UsageError(
            "experiment windows needs traces: give --data DIR, a folder with load/. See measurements/experiments.md."
        )
    with options.spread(backend, jobs, "windows") as begin:
        from ballast_lab.experiments.load_traces import load_traces
        from ballast_lab.experiments.windows import results

        report.prepare(out)
        traces, notes = load_traces(data)
        for note in notes:
            typer.echo(f"warning: {note}", err=True)
        outcome = results(traces, notes, jobs=jobs, begin=begin)
    if output is Output.JSON:
        if out is not None:
            report.write(out, outcome)
        typer.echo(report.as_json(outcome))
        return
    report.print_markdown(outcome.table)
    report.tell_where(out, outcome)
