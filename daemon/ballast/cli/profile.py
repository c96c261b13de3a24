"""`ballast profile`: the configuration with which kube-scheduler uses Ballast."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer
import yaml

from ballast.base.errors import UsageError
from ballast.base.text import nearest
from ballast.cli.output import Output
from ballast.cluster.identity import own_namespace
from ballast.publishing.scheduler_profiles import (
    MOST_ALLOCATED,
    RATIO,
    STRATEGIES,
    bin_packing_profile,
    crane_profile,
    extender_profile,
    labels_profile,
    trimaran_profile,
)
from ballast.settings import load
from ballast.settings.names import subdomain
from ballast.settings.plain_parts import ExtenderSettings
from ballast.settings.secrets import SecretFile
from ballast.windows.band import STEPS

if TYPE_CHECKING:
    from ballast.cli.packing import Packing


@dataclass(frozen=True)
class ProfileOptions:
    """The options of a profile; `url` is None for the Service in `namespace`, `packing` for the other profiles."""

    prefix: str
    namespace: str
    scheduler: str
    url: str | None
    filtering: bool
    tls: bool
    extender: ExtenderSettings
    timezone: str
    packing: Packing | None = None

    def url_or(self, service: str) -> str:
        """The URL that was given, else that of a Service."""
        return self.url or f"{'https' if self.tls else 'http'}://{service}.{self.namespace}.svc:2020"

    def extender_profile(self) -> str:
        """With what the extender's callers have to show; certificates where nothing else is asked for."""
        file = self.extender.token_file
        token = SecretFile(file, "BALLAST_EXTENDER__TOKEN_FILE").read().strip() if file else ""
        certificate = bool(self.extender.client_ca_file) or (self.tls and not token)
        return extender_profile(
            self.url_or("ballast-extender"),
            self.scheduler,
            filtering=self.filtering,
            token=token,
            files=self.tls,
            certificate=certificate,
        )

    def bin_packing_profile(self) -> str:
        """With what is packed."""
        assert self.packing is not None
        return bin_packing_profile(self.scheduler, self.packing.strategy, self.packing.resources, self.packing.shape)


PROFILES: dict[str, Callable[[ProfileOptions], str]] = {
    "labels": lambda given: labels_profile(given.prefix, given.scheduler),
    "extender": ProfileOptions.extender_profile,
    "trimaran": lambda given: trimaran_profile(given.url_or("ballast"), given.scheduler),
    "crane": lambda given: crane_profile(given.scheduler, given.timezone),
    "bin-packing": ProfileOptions.bin_packing_profile,
}


def profile(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(PROFILES)}.")],
    url: Annotated[
        str | None, typer.Option(help="Address of Ballast, for extender and trimaran. Default: its Service.")
    ] = None,
    filtering: Annotated[
        bool | None,
        typer.Option(
            "--filter/--no-filter",
            help="Let the extender filter too: it keeps other pods out of room that is held. Default: yes.",
            show_default=False,
        ),
    ] = None,
    tls: Annotated[
        bool,
        typer.Option("--tls", help="For the extender: https, with the files that kube-scheduler shows and trusts."),
    ] = False,
    scheduler_name: Annotated[
        str | None,
        typer.Option(
            help="The schedulerName that pods use; default-scheduler replaces the configuration of the cluster's own. "
            "Default: ballast-NAME."
        ),
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"For bin-packing: {' or '.join(STRATEGIES)}. Default: {MOST_ALLOCATED}.",
            show_default=False,
        ),
    ] = None,
    resources: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="For bin-packing: what is packed, with weights from 1 to 100 (1 where none is given), such as "
            "cpu,memory,nvidia.com/gpu=5. Default: cpu,memory.",
            show_default=False,
        ),
    ] = None,
    shape: Annotated[
        str | None,
        typer.Option(
            metavar="POINTS",
            help=f"For bin-packing with {RATIO}: percent requested and score 0..10. Default: 0:0,100:10.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="table prints YAML for kube-scheduler, json the same for programs.")
    ] = Output.TABLE,
) -> None:
    """Print a complete KubeSchedulerConfiguration."""
    if name not in PROFILES:
        hint = f"Choose one of: {', '.join(PROFILES)}. {nearest(name, PROFILES)}".rstrip()
        raise UsageError(f"There is no profile {name!r}. {hint}")
    if filtering is not None and name != "extender":
        raise UsageError(f"--filter is for the profile extender; {name} cannot filter.")
    if tls and name != "extender":
        raise UsageError(f"--tls is for the profile extender; {name} is not asked over TLS.")
    if tls and url is not None and not url.lower().startswith("https://"):
        raise UsageError(f"--tls needs an address with https://, and --url is {url!r}.")
    packed = {"--strategy": strategy, "--resources": resources, "--shape": shape}
    if name != "bin-packing" and (useless := next((option for option in packed if packed[option] is not None), None)):
        raise UsageError(f"{useless} is for the profile bin-packing; {name} does not pack.")
    scheduler = scheduler_name if scheduler_name is not None else f"ballast-{name}"
    try:
        subdomain(scheduler)
    except ValueError as error:
        raise UsageError(f"--scheduler-name {scheduler!r}: {error}.") from None
    settings = load()
    namespace = own_namespace(settings.lease.namespace)
    publishing = settings.publishing
    text = PROFILES[name](
        ProfileOptions(
            publishing.label_prefix or publishing.prefix,
            namespace,
            scheduler,
            _address(url),
            filtering is not False,
            tls,
            settings.extender,
            publishing.crane_timezone,
            _packing(strategy, resources, shape) if name == "bin-packing" else None,
        )
    )
    if output is Output.JSON:
        document = yaml.safe_load(text)
        if name == "labels":
            document["scoreMax"] = STEPS
        text = json.dumps(document, indent=2) + "\n"
    typer.echo(text, nl=False)


def _packing(strategy: str | None, resources: str | None, shape: str | None) -> Packing:
    from ballast.cli.packing import packing

    return packing(strategy, resources, shape)


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
        raise UsageError(f"--url {url!r} is not an address. Give one such as http://ballast-extender.ballast.svc:2020.")
    return url
