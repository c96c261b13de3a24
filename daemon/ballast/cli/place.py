"""Where a live command looks: the same four options on each, and the one installation that they lead to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ballast.base.errors import BallastError

if TYPE_CHECKING:
    from ballast.cluster.client import KubeApi

NEAR = "http://localhost:2020"

UrlOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help=f"Address of the page of the daemon. Default: {NEAR} if a daemon answers there, else the Service ballast "
        "of the installation.",
        show_default=False,
    ),
]
NamespaceOption = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        help="Namespace of Ballast. Default: BALLAST_LEASE__NAMESPACE, else where its Lease or Deployment is.",
        show_default=False,
    ),
]
KubeconfigOption = Annotated[
    Path | None,
    typer.Option(help="Kubeconfig file. Default: BALLAST_CLUSTER__KUBECONFIG, else as kubectl.", show_default=False),
]
ContextOption = Annotated[
    str | None, typer.Option(help="Context of the kubeconfig. Default: its current one.", show_default=False)
]

TIMEOUT = 10.0


@dataclass(frozen=True)
class Place:
    """The four options as given."""

    url: str | None = None
    namespace: str | None = None
    kubeconfig: Path | None = None
    context: str | None = None

    @property
    def variables(self) -> dict[str, str]:
        """The settings that say the same."""
        named = {
            "BALLAST_LEASE__NAMESPACE": self.namespace,
            "BALLAST_CLUSTER__KUBECONFIG": self.kubeconfig,
            "BALLAST_CLUSTER__CONTEXT": self.context,
        }
        return {name: str(value) for name, value in named.items() if value}

    @property
    def environment(self) -> dict[str, str]:
        """The environment with them."""
        return {**os.environ, **self.variables}

    @property
    def kubectl(self) -> str:
        """The options as kubectl takes them, without the namespace."""
        given = (("--kubeconfig", self.kubeconfig), ("--context", self.context))
        return "".join(f" {name} {value}" for name, value in given if value)

    def connect(self) -> KubeApi:
        """The API server. Raises SettingsError without a way to it."""
        from ballast.base.metrics import Metrics
        from ballast.cluster.client import connect

        return connect(_Connection(self.environment), Metrics(), TIMEOUT)


class _Connection:
    def __init__(self, environment: Mapping[str, str]) -> None:
        self.kubeconfig = environment.get("BALLAST_CLUSTER__KUBECONFIG") or None
        self.context = environment.get("BALLAST_CLUSTER__CONTEXT") or None


def given_namespace(place: Place) -> str | None:
    """The one of `--namespace`, else of the settings, else of the pod that this runs in."""
    from ballast.cluster.identity import known_namespace

    return place.namespace or known_namespace(os.environ.get("BALLAST_LEASE__NAMESPACE"))


def namespace_of(api: KubeApi, place: Place, name: str = "ballast") -> str:
    """The namespace that is given, else that in which Ballast is found. Raises BallastError."""
    return given_namespace(place) or installation(api, place, name)


def installation(api: KubeApi, place: Place, name: str = "ballast") -> str:
    """The namespace in which Ballast is, by its Lease or its Deployment; the one that is given has to have one.

    `name` is that of the Lease. Raises BallastError that says what was looked for, and what to give.
    """
    given = given_namespace(place)
    found, problem = _namespaces(api, given, name)
    if given in found or (given is None and len(found) == 1):
        return found[0]
    if given is not None:
        where = f"No Ballast is in namespace {given}"
    else:
        where = f"Ballast is in {' and '.join(found)}" if found else "No Ballast was found in any namespace"
    looked = f"a Lease {name} or a Deployment with label {LABEL}"
    why = f" ({problem})" if problem else ""
    raise BallastError(f"{where} of {api.server}: {looked} was looked for{why}. Give its namespace with --namespace.")


LABEL = "app.kubernetes.io/name=ballast"


def _namespaces(api: KubeApi, namespace: str | None, name: str) -> tuple[list[str], str]:
    """Where there is one, and what kept from looking."""
    import msgspec

    from ballast.base.errors import ClusterError

    scope = f"/namespaces/{namespace}" if namespace else ""
    kinds: tuple[tuple[str, dict[str, str | int]], ...] = (
        (f"/apis/coordination.k8s.io/v1{scope}/leases", {"fieldSelector": f"metadata.name={name}"}),
        (f"/apis/apps/v1{scope}/deployments", {"labelSelector": LABEL}),
    )
    found: set[str] = set()
    problem = ""
    for path, query in kinds:
        try:
            listed: Any = msgspec.json.decode(api.get(path, query=query))
        except ClusterError as error:
            problem = str(error).rstrip(".")
            continue
        found |= {item["metadata"]["namespace"] for item in listed.get("items") or ()}
    return sorted(found), problem
