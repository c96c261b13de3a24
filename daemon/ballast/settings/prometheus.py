"""The part `prometheus` of the settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from ballast.extensions import installed
from ballast.settings.part import File, Positive, SettingsPart
from ballast.settings.values.collection import as_list, as_map
from ballast.settings.values.duration import Duration

_MATCHER = re.compile(r"""[A-Za-z_][A-Za-z0-9_]*\s*(=~|!~|!=|=)\s*("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`)""")

BUILT_IN_PRESETS = ("node-exporter", "kube-prometheus")
PRESETS_GROUP = "ballast.presets"
"""Entry points of other packages, each with the name of a preset."""


def _preset(name: str) -> str:
    if name not in BUILT_IN_PRESETS and name not in (others := installed(PRESETS_GROUP)):
        *first, last = dict.fromkeys(map(repr, (*BUILT_IN_PRESETS, *others)))
        raise ValueError(f"expected one of {', '.join(first)} or {last}")
    return name


Preset = Annotated[str, AfterValidator(_preset)]
"""The name of a preset, built in or of another package."""


def _url(value: str) -> str:
    try:
        parts = urlsplit(value)
        parts.port  # noqa: B018 - raises ValueError for an invalid port
    except ValueError:
        raise ValueError(
            "expected an http or https address such as http://prometheus:9090, with / in its user as %2F"
        ) from None
    if parts.scheme not in ("http", "https"):
        raise ValueError("expected an address that begins with http:// or https://, such as http://prometheus:9090")
    if not parts.hostname:
        raise ValueError("expected an address with a host, such as http://prometheus:9090")
    if parts.query or parts.fragment:
        raise ValueError("expected an address without ? and #; the path prefix is where /api/v1 begins")
    return value.rstrip("/")


def _matchers(value: object) -> list[str]:
    text = value.strip() if isinstance(value, str) else value
    if isinstance(text, str) and text.startswith("{") and text.endswith("}"):
        text = text[1:-1]
    items = [str(item).strip() for item in as_list(text)]
    for item in items:
        if not _MATCHER.fullmatch(item):
            raise ValueError(f'expected label matchers such as cluster="a",job=~"node.*"; {item} is not one')
    return items


def _headers(value: object) -> dict[str, str]:
    headers = {name: str(text) for name, text in as_map(value).items()}
    for name, text in headers.items():
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
            raise ValueError(f"expected header names of letters, digits and dashes; {name!r} is not one")
        if re.search(r"[\x00-\x08\x0a-\x1f\x7f]", text):
            raise ValueError(f"expected header values of one line; that of {name} has control characters")
    return headers


class Prometheus(SettingsPart):
    """How to reach Prometheus, or another server with its HTTP API."""

    url: Annotated[Annotated[str, AfterValidator(_url)] | None, Field(repr=False)] = None
    """Address of Prometheus, with its path prefix if it has one."""

    preset: Preset = "node-exporter"
    """Metrics to query: node-exporter (raw ones), kube-prometheus (its recording rules), or a preset of a package."""

    matchers: Annotated[tuple[str, ...], BeforeValidator(_matchers)] = ()
    """Label matchers added to every selector of a preset, such as cluster="a",job=~"node.*"."""

    token_file: File | None = None
    """File with a bearer token; read again when it changes."""

    username: str | None = None
    """User name for basic authentication."""

    password_file: File | None = None
    """File with the password for basic authentication; read again when it changes."""

    ca_file: File | None = None
    """CA certificates that verify the server."""

    cert_file: File | None = None
    """Client certificate (mTLS)."""

    key_file: File | None = None
    """Private key of the client certificate."""

    headers: Annotated[Mapping[str, str], BeforeValidator(_headers), Field(repr=False)] = {}
    """Additional request headers, such as {"X-Scope-OrgID": "team"}; values are never shown."""

    timeout: Annotated[Duration, Positive] = Duration("10s")
    """Maximum time of one query."""

    insecure_skip_verify: bool = False
    """Accept any server certificate."""

    token: Annotated[SecretStr | None, Field(exclude=True)] = None
    """Bearer token from METRICS_PROVIDER_TOKEN."""
