"""`ballast profile`: what to give kube-scheduler so that it listens to Ballast."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer
import yaml

from ballast.errors import UsageError
from ballast.publishing.profile import labels_profile
from ballast.settings import load
from ballast.settings.values.dns import subdomain

PROFILES = {"labels": labels_profile}


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"


def profile(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(PROFILES)}.")],
    scheduler_name: Annotated[
        str, typer.Option(help="Name pods choose it by; default-scheduler to replace the cluster's own configuration.")
    ] = "ballast-labels",
    output: Annotated[
        Output, typer.Option("--output", "-o", help="table prints YAML with comments, json the same without them.")
    ] = Output.TABLE,
) -> None:
    """Prints a ready KubeSchedulerConfiguration for a stock kube-scheduler."""
    if name not in PROFILES:
        raise UsageError(f"There is no profile {name!r}. Choose one of: {', '.join(PROFILES)}.")
    try:
        subdomain(scheduler_name)
    except ValueError as error:
        raise UsageError(f"--scheduler-name {scheduler_name!r}: {error}.") from None
    text = PROFILES[name](load().publishing.prefix, scheduler_name)
    if output is Output.JSON:
        text = json.dumps(yaml.safe_load(text), indent=2) + "\n"
    typer.echo(text, nl=False)
