"""`ballast sysdump`: one archive without secrets, to attach to an issue."""

from __future__ import annotations

import io
import json
import os
import platform
import re
import tarfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ballast import __version__
from ballast.base.errors import BallastError
from ballast.base.text import HIDDEN, without_secrets
from ballast.cli.observing.remote import Remote, find, through_cluster
from ballast.cli.output import LiveOutput, LiveOutputOption
from ballast.cli.place import ContextOption, KubeconfigOption, NamespaceOption, Place, UrlOption

if TYPE_CHECKING:
    from ballast.cluster.client import KubeApi

ANSWERS = {
    "api/status.json": "/api/v1/status",
    "api/nodes.json": "/api/v1/nodes",
    "api/power.json": "/api/v1/power",
    "api/plans.json": "/api/v1/plans",
    "api/evictions.json": "/api/v1/evictions",
    "api/ledger.json": "/api/v1/ledger",
    "api/cycles.json": "/api/v1/cycles",
    "settings.json": "/api/v1/config",
    "metrics.txt": "/metrics",
    "readyz.txt": "/readyz?verbose",
}
STATE, SWITCHES = "configmaps/ballast-state", "configmaps/ballast-switches"
SELECTOR = "app.kubernetes.io/name=ballast"
LOG_LINES = 5000
LOG_BYTES = 5_000_000
FOUND_NOTHING = "nothing could be read"


@dataclass
class Dump:
    """Texts by file name, and why others are missing."""

    secrets: frozenset[str] = frozenset()
    files: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, read: Callable[[], bytes]) -> bytes | None:
        """Reads one file; what fails is noted. Returns it as it was."""
        try:
            content = read()
        except BallastError as error:
            self.missing[name] = redacted(str(error), self.secrets)
            return None
        self.files[name] = redacted(content.decode("utf-8", "replace"), self.secrets)
        return content


def sysdump(
    to: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The archive to write. Default: ballast-sysdump-TIME.tar.gz here."),
    ] = None,
    url: UrlOption = None,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: LiveOutputOption = LiveOutput.TABLE,
) -> None:
    """Write one archive for an issue: answers, metrics, settings and logs, without secrets. Look into it first.

    Exits 1 if the daemon did not answer; the archive then holds what the cluster shows.
    """
    place = Place(url, namespace, kubeconfig, context)
    now = datetime.now(UTC)
    target = to or Path(f"ballast-sysdump-{now:%Y%m%dT%H%M%SZ}.tar.gz")
    dump = Dump(known_secrets())
    silent = ""
    try:
        remote: Remote | None = find(place)
    except BallastError as error:
        remote, silent = None, str(error)
        dump.missing["api"] = redacted(silent, dump.secrets)
    if remote is not None:
        for name, path in ANSWERS.items():
            dump.add(name, partial(remote.get, path))
    server = _cluster(dump, remote, place)
    if not dump.files:
        raise BallastError(f"No archive was written: {FOUND_NOTHING}. {silent}")
    index = {
        "made_at": f"{now:%Y-%m-%dT%H:%M:%SZ}",
        "ballast": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "daemon": redacted(remote.address, dump.secrets) if remote else None,
        "cluster": redacted(server, dump.secrets) if server else None,
        "files": sorted(dump.files),
        "missing": dump.missing,
    }
    dump.files["index.json"] = json.dumps(index, indent=2)
    _write(target, dump.files)
    answer = {"file": str(target), "files": sorted(dump.files), "missing": dump.missing}
    if output is not LiveOutput.TABLE:
        typer.echo(output.text(answer, str))
    else:
        typer.echo(f"{target}: {len(dump.files)} files, {target.stat().st_size / 1e3:.0f} kB")
        for name, reason in dump.missing.items():
            typer.echo(f"without {name}: {reason}", err=True)
        typer.echo("Secrets are masked. Look into it before you share it: it names nodes, pods and namespaces.")
    if remote is None:
        raise typer.Exit(1)


def _cluster(dump: Dump, remote: Remote | None, place: Place) -> str | None:
    """Adds logs and objects of the installation; returns the address of the API server."""
    try:
        around = remote if remote is not None and remote.cluster is not None else through_cluster(place)
    except BallastError as error:
        dump.missing["cluster"] = redacted(str(error), dump.secrets)
        return None
    assert around.cluster is not None
    api = around.cluster
    base = f"/api/v1/namespaces/{around.namespace}"
    state = _object(dump, api, base, STATE)
    for number in _parts(state):
        _object(dump, api, base, f"{STATE}-{number}")
    _object(dump, api, base, SWITCHES)
    dump.add("cluster/events.json", partial(api.get, f"{base}/events", query={"limit": 500}))
    listed = dump.add("cluster/pods.json", partial(_pods, api, base))
    for pod in json.loads(listed) if listed else ():
        _logs(dump, api, base, pod)
    api.close()
    return api.server


def _object(dump: Dump, api: KubeApi, base: str, path: str) -> bytes | None:
    return dump.add(f"cluster/{path.replace('/', '-')}.json", partial(api.get, f"{base}/{path}"))


def _parts(answer: bytes | None) -> list[int]:
    """The ConfigMaps that a large state lies in too, by its index; none where that cannot be read."""
    from ballast.cluster import state

    try:
        places = state.index(json.loads(answer or b"{}").get("data") or {})
    except (ValueError, AttributeError):
        return []
    return sorted({place.part for chunks in places.values() for place in chunks})


def _pods(api: KubeApi, base: str) -> bytes:
    """The pods of the installation, without environment and volumes."""
    answer = json.loads(api.get(f"{base}/pods", query={"labelSelector": SELECTOR}))
    return json.dumps([_pod(pod) for pod in answer["items"]], indent=2).encode()


def _pod(pod: dict[str, Any]) -> dict[str, Any]:
    status = pod.get("status", {})
    states = status.get("containerStatuses") or ()
    return {
        "name": pod["metadata"]["name"],
        "node": pod.get("spec", {}).get("nodeName"),
        "phase": status.get("phase"),
        "conditions": status.get("conditions"),
        "containers": [
            {key: container.get(key) for key in ("name", "image", "ready", "restartCount", "state", "lastState")}
            for container in states
        ],
    }


def _logs(dump: Dump, api: KubeApi, base: str, pod: dict[str, Any]) -> None:
    for container in pod["containers"]:
        query: dict[str, str | int] = {"container": container["name"], "tailLines": LOG_LINES, "limitBytes": LOG_BYTES}
        name = f"logs/{pod['name']}-{container['name']}"
        path = f"{base}/pods/{pod['name']}/log"
        dump.add(f"{name}.log", partial(api.get, path, query=query))
        if container["restartCount"]:
            before = {**query, "previous": "true"}
            dump.add(f"{name}-previous.log", partial(api.get, path, query=before))


def _write(target: Path, files: dict[str, str]) -> None:
    folder = target.name.removesuffix(".tar.gz")
    try:
        with tarfile.open(target, "w:gz") as archive:
            for name, text in sorted(files.items()):
                body = text.encode()
                entry = tarfile.TarInfo(f"{folder}/{name}")
                entry.size, entry.mtime = len(body), int(time.time())
                archive.addfile(entry, io.BytesIO(body))
    except OSError as error:
        raise BallastError(
            f"--to {target} cannot be written: {error.strerror or error}. Give another file with --to."
        ) from error


_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)[^\s/\"'<>]*@")
_QUERY = re.compile(
    r"(?i)(?P<name>[?&](?:[\w.-]*(?:token|password|passwd|secret|api[_-]?key|signature|sig|credential)[\w.-]*)=)"
    r"[^&\s\"'<>]+"
)
_EXTENDER = re.compile(r"/scheduler/(?!(?:filter|prioritize|bind)\b)[^/\s\"'?]+(?=/(?:filter|prioritize|bind)\b)")
_PEM = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_JWT = re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*")
_SCHEME = re.compile(r"(?i)(?P<name>\b(?:Bearer|Basic)\s+)(?!\*)[\w+/=.~-]{4,}")
_QUOTED = r"\\\"(?:[^\"\\\n]|\\[^\"])*\\\"|\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'"
"""A string in JSON within JSON, in JSON, in single quotes."""

_HEADER = re.compile(
    r"(?i)(?P<name>(?:authorization|proxy-authorization|cookie|x-api-key|x-scope-token|x-auth-token)"
    rf"\\?[\"']?\s*[:=]\s*)(?P<value>{_QUOTED}|[^\s\"'\\,}}][^\r\n\"'\\,}}]*)"
)
_PAIR = re.compile(
    r"(?i)(?P<name>\\?[\"']?[\w.-]*(?:password|passwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|"
    rf"credentials?)\\?[\"']?\s*[:=]\s*)(?P<value>{_QUOTED}|[^\s\"'\\,;&}}\]]+)"
)
_HARMLESS = re.compile(r"(?i)^\\?[\"']?(?:null|none|true|false|\*+|\d{1,3})?\\?[\"']?$")
_FIXED = (
    re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    re.compile(r"\bgh[pousr]_[A-Za-z0-9]{20,}\b"),
    re.compile(r"\bglc_[A-Za-z0-9+/=]{20,}"),
)


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without the given secrets and without what looks like one: passwords, tokens, keys, in any notation."""
    text = without_secrets(text.encode("utf-8", "replace"), secrets).decode("utf-8", "replace")
    text = _PEM.sub(HIDDEN, text)
    text = _URL.sub(lambda found: f"{found['scheme']}{HIDDEN}@", text)
    text = _HEADER.sub(_pair, text)
    for pattern in (_QUERY, _SCHEME):
        text = pattern.sub(rf"\g<name>{HIDDEN}", text)
    text = _EXTENDER.sub(f"/scheduler/{HIDDEN}", text)
    text = _PAIR.sub(_pair, text)
    for pattern in (_JWT, *_FIXED):
        text = pattern.sub(HIDDEN, text)
    return text


def known_secrets(environ: Mapping[str, str] = os.environ) -> frozenset[str]:
    """Secrets that this machine's own settings hold or name: inline ones and the content of secret files."""
    values = set()
    for name, value in environ.items():
        if name.endswith(("TOKEN", "PASSWORD", "SECRET", "_KEY")):
            values.add(value.strip())
        elif name.endswith(("TOKEN_FILE", "PASSWORD_FILE")):
            try:
                values.add(Path(value).read_text(encoding="utf-8").strip())
            except (OSError, UnicodeDecodeError):
                continue
    return frozenset(values)


def _pair(found: re.Match[str]) -> str:
    value = found["value"]
    if _HARMLESS.match(value):
        return found[0]
    opened = re.match(r"\\?[\"']", value)
    quote = opened[0] if opened else ""
    return f"{found['name']}{quote}{HIDDEN}{quote}"
