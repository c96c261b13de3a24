"""`ballast experiment openb`: placement of GPU pods on a public trace, beside the published results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from ballast.base.errors import UsageError
from ballast.cli.output import Output, OutputOption
from ballast_lab.cli.experiments import options

ALL, REDRAWN, BATCH = "all", "redrawn", "batch"


def openb(
    data: options.Data = None,
    workload: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help=f"Pod lists, apart by commas. {ALL}: those of the folder; {REDRAWN}: the others, drawn from these.",
        ),
    ] = ALL,
    policy: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help=f"Policies, apart by commas. {ALL}: those for pods as they come; {BATCH}: for pods all known.",
        ),
    ] = "residual",
    seeds: options.Seeds = "10",
    jobs: options.Jobs = -1,
    backend: options.Backend = "processes",
    out: options.Out = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Place GPU pods until 130 % of the devices are asked for, and count the devices in use.

    --data has a folder openb with the trace (measurements/experiments.md says where
    it comes from). A number of --seeds counts
    from 42 on, as published.
    """
    options.require_joblib()
    from ballast_lab.experiments.openb import report
    from ballast_lab.experiments.openb.policies import KNOWN_BEFOREHAND, ONLINE
    from ballast_lab.experiments.openb.running import run
    from ballast_lab.experiments.openb.trace import FIRST_SEED, missing, names

    chosen_seeds = options.seeds_of(seeds)
    if seeds.strip().isdecimal():
        chosen_seeds = [FIRST_SEED + seed for seed in chosen_seeds]
    options.check_jobs(jobs)
    if data is None:
        raise UsageError(
            "experiment openb needs traces: give --data DIR, a folder with openb/. See measurements/experiments.md."
        )
    policies = _among("--policy", policy, {ALL: ONLINE, BATCH: KNOWN_BEFOREHAND})
    chosen = _among("--workload", workload, {ALL: names(data), REDRAWN: missing(data) or names(data)})
    if out is not None:
        _write(out, {})
    with options.spread(backend, jobs, "openb") as begin:
        document = run(data, chosen, policies, chosen_seeds, jobs=jobs, begin=begin)
    text = json.dumps(document, indent=2, allow_nan=False)
    table = report.table(document)
    if out is not None:
        _write(out, {"results.json": text + "\n", "table.md": table, "allocation.svg": report.chart(document)})
    typer.echo(text if output is Output.JSON else table.rstrip())


def _among(option: str, text: str, groups: Mapping[str, Sequence[str]]) -> list[str]:
    """The names in the text; that of a group stands for all of its names."""
    chosen: list[str] = []
    for name in (part.strip() for part in text.split(",")):
        if name not in groups and not any(name in group for group in groups.values()):
            known = ", ".join(name for group in groups.values() for name in group)
            raise UsageError(
                f"{option} {name}: there is no such name. Choose {' or '.join(groups)}, or some of {known}."
            )
        chosen += groups.get(name, [name])
    return list(dict.fromkeys(chosen))


def _write(folder: Path, texts: dict[str, str]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--out {folder}: {error.strerror}.") from None
