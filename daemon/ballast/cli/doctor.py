"""`ballast doctor`: what is wrong around Ballast, and the lines that fix it."""

import shutil
import textwrap
from functools import partial
from typing import Annotated

import msgspec
import typer

from ballast.answers.evictions import Plan
from ballast.base import log
from ballast.base.clock import SystemClock
from ballast.base.errors import BallastError, UsageError
from ballast.base.metrics import Metrics
from ballast.base.text import nearest
from ballast.cli.observing.remote import find, settings_of
from ballast.cli.output import LiveOutput, LiveOutputOption
from ballast.cli.place import ContextOption, KubeconfigOption, NamespaceOption, Place
from ballast.cluster.client import connect
from ballast.doctor.checks import CHECKS, WITHIN, examine
from ballast.doctor.cluster_view import CheckNotPossible
from ballast.doctor.evidence import PATIENCE, Evidence
from ballast.doctor.finding import Report
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
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: LiveOutputOption = LiveOutput.TABLE,
) -> None:
    """Ask what the daemon would ask, change nothing, and say what to set. Exits 1 if something has to be fixed."""
    chosen = [] if only is None else [name.strip() for name in only.split(",") if name.strip()]
    if unknown := [name for name in chosen if name not in CHECKS]:
        hint = nearest(unknown[0], CHECKS, f"Choose among {', '.join(CHECKS)}.")
        raise UsageError(f"--only: there is no check {unknown[0]!r}. {hint}")
    place = Place(url, namespace, kubeconfig, context)
    settings = load({**(settings_of(find(place)) if url is not None else {}), **place.environment})
    log.configure("error", settings.log.format)
    api = connect(settings.cluster, Metrics(), PATIENCE)
    evidence = Evidence(settings, api, SystemClock())
    evidence.plans = partial(_plans, place)
    try:
        report = examine(evidence, chosen, WITHIN)
    finally:
        evidence.close()
        api.close()
    typer.echo(output.text(msgspec.to_builtins(report), lambda: _text(report)))
    if report.failed:
        raise typer.Exit(1)


def _plans(place: Place) -> list[Plan]:
    try:
        return msgspec.convert(find(place, PATIENCE).json("/api/v1/plans"), list[Plan])
    except (BallastError, msgspec.ValidationError) as error:
        raise CheckNotPossible(f"no running daemon shows its plans ({error})") from error


def _text(report: Report) -> str:
    """What was not looked at stands together, by reason; lines are wrapped at words, those to copy are not."""
    rows = []
    unseen: dict[str, list[str]] = {}
    for finding in report.findings:
        if finding.status == "skipped":
            unseen.setdefault(finding.message, []).append(finding.check)
            continue
        subject = f" ({finding.subject})" if finding.subject else ""
        rows.append(_wrapped(f"{finding.status:8}{finding.check}{subject}: {finding.message}"))
        for line, tried in zip(finding.fix, finding.tried, strict=True):
            shown = f"  # tried: {tried.known:,} of {tried.of:,} nodes known" if tried else ""
            rows.append(f"            {line}{shown}")
    rows += [_wrapped(f"{'skipped':8}{', '.join(checks)}: {why}") for why, checks in unseen.items()]
    rows.append(", ".join(f"{count} {status}" for status, count in report.summary.items()))
    if report.outlook.states:
        states = ", ".join(f"{count} {state}" for state, count in report.outlook.states.items() if count)
        rows.append(_wrapped("; ".join((f"the daemon's nodes will be: {states}", *report.outlook.why))))
    if report.install:
        rows += ["", report.install]
        rows += [_wrapped(f"        assumed: {assumption}") for assumption in report.assumed]
    return "\n".join(rows)


def _wrapped(line: str) -> str:
    width = max(60, shutil.get_terminal_size((120, 24)).columns)
    return textwrap.fill(line, width, subsequent_indent=" " * 8, break_long_words=False, break_on_hyphens=False)
