"""`ballast doctor`: what is wrong around Ballast, and the lines that fix it."""

import os
from typing import Annotated

import msgspec
import typer

from ballast.base import log
from ballast.base.clock import SystemClock
from ballast.base.errors import UsageError
from ballast.base.metrics import Metrics
from ballast.cli.observing.remote import find, settings_of
from ballast.cli.output import Output, OutputOption
from ballast.cluster.client import connect
from ballast.doctor.evidence import PATIENCE, Evidence
from ballast.doctor.finding import Report
from ballast.doctor.registry import CHECKS, WITHIN, examine
from ballast.settings import load


def doctor(
    only: Annotated[
        str | None, typer.Option(help=f"Make these checks only, separated by commas: {', '.join(CHECKS)}.")
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Use the settings of the daemon whose page is at this address, where the environment has none.",
        ),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Ask what the daemon would ask, change nothing, and say what to set. Exits 1 if something has to be fixed."""
    chosen = [] if only is None else [name.strip() for name in only.split(",") if name.strip()]
    if unknown := [name for name in chosen if name not in CHECKS]:
        raise UsageError(f"--only: there is no check {unknown[0]!r}. Choose among {', '.join(CHECKS)}.")
    settings = load() if url is None else load({**settings_of(find(url, None)), **os.environ})
    log.configure("error", settings.log.format)
    api = connect(settings.cluster, Metrics(), PATIENCE)
    evidence = Evidence(settings, api, SystemClock())
    try:
        report = examine(evidence, chosen, WITHIN)
    finally:
        evidence.close()
        api.close()
    typer.echo(msgspec.json.encode(report).decode() if output is Output.JSON else _text(report))
    if report.failed:
        raise typer.Exit(1)


def _text(found: Report) -> str:
    rows = []
    for finding in found.findings:
        subject = f" ({finding.subject})" if finding.subject else ""
        rows.append(f"{finding.status:8}{finding.check}{subject}: {finding.message}")
        rows += [f"            {line}" for line in finding.fix]
    rows.append(", ".join(f"{count} {status}" for status, count in found.summary.items()))
    if found.outlook.states:
        states = ", ".join(f"{count} {state}" for state, count in found.outlook.states.items() if count)
        rows.append("; ".join((f"the daemon's nodes will be: {states}", *found.outlook.why)))
    return "\n".join(rows)
