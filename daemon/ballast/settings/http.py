"""The part `http` of the settings."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from ballast.settings.part import File, SettingsPart
from ballast.settings.values.collection import as_list
from ballast.settings.values.dns import subdomain


def _bind(text: str) -> str:
    match = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]\s]*):(\d{1,5})", text)
    if not match or int(match[2]) > 65535:
        raise ValueError("expected HOST:PORT such as 127.0.0.1:2022")
    return text


def _hosts(value: object) -> list[str]:
    return [subdomain(str(name).strip().lower()) for name in as_list(value)]


class HttpSettings(SettingsPart):
    """Where Ballast listens."""

    host: str = "0.0.0.0"  # noqa: S104
    """Address to listen on."""

    port: Annotated[int, Field(ge=0, le=65535)] = 2020
    """Port to listen on; 0: any free one."""

    health_port: Annotated[int, Field(ge=0, le=65535)] = 2021
    """Port of `/livez` and `/readyz` alone, without TLS, served by a thread of its own; 0: any free one."""

    extender_bind: Annotated[str, AfterValidator(_bind)] | None = None
    """HOST:PORT of a separate listener for the extender; unset: the common port."""

    tls_cert_file: File | None = None
    """Server certificate; if set, Ballast serves TLS."""

    tls_key_file: File | None = None
    """Private key of the server certificate."""

    allowed_hosts: Annotated[tuple[str, ...], BeforeValidator(_hosts)] = ()
    """Names by which browsers may reach the page, beside addresses, names without a dot and names of the cluster."""

    client_ca_file: File | None = None
    """CA that clients' certificates must come from; needs TLS."""

    metrics_auth: Literal["none", "kubernetes"] = "none"
    """Who may read `/metrics`: everybody, or who shows a token of the cluster that may `get` this path."""

    api_auth: Literal["none", "kubernetes"] = "none"
    """Who may read `/api/`: everybody, or who shows a token of the cluster that may `get` the path `/api/`."""

    @property
    def reviewed(self) -> tuple[str, ...]:
        """Paths for which tokens are reviewed."""
        found = (("/metrics", self.metrics_auth), ("/api/", self.api_auth))
        return tuple(path for path, auth in found if auth == "kubernetes")

    def of_health(self) -> HttpSettings:
        """The health port's address, without TLS. Any free port where `port` is 0 and no health port is set."""
        free = self.port == 0 and "health_port" not in self.model_fields_set
        return HttpSettings(host=self.host, port=0 if free else self.health_port)

    def of_extender(self) -> HttpSettings | None:
        """The same settings at the extender's own address; None without `extender_bind`."""
        if self.extender_bind is None:
            return None
        host, _, port = self.extender_bind.rpartition(":")
        return self.model_copy(update={"host": host.strip("[]") or "0.0.0.0", "port": int(port)})  # noqa: S104
