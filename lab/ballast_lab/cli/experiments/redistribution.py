"""`ballast experiment redistribution`: what evictions that make room cost and bring."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ballast.cli.output import Output, OutputOption
from ballast_lab.cli.experiments import options, report

if TYPE_CHECKING:
    from ballast_lab.experiments.redistribution import Comparison


class ScoreSource(StrEnum):
    """The values of `--scores`."""

    BALLAST = "ballast"
    STOCK = "kube-scheduler"
    PAPER = "paper"


def redistribution(
    worlds: options.Worlds = None,
    world: options.Names = None,
    seeds: options.Seeds = "1",
    turns: options.Turns = False,
    scores: Annotated[
        list[ScoreSource] | None,
        typer.Option(help="Whose scores place the pods. Can be repeated; without it all do.", show_default=False),
    ] = None,
    out: options.Out = None,
    data: options.Data = None,
    jobs: options.Jobs = -1,
    backend: options.Backend = "processes",
    output: OutputOption = Output.TABLE,
) -> None:
    """Count the pods that find a node: without redistribution, with gated redistribution, and as published."""
    chosen, lists = options.chosen_worlds(worlds, world, [options.ALL]), options.seeds_of(seeds)
    with options.spread(backend, jobs, "redistribution") as begin:
        from ballast_lab.experiments.redistribution import PAPER, SCHEDULERS, compare, results

        report.prepare(out)
        asked = [each.value for each in dict.fromkeys(scores or ScoreSource)]
        schedulers = {name: choice for name, choice in SCHEDULERS.items() if name in asked}
        schedulers |= PAPER if ScoreSource.PAPER in asked else {}
        found = compare(chosen, lists, schedulers, turns=turns, jobs=jobs, begin=begin)
    outcome = results(found)
    if output is Output.JSON:
        if out is not None:
            report.write(out, outcome)
        typer.echo(report.as_json(outcome))
        return
    _print_comparison(found)
    report.tell_where(out, outcome)


def _print_comparison(found: Comparison) -> None:
    from ballast_lab.experiments.redistribution import WAYS, summary

    rows = []
    for scheduler in dict.fromkeys(case.scheduler for case in found.cases):
        for way in WAYS:
            numbers = summary(found.of(scheduler), way)
            rows.append(
                (
                    scheduler,
                    way,
                    f"{numbers['count']:.1f}",
                    f"{100 * numbers['change']:+.2f} %",
                    f"{100 * numbers['worst']:+.2f} %",
                    f"{100 * numbers['best']:+.2f} %",
                    f"{numbers['first']:.0f}",
                    f"{100 * numbers['volume']:.1f} %",
                    f"{numbers['moves']:.1f}",
                )
            )
    heads = ("SCHEDULER", "REDISTRIBUTION", "PODS", "CHANGE", "WORST", "BEST", "FIRST WAITS", "VOLUME", "EVICTIONS")
    report.print_table(heads, rows, left=2)
