"""`ballast experiment dominant-residual`: the published sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ballast.base.errors import UsageError
from ballast.cli.output import Output, OutputOption
from ballast_lab.cli.experiments import options, report

if TYPE_CHECKING:
    from ballast_lab.experiments.dominant_residual import TableRow
    from ballast_lab.experiments.worlds import LoadWorld


class Way(StrEnum):
    """The values of `--redistribute`."""

    NONE = "none"
    GATED = "gated"
    PUBLISHED = "published"


def dominant_residual(
    worlds: options.Worlds = None,
    world: options.Names = None,
    seeds: options.Seeds = "1",
    turns: options.Turns = False,
    redistribute: Annotated[Way, typer.Option(help="The rule by which evictions make room, or none.")] = Way.NONE,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Run the paper's own set-up instead, in the cluster of this kubeconfig, which needs KWOK: nodes and "
            "pods are created, placed by its scheduler, and removed.",
            show_default=False,
        ),
    ] = None,
    scheduler_name: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="With --kubeconfig: who places the pods. Can be repeated. Default: default-scheduler.",
            show_default=False,
        ),
    ] = None,
    out: options.Out = None,
    data: options.Data = None,
    jobs: options.Jobs = -1,
    backend: options.Backend = "processes",
    output: OutputOption = Output.TABLE,
) -> None:
    """Sweep 7 values of lambda and 11 of C, and count the pods that find a node."""
    chosen, lists = options.chosen_worlds(worlds, world, [options.PAPER_WORLD]), options.seeds_of(seeds)
    if kubeconfig is not None:
        if redistribute is not Way.NONE:
            raise UsageError("--redistribute is for the embedded scheduler. Leave it away, or --kubeconfig.")
        _in_cluster(kubeconfig, chosen, lists, scheduler_name, out, output)
        return
    if scheduler_name:
        raise UsageError(f"--scheduler-name {scheduler_name[0]}: it needs a cluster. Add --kubeconfig FILE.")
    with options.spread(backend, jobs, "sweep") as begin:
        from ballast_lab.experiments.dominant_residual import sweep
        from ballast_lab.experiments.dominant_residual_results import HEADS, beside_paper, results

        report.prepare(out)
        found = sweep(chosen, lists, redistribute.value, turns=turns, jobs=jobs, begin=begin)
    outcome = results(found, redistribute.value)
    if output is Output.JSON:
        if out is not None:
            report.write(out, outcome)
        typer.echo(report.as_json(outcome))
        return
    parts = {name: part.rules() for name, part in found.worlds().items()}
    if len(parts) == 1:
        report.print_table([head.upper() for head in HEADS], beside_paper(found), left=4)
    _print_rules(found.rules(), moves=redistribute is not Way.NONE)
    if len(parts) > 1:
        typer.echo("")
        rows = [[rule, *(f"{part[rule].count:.0f}" for part in parts.values())] for rule in found.rules()]
        report.print_table(["PODS IN", *parts], rows, left=1)
    report.tell_where(out, outcome)


def _in_cluster(
    kubeconfig: Path,
    worlds: Sequence[LoadWorld],
    seeds: Sequence[int],
    schedulers: Sequence[str] | None,
    out: Path | None,
    output: Output,
) -> None:
    from ballast.base.metrics import Metrics
    from ballast.cluster.client import KubeApi, load_configuration
    from ballast_lab.experiments.real_scheduler import DEFAULT_SCHEDULER, results

    if not kubeconfig.is_file():
        raise UsageError(f"--kubeconfig {kubeconfig}: there is no such file. Give the kubeconfig of a cluster.")
    report.prepare(out)
    api = KubeApi(lambda: load_configuration(kubeconfig), Metrics())
    with options.progress("runs") as begin:
        outcome = results(api, worlds, seeds, schedulers or (DEFAULT_SCHEDULER,), begin=begin)
    if output is Output.JSON:
        if out is not None:
            report.write(out, outcome)
        typer.echo(report.as_json(outcome))
        return
    report.print_markdown(outcome.table)
    report.tell_where(out, outcome)


def _print_rules(rules: Mapping[str, TableRow], *, moves: bool) -> None:
    heads = ["RULE", "PODS", "GAIN", "FIRST WAITS", "VOLUME", "DEV", "SMALL", "MEDIUM", "LARGE"]
    rows = [
        [
            name,
            f"{row.count:.0f}",
            f"{100 * row.gain:+.1f} %",
            f"{row.first:.0f}",
            f"{100 * row.volume:.1f} %",
            *(f"{100 * share:.0f} %" for share in row.accepted),
            *([f"{row.moves:.1f}"] if moves else []),
        ]
        for name, row in rules.items()
    ]
    typer.echo("")
    report.print_table([*heads, *(["EVICTIONS"] if moves else [])], rows, left=1)
