"""A running daemon, over its address or over its Service by way of the Kubernetes API server."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import msgspec
import requests
import typer

from ballast.base.errors import BallastError, UsageError
from ballast.base.text import HIDDEN, printable, printable_document

if TYPE_CHECKING:
    from ballast.cluster.client import KubeApi

NEAR = "http://localhost:2020"
NAMESPACE = "ballast"
PORT = 2020
TIMEOUT = 10.0

UrlOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help=f"Address of the page of the daemon. Default: {NEAR} if a daemon answers there, else the Service ballast "
        "of the cluster of your kubeconfig.",
        show_default=False,
    ),
]
NamespaceOption = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        help=f"Namespace of the Service. Default: BALLAST_LEASE__NAMESPACE, else {NAMESPACE}.",
        show_default=False,
    ),
]


class NoAnswer(BallastError):
    """One request to the daemon failed; `status` is that of HTTP, 0 without an answer."""

    def __init__(self, reason: str, status: int = 0) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True)
class Remote:
    """`address` is what a person would call it; `get` takes a path such as `/api/v1/status` and raises NoAnswer."""

    address: str
    get: Callable[[str], bytes]
    cluster: KubeApi | None = None
    namespace: str = NAMESPACE

    def json(self, path: str) -> Any:
        """A decoded answer, its texts fit for a terminal. Raises NoAnswer also where it is no JSON."""
        try:
            return printable_document(msgspec.json.decode(self.get(path)))
        except msgspec.DecodeError:
            raise NoAnswer(f"the answer of {path} is not JSON") from None


def find(url: str | None, namespace: str | None) -> Remote:
    """The daemon at `url`; without it that of this machine, else that of the cluster.

    Raises BallastError that names what was tried and the next step.
    """
    namespace = chosen(namespace)
    if url is not None:
        remote = _direct(url)
        if reason := _refusal(remote):
            raise BallastError(f"--url {url}: no Ballast daemon answers there ({reason}). {_next(namespace)}")
        return remote
    near = _direct(NEAR)
    if not (near_reason := _refusal(near)):
        return near
    try:
        remote = through_cluster(namespace)
        far_reason = _refusal(remote)
    except BallastError as error:
        remote, far_reason = near, str(error).rstrip(".")
    if not far_reason:
        return remote
    where = f"Service ballast in namespace {namespace}" + ("" if remote is near else f" of {_server(remote)}")
    raise BallastError(
        f"No Ballast daemon answers. Tried {NEAR} ({near_reason}), then {where} ({far_reason}). {_next(namespace)}"
    )


def chosen(namespace: str | None) -> str:
    """The namespace of the Service: the one given, else that of the settings, else the usual one."""
    return namespace or os.environ.get("BALLAST_LEASE__NAMESPACE") or NAMESPACE


def through_cluster(namespace: str) -> Remote:
    """The daemon behind the Service, with your rights. Raises BallastError without a way to the API server."""
    from ballast.base.errors import ClusterError
    from ballast.base.metrics import Metrics
    from ballast.cluster.client import connect

    api = connect(_Kubeconfig(os.environ.get("BALLAST_CLUSTER__KUBECONFIG") or None), Metrics(), TIMEOUT)

    def get(path: str) -> bytes:
        failed: ClusterError | None = None
        for scheme in ("", "https:"):
            try:
                return api.get(f"/api/v1/namespaces/{namespace}/services/{scheme}ballast:{PORT}/proxy{path}")
            except ClusterError as error:
                failed = failed or error
                if error.status in (0, 401, 403, 404):
                    break
        assert failed is not None
        raise NoAnswer(str(failed).rstrip("."), failed.status) from failed

    return Remote(f"Service ballast in namespace {namespace} of {api.server}", get, api, namespace)


@dataclass(frozen=True)
class _Kubeconfig:
    kubeconfig: str | None


def settings_of(remote: Remote) -> dict[str, str]:
    """The settings of a daemon that are no defaults, as environment variables; without secrets and files of its pod.

    Raises NoAnswer.
    """
    return {
        row["name"]: row["value"] if isinstance(row["value"], str) else json.dumps(row["value"])
        for row in msgspec.json.decode(remote.get("/api/v1/config"))
        if row["origin"] != "default" and row["value"] is not None and not _bound(row["name"], row["value"])
    }


def _bound(name: str, value: object) -> bool:
    """Whether a setting is worth nothing on another machine."""
    hidden = HIDDEN in (value if isinstance(value, str) else json.dumps(value))
    return hidden or name.endswith(("_FILE", "__KUBECONFIG"))


def _direct(url: str) -> Remote:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"--url {url} cannot be used: give the address of the page, such as {NEAR}.")
    base = url.rstrip("/")
    near = parts.hostname in ("localhost", "127.0.0.1", "::1")

    def get(path: str) -> bytes:
        try:
            with requests.Session() as session:
                session.trust_env = not near
                answer = session.get(f"{base}{path}", timeout=TIMEOUT)
        except requests.RequestException as error:
            raise NoAnswer(_reason(error)) from None
        if not answer.ok:
            raise NoAnswer(_read_error(answer), answer.status_code)
        return answer.content

    return Remote(base, get)


def _refusal(remote: Remote) -> str | None:
    """Why this is not a daemon that answers."""
    try:
        status = remote.json("/api/v1/status")
    except NoAnswer as error:
        return str(error)
    if not isinstance(status, Mapping) or "modes" not in status:
        return "something else than Ballast answers"
    return None


def _reason(error: requests.RequestException) -> str:
    if isinstance(error, requests.Timeout):
        return f"no answer within {TIMEOUT:g} s"
    if isinstance(error, requests.exceptions.SSLError):
        return "its certificate is not trusted; name its CA in REQUESTS_CA_BUNDLE"
    if isinstance(error, requests.ConnectionError):
        return "no connection"
    return str(error).rstrip(".")


def _read_error(answer: requests.Response) -> str:
    """The status, and the daemon's own word if there is one."""
    try:
        text = answer.json()["error"]
    except (ValueError, KeyError, TypeError):
        return f"HTTP {answer.status_code}"
    return f"HTTP {answer.status_code}: {printable(text)}"


def _server(remote: Remote) -> str:
    return remote.cluster.server if remote.cluster is not None else remote.address


def _next(namespace: str) -> str:
    return (
        f"Run `kubectl -n {namespace} port-forward service/ballast {PORT}` and give --url {NEAR}, or give the "
        "namespace of Ballast with --namespace."
    )
