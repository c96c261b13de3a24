"""`ballast experiment genetic`: the published genetic algorithm beside its numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from ballast.base.errors import UsageError


def genetic(
    folder: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Write results.json, table.md and the figures to this folder.")
    ],
    seeds: Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="Number of random problems.")] = 8,
    jobs: Annotated[int, typer.Option(help="Number of processes; -1 uses every core. The result is the same.")] = -1,
) -> None:
    """Repeat figures 2 to 9 and tables 1 to 3 of the genetic algorithm for Kubernetes (Hu and Xue)."""
    if find_spec("joblib") is None:
        raise UsageError("Experiments need joblib. Install it with: pip install 'kube-ballast[experiments]'")
    if jobs < 1 and jobs != -1:
        raise UsageError(f"--jobs {jobs}: give 1 or more, or -1 for every core.")
    from ballast_lab.experiments.genetic import run
    from ballast_lab.experiments.genetic_drawing import figures

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        found = run(seeds, jobs, lambda total: _begin(bar, total))
    texts = {
        "results.json": json.dumps(found.document(), indent=2, allow_nan=False) + "\n",
        "table.md": found.table(),
        **figures(found),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--out {folder}: {error.strerror}.") from None
    typer.echo(found.table())
    typer.echo(f"Written to {folder}: {', '.join(texts)}.")


def _begin(bar: Progress, total: int) -> Callable[[], None]:
    task = bar.add_task("genetic", total=total)
    return lambda: bar.advance(task)
