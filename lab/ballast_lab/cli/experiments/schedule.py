"""`ballast experiment schedule`: every strategy places recorded load, and the hot node-minutes are counted."""

from typing import Annotated

import typer

from ballast.base.errors import UsageError
from ballast.cli.output import Output, OutputOption
from ballast_lab.cli.experiments import options, report

Days = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,…", help="Traces, or TRACE/DAY. Default: the first two days of each trace.", show_default=False
    ),
]
Fill = Annotated[str, typer.Option(metavar="SHARE,…", help="What the pods request, as shares of what the nodes have.")]
Contestant = Annotated[
    str | None, typer.Option(metavar="NAME,…", help="Who places the pods. Default: everybody.", show_default=False)
]


def schedule(
    data: options.Data = None,
    out: options.Out = None,
    seeds: options.Seeds = "3",
    days: Days = None,
    fill: Fill = "0.85",
    contestant: Contestant = None,
    jobs: options.Jobs = -1,
    backend: options.Backend = "processes",
    output: OutputOption = Output.TABLE,
) -> None:
    """Place pods with recorded load by all strategies and other projects' rules, and count hot node-minutes.

    --data has a folder load with the traces (measurements/experiments.md says where
    they come from). Each seed draws other
    pods, and takes the next of 13 models of requests, arrivals and nodes.
    """
    chosen = options.seeds_of(seeds)
    if data is None:
        raise UsageError(
            "experiment schedule needs traces: give --data DIR, a folder with load/. See measurements/experiments.md."
        )
    with options.spread(backend, jobs, "schedule") as begin:
        from ballast_lab.experiments.load_traces import load_traces
        from ballast_lab.experiments.schedule.contestants import CONTESTANTS
        from ballast_lab.experiments.schedule.results import Plan, results

        names = _names(contestant) or tuple(CONTESTANTS)
        plan = Plan(chosen, _fills(fill), names, _names(days))
        report.prepare(out)
        traces, notes = load_traces(data)
        for note in notes:
            typer.echo(f"warning: {note}", err=True)
        outcome = results(traces, plan, notes, jobs=jobs, begin=begin)
    if output is Output.JSON:
        if out is not None:
            report.write(out, outcome)
        typer.echo(report.as_json(outcome))
        return
    report.print_markdown(outcome.table)
    report.tell_where(out, outcome)


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for part in (text or "").split(",") if part.strip()))


def _fills(text: str) -> tuple[float, ...]:
    try:
        return tuple(dict.fromkeys(float(part) for part in text.split(",")))
    except ValueError:
        raise UsageError(f"--fill {text}: give shares of what the nodes have, such as .85 or .85,1.15.") from None
