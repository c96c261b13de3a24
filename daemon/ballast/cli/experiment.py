"""`ballast experiment`: reproduces published tables on an embedded scheduler, without a cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from ballast.cli.experiment_genetic import genetic
from ballast.cli.output import Output, OutputOption
from ballast.errors import UsageError

if TYPE_CHECKING:
    from ballast.experiments.dominant_residual import Sweep, TableRow
    from ballast.experiments.redistribution import Comparison
    from ballast.experiments.worlds import LoadWorld

ALL, CALIBRATED = "all", "calibrated"
PAPER_WORLD = "R3"
"""The world that reproduces the published table."""
MAX_SEEDS = 1000
_WIDTH = 1000
"""Columns of a table; a narrow terminal wraps its lines and nothing is cut off."""


class Way(StrEnum):
    """The values of `--redistribute`."""

    NONE = "none"
    GATED = "gated"
    PUBLISHED = "published"


app = typer.Typer(no_args_is_help=True, help="Reproduce published tables on an embedded scheduler, offline.")

Worlds = Annotated[
    Path | None,
    typer.Option(help='A JSON file with your own worlds: {"name": {"R": [[mCPU, MiB, GiB] …], "A0": …}}.'),
]
Names = Annotated[
    list[str] | None,
    typer.Option(
        "--world", metavar="NAME", help=f"A world, {CALIBRATED} or {ALL}. Can be repeated.", show_default=False
    ),
]
Jobs = Annotated[int, typer.Option(help="Number of processes; -1 uses every core. The result is the same.")]


app.command()(genetic)


@app.command("dominant-residual")
def dominant_residual(
    worlds: Worlds = None,
    world: Names = None,
    seeds: Annotated[str, typer.Option(metavar="LIST", help="Seeds of the pod lists, such as 0,3 or 0-8.")] = "0",
    redistribute: Annotated[Way, typer.Option(help="The rule by which evictions make room, or none.")] = Way.NONE,
    jobs: Jobs = -1,
    folder: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write both figures and the numbers to this folder.")
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Sweep the published 7 values of lambda and 11 of C, and count the pods that find a node."""
    _require_joblib()
    from ballast.experiments.dominant_residual import sweep
    from ballast.experiments.redistribution import WAYS

    chosen = _chosen(worlds, world, [PAPER_WORLD])
    _check_jobs(jobs)
    if folder is not None:
        _make_folder(folder)
    with _progress("sweep") as begin:
        found = sweep(chosen, _seeds(seeds), WAYS[redistribute], jobs=jobs, begin=begin)
    document = {**found.document(), "redistribution": redistribute.value}
    written = _write_all(folder, found, document) if folder is not None else []
    if output is Output.JSON:
        typer.echo(json.dumps(document, indent=2, allow_nan=False))
        return
    _print_paper(found)
    _print_rules(found.rules(), moves=redistribute is not Way.NONE)
    parts = {name: part.rules() for name, part in found.worlds().items()}
    if len(parts) > 1:
        typer.echo("")
        rows = [[rule, *(f"{part[rule].count:.0f}" for part in parts.values())] for rule in found.rules()]
        _table(["PODS IN", *parts], rows, left=1)
    if written:
        typer.echo(f"\nWritten: {', '.join(map(str, written))}.")
    else:
        typer.echo("\nTo write both figures and the numbers, use --folder FOLDER.")


@app.command()
def redistribution(
    worlds: Worlds = None,
    world: Names = None,
    seeds: Annotated[str, typer.Option(metavar="LIST", help="Seeds of the pod lists, such as 0,3 or 0-7.")] = "0",
    jobs: Jobs = -1,
    output: OutputOption = Output.TABLE,
) -> None:
    """Count the pods that find a node: without redistribution, with gated redistribution, and as published."""
    _require_joblib()
    from ballast.experiments.redistribution import compare

    chosen = _chosen(worlds, world, [ALL])
    _check_jobs(jobs)
    with _progress("redistribution") as begin:
        found = compare(chosen, _seeds(seeds), jobs=jobs, begin=begin)
    if output is Output.JSON:
        typer.echo(json.dumps(found.document(), indent=2, allow_nan=False))
    else:
        _print_comparison(found)


def _require_joblib() -> None:
    if find_spec("joblib") is None:
        raise UsageError("Experiments need joblib. Install it with: pip install 'kube-ballast[experiments]'")


def _chosen(path: Path | None, names: Sequence[str] | None, default: Sequence[str]) -> list[LoadWorld]:
    from ballast.experiments.worlds import CALIBRATED as CALIBRATED_WORLDS
    from ballast.experiments.worlds import worlds

    found = worlds(path)
    groups = {ALL: tuple(found), CALIBRATED: tuple(name for name in CALIBRATED_WORLDS if name in found)}
    wanted: list[str] = []
    for name in names or (default if path is None else [ALL]):
        if name not in found and not groups.get(name):
            raise UsageError(f"--world {name}: there is no such world. Choose {ALL} or one of {', '.join(found)}.")
        wanted += [name] if name in found else groups[name]
    return [found[name] for name in dict.fromkeys(wanted)]


def _seeds(text: str) -> list[int]:
    """ "0,3" or "0-8" as numbers, each once."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or (dash and int(last) < int(first)):
            raise UsageError(f"--seeds {text}: give whole numbers from 0, such as 0,3 or 0-8.")
        found += range(int(first), int(last or first) + 1) if int(last or first) - int(first) < MAX_SEEDS else []
    if not 0 < len(set(found)) <= MAX_SEEDS:
        raise UsageError(f"--seeds {text}: at most {MAX_SEEDS} seeds can be run at once.")
    return list(dict.fromkeys(found))


def _check_jobs(jobs: int) -> None:
    if jobs < 1 and jobs != -1:
        raise UsageError(f"--jobs {jobs}: give 1 or more, or -1 for every core.")


@contextmanager
def _progress(what: str) -> Iterator[Callable[[int], Callable[[], None]]]:
    """Shows a progress bar on standard error, if that is a terminal. Yields a function that takes the total."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:

        def begin(total: int) -> Callable[[], None]:
            task = bar.add_task(what, total=total)
            return lambda: bar.advance(task)

        yield begin


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--folder {folder}: {error.strerror}.") from None


def _write_all(folder: Path, found: Sweep, document: Mapping[str, Any]) -> list[Path]:
    from ballast.experiments.drawing import best_by_lambda, heat_map

    texts = {
        "best-by-lambda.svg": best_by_lambda(found),
        "heat-map.svg": heat_map(found),
        "sweep.json": json.dumps(document, indent=2, allow_nan=False) + "\n",
    }
    for name, text in texts.items():
        try:
            (folder / name).write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"--folder {folder}: {name}: {error.strerror}.") from None
    return [folder / name for name in texts]


def _print_paper(found: Sweep) -> None:
    from ballast.experiments.dominant_residual import PAPER, PUBLISHED, SATURATED, STOCK
    from ballast.experiments.scheduling import gain

    rules, (lambda_, c, best) = found.rules(), found.best()
    stock = rules[STOCK]
    rows = [
        ("kube-scheduler's default", f"{PAPER[STOCK]}", f"{stock.count:.0f} ({stock.least} to {stock.most})"),
        (
            f"most of {len(found.lambdas) * len(found.cs)} settings",
            "744 at lambda 0.1, C 22 and 50",
            f"{best:.0f} at lambda {lambda_:g}, C {c:g}",
        ),
        *((name, "744", f"{rules[name].count:.0f}") for name in (PUBLISHED, SATURATED)),
        ("fewest of them", "above the default", f"{found.counts.min():.0f}"),
        ("most over the default", "+37.3 %", f"{100 * gain(best, found.base):+.1f} %"),
    ]
    _table(("PODS PLACED", "PAPER", "HERE"), rows, left=3)


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
    _table([*heads, *(["EVICTIONS"] if moves else [])], rows, left=1)


def _print_comparison(found: Comparison) -> None:
    from ballast.experiments.redistribution import WAYS, summary

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
    _table(heads, rows, left=2)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, left: int) -> None:
    table = Table(box=None, pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index < left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    Console(width=_WIDTH, markup=False, highlight=False).print(table)
