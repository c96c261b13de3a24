"""The part `extender` of the settings."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from ballast.settings.part import File, Positive, SettingsPart
from ballast.settings.strategy import Strategy
from ballast.settings.values.dns import subdomain
from ballast.settings.values.duration import Duration
from ballast.settings.values.fraction import Load


class ExtenderSettings(SettingsPart):
    """How the scheduler extender answers."""

    strategy: Strategy = "blend"
    """Strategy behind the answers; ?profile= selects another one."""

    filter_threshold: Load | None = None
    """Load above which a node is filtered out; unset: no node is filtered out for its load."""

    service: Annotated[str, AfterValidator(subdomain)] = "ballast-extender"
    """Service without a selector whose EndpointSlice the leader writes, in its own namespace."""

    token_file: File | None = None
    """File with a token that callers must show, in the path /scheduler/TOKEN/prioritize or as Authorization: Bearer;
    read again when it changes."""

    client_ca_file: File | None = None
    """CA of the certificates by which callers are let in; needs TLS. With a token too, one of both is enough."""

    assume_for: Annotated[Duration, Positive] = Duration("30s")
    """How long a placement decision counts while the watch has not confirmed it."""
