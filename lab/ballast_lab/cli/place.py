"""`ballast plan place`: shows on which node each pod would be best. It changes nothing."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from ballast.base import log
from ballast.base.errors import UsageError
from ballast.cli import files
from ballast.cli.output import Output, OutputOption
from ballast.cli.planning.gather import Origin
from ballast.solving import Objective, Problem, Solution
from ballast.solving.solution import Progress, loads
from ballast_lab.solvers import read_quirks, solve
from ballast_lab.solvers.problem_file import problem_of

SECONDS = 5.0
"""How long to search unless told otherwise."""
_SHOWN = 30
LARGEST_GAP = 0.95
"""A bound that is further away tells nothing."""


class Solver(StrEnum):
    """The values of `--solver`."""

    AUTO = "auto"
    GENETIC_PAPER = "genetic-paper"
    GENETIC = "genetic"
    LATE_ACCEPTANCE = "late-acceptance"
    LONGEST_FIRST = "longest-first"
    STEEPEST = "steepest"
    EXACT = "exact"


ProblemFile = Annotated[
    Path | None, typer.Option("--problem", help="A YAML or JSON file with resources, weights, nodes, pods and rules.")
]
Cluster = Annotated[
    Path | None, typer.Option(help="Output of `kubectl get nodes,pods,ns -A -o json`, in place of --problem.")
]
Metrics = Annotated[Path | None, typer.Option("--metrics", help="A load-watcher document, as GET /watcher returns it.")]
PodMetrics = Annotated[
    Path | None,
    typer.Option(
        help="Output of `kubectl get --raw /apis/metrics.k8s.io/v1beta1/pods`. Without it, requests are used."
    ),
]
Live = Annotated[bool, typer.Option("--live", help="Read the cluster of your current kubeconfig, and its Ballast.")]
Kubeconfig = Annotated[Path | None, typer.Option(help="The same as --live, with this kubeconfig.")]
Weights = Annotated[
    str | None, typer.Option(metavar="RESOURCE=W,…", help="Weights of resources; those that are not named count 0.")
]
Seconds = Annotated[
    float | None,
    typer.Option(
        metavar="S",
        help=f"How long to search: {SECONDS:g} unless --evaluations is given. 0 makes one constructive pass.",
        show_default=False,
    ),
]
Evaluations = Annotated[
    int | None, typer.Option(min=0, metavar="N", help="Stop after N evaluations: the result is then always the same.")
]
Seed = Annotated[int, typer.Option(min=0, metavar="K", help="Seed of the random choices.")]
MaxMoves = Annotated[int | None, typer.Option(min=0, metavar="N", help="At most N pods leave the node they came with.")]
Quirk = Annotated[
    list[str] | None,
    typer.Option(
        "--quirk", metavar="NAME=VALUE", help="A switch of genetic-paper (docs/placement.md). Can be repeated."
    ),
]


def place(
    problem_file: ProblemFile = None,
    cluster: Cluster = None,
    metrics_file: Metrics = None,
    pod_metrics: PodMetrics = None,
    live: Live = False,
    kubeconfig: Kubeconfig = None,
    solver: Annotated[Solver, typer.Option(help="The method; auto chooses by size.")] = Solver.AUTO,
    weights: Weights = None,
    seconds: Seconds = None,
    evaluations: Evaluations = None,
    seed: Seed = 0,
    max_moves: MaxMoves = None,
    quirk: Quirk = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Place pods on nodes so that every resource is used evenly."""
    log.configure("warning")
    if seconds is not None and (not math.isfinite(seconds) or seconds < 0):
        raise UsageError(f"--seconds {seconds:g}: give a number of seconds that is at least 0.")
    if quirk and solver is not Solver.GENETIC_PAPER:
        raise UsageError("--quirk sets a switch of genetic-paper: add --solver genetic-paper.")
    quirks = read_quirks(quirk or ())
    problem = _problem(problem_file, Origin(cluster, metrics_file, pod_metrics, live, kubeconfig), weights)
    for note in problem.notes:
        typer.echo(f"warning: {note}", err=True)
    if seconds is None and evaluations is None:
        seconds = SECONDS
    started = time.monotonic()
    with _progress(seconds, evaluations) as progress:
        found = solve(
            problem,
            solver=solver.value,
            seconds=seconds,
            evaluations=evaluations,
            seed=seed,
            max_moves=max_moves,
            clock=time.monotonic,
            progress=progress,
            quirks=quirks,
        )
    took = time.monotonic() - started
    if output is Output.JSON:
        typer.echo(json.dumps(document(found, took), indent=2, allow_nan=False))
    else:
        _print(found, took)


def document(found: Solution, seconds: float) -> dict[str, Any]:
    """The answer as JSON; a deviation is null where no node's capacity is known."""
    resources = found.problem.resources
    return {
        "solver": found.solver,
        "placement": dict(found.placement),
        "moves": found.moves,
        "objective": _objective(resources, found.objective),
        "before": None if found.before is None else _objective(resources, found.before),
        "violations": list(found.violations),
        "evaluations": found.evaluations,
        "generations": found.generations,
        "bound": found.bound,
        "seconds": round(seconds, 3),
        "gap": found.gap,
        "timed_out": found.timed_out,
        "devices": {pod: list(positions) for pod, positions in found.devices().items()},
    }


def _objective(resources: tuple[str, ...], found: Objective) -> dict[str, Any]:
    sigma = (float(each) if math.isfinite(each) else None for each in found.sigma)
    return {
        "sigma": dict(zip(resources, sigma, strict=True)),
        "sigma_of_mean": found.sigma_of_mean,
        "value": found.value,
    }


def _problem(path: Path | None, origin: Origin, weights: str | None) -> Problem:
    given = _weights(weights)
    if path is None:
        from ballast_lab.cli.place_cluster import problem_of_cluster

        return problem_of_cluster(origin, given)
    if origin != Origin(None, None, None):
        raise UsageError("--problem holds nodes and pods. Do not combine it with --cluster, --metrics or --live.")
    return problem_of(files.read_document(path, "--problem"), f"--problem {path}", given)


def _weights(text: str | None) -> dict[str, float] | None:
    if text is None:
        return None
    found: dict[str, float] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not equals or not name.strip() or not math.isfinite(number) or number < 0 or name.strip() in found:
            raise UsageError(f"--weights {text}: give each resource once with a number from 0, such as cpu=1,memory=2.")
        found[name.strip()] = number
    if not any(found.values()):
        raise UsageError(f"--weights {text}: all weights are 0. Give at least one resource a weight above 0.")
    return found


@contextmanager
def _progress(seconds: float | None, evaluations: int | None) -> Iterator[Progress | None]:
    """A progress bar on standard error, if that is a terminal."""
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    columns = (TextColumn("place"), BarColumn(), TextColumn("{task.fields[best]}"), TimeElapsedColumn())
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("place", total=1.0, best="")
        started = time.monotonic()

        def show(spent: int, value: float) -> None:
            parts = [(time.monotonic() - started) / seconds] if seconds else []
            parts += [spent / evaluations] if evaluations else []
            deviation = f"deviation {100 * math.sqrt(value):.3f} points" if math.isfinite(value) else ""
            bar.update(task, completed=max(parts, default=0.0), best=deviation)

        yield show if console.is_terminal else None


def _print(found: Solution, seconds: float) -> None:
    console = Console(soft_wrap=True, highlight=False, markup=False)
    problem = found.problem
    before = "" if found.before is None else f", {found.moves} of them leave their node"
    console.print(f"{len(problem.pods)} pods on {len(problem.nodes)} nodes by {found.solver}{before}.")
    table = Table(box=None, pad_edge=False)
    for head in ("RESOURCE", "WEIGHT", "BEFORE", "AFTER"):
        table.add_column(head, justify="left" if head == "RESOURCE" else "right")
    for column, resource in enumerate(problem.resources):
        old = "-" if found.before is None else _points(found.before.sigma[column])
        table.add_row(resource, f"{problem.weights[column]:.2g}", old, _points(found.objective.sigma[column]))
    old = "-" if found.before is None else _points(found.before.sigma_of_mean)
    table.add_row("mean of them", "", old, _points(found.objective.sigma_of_mean))
    console.print(table)
    console.print("(deviation over nodes, in percentage points)\n")
    _print_nodes(console, found)
    _print_moves(console, found)
    for each in found.violations[:_SHOWN]:
        console.print(f"broken: {each}")
    bound = _bound(found)
    generations = "" if found.generations is None else f", {found.generations} generations"
    ended = ", when the time was over" if found.timed_out else ""
    console.print(f"{found.evaluations} evaluations{generations} in {seconds:.1f} s{ended}{bound}.")


def _bound(found: Solution) -> str:
    if found.bound is None or found.gap is None:
        return ""
    value = f", value {found.objective.value:.6g}"
    if found.gap > LARGEST_GAP:
        return f"{value}, no useful bound"
    return f"{value}, proved at least {found.bound:.6g} (gap {100 * found.gap:.2g} %)"


def _print_nodes(console: Console, found: Solution) -> None:
    problem, load = found.problem, loads(found.problem, found.on)
    counts = np.bincount(found.on, minlength=len(problem.nodes))
    table = Table(box=None, pad_edge=False)
    for head in ("NODE", "PODS", *(name.upper() for name in problem.resources)):
        table.add_column(head, justify="left" if head == "NODE" else "right")
    for row, node in enumerate(problem.nodes[:_SHOWN]):
        cells = ("-" if math.isnan(each) else f"{100 * each:.1f} %" for each in load[row])
        table.add_row(node, str(counts[row]), *cells)
    console.print(table)
    if len(problem.nodes) > _SHOWN:
        console.print(f"and {len(problem.nodes) - _SHOWN} more nodes")
    console.print()


def _print_moves(console: Console, found: Solution) -> None:
    problem = found.problem
    moved = np.flatnonzero(problem.home != found.on).tolist()
    table = Table(box=None, pad_edge=False)
    devices = found.devices()
    for column in ("POD", "FROM", "TO", *(["DEVICES"] if devices else [])):
        table.add_column(column, no_wrap=True)
    for pod in moved[:_SHOWN]:
        name, home = problem.pods[pod], int(problem.home[pod])
        cells = [name, problem.nodes[home] if home >= 0 else "-", problem.nodes[int(found.on[pod])]]
        table.add_row(*cells, *([",".join(map(str, devices.get(name, ())))] if devices else []))
    if moved:
        console.print(table)
    if len(moved) > _SHOWN:
        console.print(f"and {len(moved) - _SHOWN} more pods; -o json has all")
    if moved:
        console.print()


def _points(value: float) -> str:
    return "-" if math.isnan(value) else f"{100 * value:.4f}"
