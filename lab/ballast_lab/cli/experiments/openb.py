"""`ballast experiment openb`: placement of GPU pods on a public trace, beside the published results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ballast.base.errors import UsageError
from ballast.cli.output import Output, OutputOption
from ballast_lab.cli.experiments import options

ALL = "all"


def openb(
    data: Annotated[
        Path, typer.Option(metavar="DIR", help="The folder of public traces, which holds openb/.", show_default=False)
    ],
    workload: Annotated[str, typer.Option(metavar="NAMES", help=f"Pod lists, apart by commas, or {ALL}.")] = ALL,
    policy: Annotated[str, typer.Option(metavar="NAMES", help=f"Policies, apart by commas, or {ALL}.")] = "residual",
    seeds: Annotated[
        str, typer.Option(metavar="N", help="The number of seeds, from 42 on, or the seeds, such as 3,5 or 0-8.")
    ] = "10",
    jobs: options.Jobs = -1,
    backend: options.Backend = "processes",
    out: options.Out = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Place GPU pods until 130 % of the devices are asked for, and count the devices in use."""
    options.require_joblib()
    from ballast_lab.experiments.openb import report
    from ballast_lab.experiments.openb.policies import POLICIES
    from ballast_lab.experiments.openb.running import run
    from ballast_lab.experiments.openb.trace import FIRST_SEED, names

    chosen_seeds = options.seeds_of(seeds)
    if seeds.strip().isdecimal():
        chosen_seeds = [FIRST_SEED + seed for seed in chosen_seeds]
    options.check_jobs(jobs)
    policies, chosen = _among("--policy", policy, list(POLICIES)), _among("--workload", workload, names(data))
    if out is not None:
        _write(out, {})
    with options.spread(backend, jobs, "openb") as begin:
        document = run(data, chosen, policies, chosen_seeds, jobs=jobs, begin=begin)
    text = json.dumps(document, indent=2, allow_nan=False)
    table = report.table(document)
    if out is not None:
        _write(out, {"results.json": text + "\n", "table.md": table, "allocation.svg": report.chart(document)})
    typer.echo(text if output is Output.JSON else table.rstrip())


def _among(option: str, given: str, known: list[str]) -> list[str]:
    found: list[str] = []
    for name in (each.strip() for each in given.split(",")):
        if name != ALL and name not in known:
            raise UsageError(f"{option} {name}: there is no such name. Choose {ALL} or some of {', '.join(known)}.")
        found += known if name == ALL else [name]
    return list(dict.fromkeys(found))


def _write(folder: Path, texts: dict[str, str]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--out {folder}: {error.strerror}.") from None
