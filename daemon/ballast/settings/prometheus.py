"""The part `prometheus` of the settings."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Protocol
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, WithJsonSchema

from ballast.base.errors import UsageError
from ballast.base.registry import Registry
from ballast.settings.lists import as_list, as_map
from ballast.settings.part import Expert, File, Positive, SettingsPart
from ballast.settings.written import Duration

_QUOTED = r"""("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`)"""
_MATCHER = re.compile(rf"""([A-Za-z_][A-Za-z0-9_.]*|"[^"\\\n]+")\s*(=~|!~|!=|=)\s*{_QUOTED}""")
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_NODES = ("cpu", "memory", "disk", "network")
BUILT_IN_PRESETS: Mapping[str, tuple[str, ...]] = {
    "node-exporter": _NODES,
    "kube-prometheus": _NODES,
    "kubelet": ("cpu", "memory", "pods"),
    "windows-exporter": _NODES,
    "dcgm": ("gpu",),
    "psi": ("psi-cpu", "psi-memory", "psi-io"),
}
"""The resources of each preset."""


class Preset(Protocol):
    """A preset of another package: PromQL per node.

    `label` names the node in a series, `matchers` belong into every selector.
    """

    def queries(self, label: str, matchers: Sequence[str], window: str) -> Mapping[str, str]:
        """Resource → PromQL that gives a ratio 0..1 per node, aggregated by `label` and `cluster`.

        `window` is the range of every `rate`, such as 120s.
        """
        ...

    def freshness(self, label: str, matchers: Sequence[str]) -> str:
        """PromQL whose value per node is the Unix time of its newest sample, aggregated in the same way."""
        ...


PRESETS: Registry[Preset] = Registry("ballast.presets", BUILT_IN_PRESETS, Preset)
"""Presets of other packages, by the names of their entry points."""


def _preset(value: object) -> str:
    names = [str(name) for name in as_list(value)]
    for name in names or [""]:
        if name not in BUILT_IN_PRESETS and name not in (others := PRESETS.others()):
            *first, last = dict.fromkeys(map(repr, (*BUILT_IN_PRESETS, *others)))
            raise ValueError(f"expected one of {', '.join(first)} or {last}, or several separated by commas")
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise ValueError(f"expected each preset once; {', '.join(doubled)} is given more than once")
    try:
        for name in names:
            PRESETS.get(name)
    except UsageError as error:
        raise ValueError(str(error)) from error
    return ",".join(names)


def quoted_label(name: str) -> str:
    """The name of a label as PromQL writes it: in quotes where it has more than letters, digits and _."""
    return name if _PLAIN_NAME.fullmatch(name) else promql_string(name)


def promql_string(text: str) -> str:
    """Any text as a string of PromQL, which ends at a line end: what is not printable becomes an escape."""
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    if character in '\\"':
        return f"\\{character}"
    code = ord(character)
    # Half of a pair is no character of UTF-8. Prometheus reads what stands for one as such, too, unless it is escaped.
    if 0xD800 <= code < 0xE000 or code == 0xFFFD:
        return r"\ufffd"
    if character.isprintable():
        return character
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


Presets = Annotated[str, BeforeValidator(_preset), WithJsonSchema({"type": ["string", "array"]})]
"""Names of presets, built in or of other packages, separated by commas."""


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
    """As PromQL reads them: k8s.cluster.name="a" becomes "k8s.cluster.name"="a"."""
    text = value.strip() if isinstance(value, str) else value
    if isinstance(text, str) and text.startswith("{") and text.endswith("}"):
        text = text[1:-1]
    items = [str(item).strip() for item in as_list(text)]
    matchers = []
    for item in items:
        match = _MATCHER.fullmatch(item)
        if match is None:
            raise ValueError(f'expected label matchers such as cluster="a",job=~"node.*"; {item} is not one')
        name = match.group(1)
        matchers.append(item if name.startswith('"') else quoted_label(name) + item[len(name) :])
    return matchers


def _headers(value: object) -> dict[str, str]:
    headers = {name: str(text) for name, text in as_map(value).items()}
    for name, text in headers.items():
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
            raise ValueError(f"expected header names of letters, digits and dashes; {name!r} is not one")
        if re.search(r"[\x00-\x08\x0a-\x1f\x7f]", text):
            raise ValueError(f"expected header values of one line; that of {name} has control characters")
    return headers


class PrometheusSettings(SettingsPart):
    """How to reach Prometheus, or another server with its HTTP API."""

    url: Annotated[
        Annotated[str, AfterValidator(_url), WithJsonSchema({"type": "string", "pattern": "^$|^https?://"})] | None,
        Field(repr=False),
    ] = None
    """Address of Prometheus, with its path prefix if it has one."""

    preset: Presets = "node-exporter"
    """Metrics to query: node-exporter, kube-prometheus (its recording rules), kubelet, windows-exporter, dcgm (resource
    gpu), psi (psi-cpu, psi-memory, psi-io), or a preset of a package. Of several, separated by commas, the first that
    knows a node counts for it."""

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

    cert_file: Expert[File | None] = None
    """Client certificate (mTLS)."""

    key_file: Expert[File | None] = None
    """Private key of the client certificate."""

    headers: Annotated[Mapping[str, str], BeforeValidator(_headers), Field(repr=False)] = {}
    """Additional request headers, such as {"X-Scope-OrgID": "team"}; values are never shown."""

    timeout: Expert[Annotated[Duration, Positive]] = Duration("10s")
    """Maximum time of one query."""

    insecure_skip_verify: Expert[bool] = False
    """Accept any server certificate."""

    token: Annotated[SecretStr | None, Field(exclude=True)] = None
    """Bearer token from METRICS_PROVIDER_TOKEN."""

    @property
    def presets(self) -> tuple[str, ...]:
        """The chosen presets in their order."""
        return tuple(self.preset.split(","))
