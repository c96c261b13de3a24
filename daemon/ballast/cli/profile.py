"""`ballast profile`: what to give kube-scheduler so that it listens to Ballast."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

import typer
import yaml

from ballast.cli.output import Output
from ballast.cluster.identity import own_namespace
from ballast.errors import UsageError
from ballast.publishing.bin_packing_profile import bin_packing_profile
from ballast.publishing.crane_profile import crane_profile
from ballast.publishing.extender_profile import extender_profile
from ballast.publishing.labels_profile import labels_profile
from ballast.publishing.trimaran_profile import trimaran_profile
from ballast.settings import load
from ballast.settings.values.dns import subdomain


@dataclass(frozen=True)
class Wish:
    """What was asked for; `url` is None where it was not said."""

    prefix: str
    namespace: str
    scheduler: str
    url: str | None
    filtering: bool
    timezone: str

    def url_or(self, service: str) -> str:
        return self.url or f"http://{service}.{self.namespace}.svc:2020"


PROFILES: dict[str, Callable[[Wish], str]] = {
    "labels": lambda wish: labels_profile(wish.prefix, wish.scheduler),
    "extender": lambda wish: extender_profile(
        wish.url_or("ballast-extender"), wish.scheduler, filtering=wish.filtering
    ),
    "trimaran": lambda wish: trimaran_profile(wish.url_or("ballast"), wish.scheduler),
    "crane": lambda wish: crane_profile(wish.scheduler, wish.timezone),
    "bin-packing": lambda wish: bin_packing_profile(wish.scheduler),
}


def profile(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(PROFILES)}.")],
    url: Annotated[
        str | None,
        typer.Option(help="Where the scheduler reaches Ballast; unset: its Service. For extender and trimaran."),
    ] = None,
    filtering: Annotated[
        bool, typer.Option("--filter", help="Let the extender leave out overloaded nodes too.")
    ] = False,
    scheduler_name: Annotated[
        str | None,
        typer.Option(
            help="Name pods choose it by; default-scheduler to replace the cluster's own configuration; "
            "unset: ballast-NAME."
        ),
    ] = None,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="table prints YAML with comments, json the same without them.")
    ] = Output.TABLE,
) -> None:
    """Prints a ready KubeSchedulerConfiguration."""
    if name not in PROFILES:
        raise UsageError(f"There is no profile {name!r}. Choose one of: {', '.join(PROFILES)}.")
    if filtering and name != "extender":
        raise UsageError(f"--filter is for the profile extender; {name} has nothing to filter with.")
    scheduler = scheduler_name if scheduler_name is not None else f"ballast-{name}"
    try:
        subdomain(scheduler)
    except ValueError as error:
        raise UsageError(f"--scheduler-name {scheduler!r}: {error}.") from None
    settings = load()
    namespace = own_namespace(settings.lease.namespace)
    publishing = settings.publishing
    text = PROFILES[name](
        Wish(publishing.prefix, namespace, scheduler, _address(url), filtering, publishing.crane_timezone)
    )
    if output is Output.JSON:
        text = json.dumps(yaml.safe_load(text), indent=2) + "\n"
    typer.echo(text, nl=False)


def _address(url: str | None) -> str | None:
    if url is None:
        return None
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and not (parts.query or parts.fragment)
        usable = usable and not any(map(str.isspace, url))
        _ = parts.port
    except ValueError:
        usable = False
    if not usable:
        raise UsageError(f"--url {url!r} is no address; give one such as http://ballast-extender.ballast.svc:2020.")
    return url
