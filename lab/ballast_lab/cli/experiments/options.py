"""The options that all experiments share, and what they mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from ballast.base.errors import UsageError

if TYPE_CHECKING:
    from ballast_lab.experiments.worlds import LoadWorld

ALL, CALIBRATED = "all", "calibrated"
PAPER_WORLD = "R3"
"""The world that reproduces the published table."""
MAX_SEEDS = 1000

Out = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Write results.json, table.md and the figures to this folder.", show_default=False
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="The folder of public traces, for experiments that replay some.", show_default=False
    ),
]
Seeds = Annotated[
    str, typer.Option(metavar="N", help="The number of runs with different seeds, or the seeds, such as 3,5 or 0-8.")
]
Turns = Annotated[bool, typer.Option("--turns", help="Each list of pods in the next of the worlds, not in all.")]
Jobs = Annotated[int, typer.Option(help="Number of processes; -1 uses every core. The result is the same.")]
Backend = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Where runs take place: processes, or a cluster of dask or ray (DASK_SCHEDULER_ADDRESS, RAY_ADDRESS).",
    ),
]
Worlds = Annotated[
    Path | None, typer.Option(help='A JSON file with your own worlds: {"name": {"R": [[mCPU, MiB, GiB] …], "A0": …}}.')
]
Names = Annotated[
    list[str] | None,
    typer.Option(
        "--world", metavar="NAME", help=f"A world, {CALIBRATED} or {ALL}. Can be repeated.", show_default=False
    ),
]


@contextmanager
def spread(backend: str, jobs: int, what: str) -> Iterator[Callable[[int], Callable[[], None]]]:
    """Runs go to the backend, with a progress bar named `what`. Yields a function that takes the number of runs.

    Raises UsageError for an unknown backend, a missing library and a wrong number of jobs.
    """
    require_joblib()
    from ballast_lab.experiments.running import backend as chosen

    check_jobs(jobs)
    with chosen(backend), progress(what) as begin:
        yield begin


def require_joblib() -> None:
    """Raises UsageError where the extra `experiments` is not installed."""
    if not all(map(find_spec, ("joblib", "matplotlib"))):
        raise UsageError("Experiments need joblib and matplotlib. Install them with: pip install '.[experiments]'")


def chosen_worlds(path: Path | None, names: Sequence[str] | None, default: Sequence[str]) -> list[LoadWorld]:
    """The worlds by their names. Raises UsageError for a name that is not there."""
    from ballast_lab.experiments.worlds import CALIBRATED as CALIBRATED_WORLDS
    from ballast_lab.experiments.worlds import worlds

    found = worlds(path)
    groups = {ALL: tuple(found), CALIBRATED: tuple(name for name in CALIBRATED_WORLDS if name in found)}
    wanted: list[str] = []
    for name in names or (default if path is None else [ALL]):
        if name not in found and not groups.get(name):
            raise UsageError(f"--world {name}: there is no such world. Choose {ALL} or one of {', '.join(found)}.")
        wanted += [name] if name in found else groups[name]
    return [found[name] for name in dict.fromkeys(wanted)]


def seeds_of(text: str) -> list[int]:
    """ "3" as 0, 1, 2; "0,3" or "0-8" as these numbers, each once. Raises UsageError."""
    if text.strip().isdecimal():
        count = int(text)
        if not 0 < count <= MAX_SEEDS:
            raise UsageError(
                f"--seeds {text}: give their number, 1 to {MAX_SEEDS}, or whole numbers from 0, such as 3,5 or 0-8."
            )
        return list(range(count))
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or (dash and int(last) < int(first)):
            raise UsageError(
                f"--seeds {text}: give their number, such as 10, or whole numbers from 0, such as 3,5 or 0-8."
            )
        found += range(int(first), int(last or first) + 1) if int(last or first) - int(first) < MAX_SEEDS else []
    if not 0 < len(set(found)) <= MAX_SEEDS:
        raise UsageError(f"--seeds {text}: at most {MAX_SEEDS} seeds can be run at once.")
    return list(dict.fromkeys(found))


def check_jobs(jobs: int) -> None:
    """Raises UsageError for a number of processes that cannot be."""
    if jobs < 1 and jobs != -1:
        raise UsageError(f"--jobs {jobs}: give 1 or more, or -1 for every core.")


@contextmanager
def progress(what: str) -> Iterator[Callable[[int], Callable[[], None]]]:
    """Shows a progress bar on standard error, if that is a terminal. Yields a function that takes the total."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:

        def begin(total: int) -> Callable[[], None]:
            task = bar.add_task(what, total=total)
            return lambda: bar.advance(task)

        yield begin
