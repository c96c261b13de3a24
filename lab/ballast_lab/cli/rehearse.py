"""`ballast rehearse`: what Ballast would have done over the last days, from a recording or from Prometheus."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ballast.base import log
from ballast.base.errors import SettingsError, UsageError
from ballast.base.text import duration
from ballast.cli.output import Output, OutputOption
from ballast.model import duration as durations
from ballast_lab.cli.experiments import options

if TYPE_CHECKING:
    from ballast_lab.rehearse.advice import Candidate
    from ballast_lab.rehearse.rehearsal import Span

app = typer.Typer(rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]})

RESERVED = ("as-it-was", "low-node-utilization")
TODAY = "today"
WEEK = "7d"
CONFIG_FILE = "BALLAST_CONFIG_FILE"

RecordingOption = Annotated[
    Path | None, typer.Option("--recording", metavar="DIR", help="The folder of a recording.", show_default=False)
]
PrometheusOption = Annotated[
    str | None,
    typer.Option("--prometheus", metavar="URL", help="The Prometheus whose history is rehearsed.", show_default=False),
]
FromOption = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="TIME",
        help="The begin: a time (RFC 3339 or Unix seconds), or how long before the end, such as 7d. "
        "By default all of a recording, 7d of Prometheus.",
        show_default=False,
    ),
]
ToOption = Annotated[
    str | None, typer.Option("--to", metavar="TIME", help="The end; by default the newest.", show_default=False)
]
ClusterOption = Annotated[
    Path | None,
    typer.Option(
        "--cluster",
        metavar="FILE",
        help="The objects, as `kubectl get nodes,pods,pdb,deploy,rs,sts,ds,hpa,ns,pvc,pv -A -o json` prints them; "
        "they count all the time.",
        show_default=False,
    ),
]
LiveOption = Annotated[bool, typer.Option("--live", help="Read the objects from the running cluster.")]
StepOption = Annotated[str, typer.Option("--step", metavar="TIME", help="The time between two cycles.")]


@app.callback(invoke_without_command=True)
def rehearse(
    context: typer.Context,
    prometheus: PrometheusOption = None,
    recording: RecordingOption = None,
    begin: FromOption = None,
    end: ToOption = None,
    cluster: ClusterOption = None,
    live: LiveOption = False,
    settings: Annotated[
        list[Path] | None,
        typer.Option(
            "--settings",
            metavar="FILE",
            help="A configuration file to rehearse; can be repeated. By default the settings of today.",
            show_default=False,
        ),
    ] = None,
    step: StepOption = "60s",
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Write rehearsal.json and report.html here.", show_default=False),
    ] = None,
    at_most: Annotated[
        str | None,
        typer.Option(
            "--at-most",
            metavar="N/d",
            help="Search the settings that do best with at most so many evictions a day.",
            show_default=False,
        ),
    ] = None,
    jobs: options.Jobs = 1,
    backend: options.Backend = "processes",
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what Ballast would have done over recorded days, beside what happened."""
    if context.invoked_subcommand is not None:
        return
    log.configure("error")
    if (prometheus is None) == (recording is None):
        raise UsageError("Give --recording DIR, as `ballast rehearse record` makes it, or --prometheus URL.")
    from ballast.settings import load
    from ballast_lab.rehearse import advice as advising
    from ballast_lab.rehearse import rehearsal as rehearsing
    from ballast_lab.rehearse.recording import open_recording
    from ballast_lab.rehearse.report import render
    from ballast_lab.rehearse.summary import summarise

    seconds, now = _seconds(step, "--step"), time.time()
    bound, environments = _bound(at_most), _environments(settings or ())
    document, origin = _objects(cluster, live)
    if prometheus is not None:
        recording = _fetch(prometheus, None, _times(begin or WEEK, end, now), seconds, document, origin)
    assert recording is not None
    source = open_recording(recording, document, origin)
    span = rehearsing.span_of(source, *_times(begin, end, source.head.end), seconds)
    named = {name: load(environment) for name, environment in environments.items()}
    first = next(iter(named))
    runs = rehearsing.runs_of(source.history, named[first], named, seconds)
    changes = [] if bound is None else advising.grid_of(environments[first], bound, seconds)
    played = rehearsing.play(source, span, runs, _progress())
    grid, advice = [], None
    if bound is not None:
        grid = _play((recording, document, origin), span, environments[first], changes, jobs, backend)
        advice = advising.advise(runs[0], runs[2], grid, bound, span)
    rehearsing.add_power(source, played, named)
    result = rehearsing.rehearsal(source, played, advice)
    body = rehearsing.encode(result)
    if out is not None:
        _write(out, {"rehearsal.json": body, "report.html": render(result, played, grid).encode()})
    if output is Output.JSON:
        typer.echo(body.decode(), nl=False)
        return
    for line in summarise(result):
        typer.echo(line)
    if out is not None:
        typer.echo(f"The report is in {out / 'report.html'}.")


def _play(
    recording: tuple[Path, object, str],
    span: Span,
    environment: Mapping[str, str],
    grid: Sequence[Mapping[str, str]],
    jobs: int,
    backend: str,
) -> list[Candidate]:
    """The candidates of the grid, one after the other or each by itself elsewhere."""
    from ballast_lab.rehearse.advice import play_grid

    if jobs == 1 and backend == "processes":
        return play_grid(recording, span, environment, grid, _progress())
    with options.spread(backend, jobs, "grid") as begin:
        from ballast_lab.experiments.running import run

        calls = [(recording, span, environment, [changes]) for changes in grid]
        return [candidate for part in run(play_grid, calls, jobs, begin(len(calls))) for candidate in part]


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, body in files.items():
            (folder / name).write_bytes(body)
    except OSError as error:
        raise UsageError(f"--out {folder}: {error.strerror}. Give a folder that can be written.") from None


@app.command()
def record(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Write the recording to this folder.")],
    prometheus: PrometheusOption = None,
    begin: FromOption = None,
    end: ToOption = None,
    cluster: ClusterOption = None,
    live: LiveOption = False,
    step: StepOption = "60s",
) -> None:
    """Write a recording of a cluster from Prometheus, which can be rehearsed without the cluster."""
    log.configure("error")
    times = _times(begin or WEEK, end, time.time())
    document, origin = _objects(cluster, live)
    folder = _fetch(prometheus, out, times, _seconds(step, "--step"), document, origin)
    typer.echo(f"The recording is in {folder}. Rehearse it with: ballast rehearse --recording {folder}")


def _objects(cluster: Path | None, live: bool) -> tuple[object, str]:
    """The list of objects, and where it comes from; None without any."""
    if live and cluster is not None:
        raise UsageError("--live and --cluster both give the objects: give one of them.")
    if cluster is not None:
        from ballast.cli import files

        return files.read_document(cluster, "--cluster"), f"--cluster {cluster}"
    if live:
        from ballast.cli.live import read_objects
        from ballast.settings import load

        return read_objects(load())
    return None, ""


def _fetch(
    url: str | None,
    folder: Path | None,
    times: tuple[float | None, float | None],
    step: float,
    cluster: object,
    origin: str,
) -> Path:
    """Reads Prometheus into `folder`, by default into the cache; returns the folder."""
    from ballast.settings import load
    from ballast_lab.rehearse.recorder import MOST_BYTES, Asked, cache_folder
    from ballast_lab.rehearse.recorder import record as record_into

    settings = load({**os.environ, "BALLAST_PROMETHEUS__URL": url} if url else None)
    end = time.time() if times[1] is None else times[1]
    assert times[0] is not None
    asked = Asked(times[0], end, step)
    target = folder or cache_folder(settings, step)
    bound = MOST_BYTES if folder is None else None
    record_into(settings, target, asked, cluster=cluster, source=origin, progress=_progress(), most_bytes=bound)
    return target


def _environments(files: Sequence[Path]) -> dict[str, dict[str, str]]:
    """The environment that stands for each file, by its name: the file alone. Today's without a file.

    Raises SettingsError for settings that cannot be used.
    """
    from ballast.settings import load

    if not files:
        load()
        return {TODAY: dict(os.environ)}
    named: dict[str, dict[str, str]] = {}
    for path in files:
        name = path.stem
        if name in (*RESERVED, *named):
            raise UsageError(f"--settings {path}: another run is called {name} already. Rename the file.")
        if not path.is_file():
            raise UsageError(f"--settings {path}: there is no such file.")
        named[name] = {CONFIG_FILE: str(path)}
        try:
            load(named[name])
        except SettingsError as error:
            raise SettingsError(*(f"--settings {path}: {problem}" for problem in error.problems)) from None
    return named


def _seconds(text: str, option: str) -> float:
    bare = float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else None
    exact = durations.seconds(text) if bare is None else bare
    if exact is None or not exact > 0:
        raise UsageError(f"{option} {text} is no duration above zero. Give one such as 60s, 5m or 7d.")
    return float(exact)


def _bound(text: str | None) -> float | None:
    """Evictions a day."""
    if text is None:
        return None
    number = re.fullmatch(r"(\d+(?:\.\d+)?)(?:/d|/1d|/day)?", text)
    if number is None:
        raise UsageError(f"--at-most {text} is no number of evictions a day. Give one such as 10/d.")
    if not float(number[1]):
        raise UsageError(f"--at-most {text} permits no eviction. Give a number above zero, such as 10/d.")
    return float(number[1])


def _times(begin: str | None, end: str | None, newest: float) -> tuple[float | None, float | None]:
    """Unix seconds of both, None where nothing is said."""
    last = None if end in (None, "now") else _time(str(end), "--to")
    if begin is None:
        return None, last
    ago = durations.seconds(begin)
    first = _time(begin, "--from") if ago is None else min(newest, newest if last is None else last) - float(ago)
    if last is not None and not first < last:
        raise UsageError(f"--from {begin} is not before --to {end}.")
    return first, last


def _time(text: str, option: str) -> float:
    try:
        return float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else _moment(text)
    except ValueError:
        raise UsageError(
            f"{option} {text} is no time. Give RFC 3339 such as 2026-11-24T00:00:00Z, Unix seconds, or for --from how "
            "long before the end, such as 7d."
        ) from None


def _moment(text: str) -> float:
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _progress() -> Callable[[int, int], None]:
    """Shows how far it is and the time left, where somebody looks."""
    if not sys.stderr.isatty():
        return lambda done, of: None
    began = time.monotonic()

    def show(done: int, of: int) -> None:
        if done % 50 == 0 or done == of:
            left = (time.monotonic() - began) / done * (of - done)
            sys.stderr.write(f"\r{done / of:4.0%}, {duration(left)} left   " + ("\n" if done == of else ""))

    return show
