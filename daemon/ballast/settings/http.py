"""Where Ballast listens."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from ballast.settings.part import File, SettingsPart


def _bind(text: str) -> str:
    match = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]\s]*):(\d{1,5})", text)
    if not match or int(match[2]) > 65535:
        raise ValueError("expected HOST:PORT such as 127.0.0.1:2021")
    return text


class Http(SettingsPart):
    host: str = "0.0.0.0"  # noqa: S104
    """Address to listen on."""

    port: Annotated[int, Field(ge=0, le=65535)] = 2020
    """Port to listen on; 0: any free one."""

    extender_bind: Annotated[str, AfterValidator(_bind)] | None = None
    """HOST:PORT where the extender alone listens; unset: on the common port."""

    tls_cert_file: File | None = None
    """Server certificate; with it Ballast speaks TLS."""

    tls_key_file: File | None = None
    """Private key of the server certificate."""

    client_ca_file: File | None = None
    """CA whose client certificates are demanded; needs TLS."""

    def of_extender(self) -> Http | None:
        """The same with the address of the extender, where it has one of its own."""
        if self.extender_bind is None:
            return None
        host, _, port = self.extender_bind.rpartition(":")
        return self.model_copy(update={"host": host.strip("[]") or "0.0.0.0", "port": int(port)})  # noqa: S104
