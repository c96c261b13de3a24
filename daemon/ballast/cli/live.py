"""Reads from a running cluster, and the daemon in it, the documents that files would have."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import msgspec
import typer
from msgspec import Struct

from ballast.base.errors import NOT_JSON, BallastError, ClusterError, NotFound
from ballast.base.metrics import Metrics
from ballast.cli import files
from ballast.cli.place import Place, namespace_of
from ballast.cluster import state, switches
from ballast.cluster.client import KubeApi, connect
from ballast.cluster.objects.attachment_decoding import TRIGGERED
from ballast.settings import Settings

LISTS = {
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/pods",
    "Namespace": "/api/v1/namespaces",
    "PersistentVolumeClaim": "/api/v1/persistentvolumeclaims",
    "PersistentVolume": "/api/v1/persistentvolumes",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
    "CSINode": "/apis/storage.k8s.io/v1/csinodes",
    "Deployment": "/apis/apps/v1/deployments",
    "ReplicaSet": "/apis/apps/v1/replicasets",
    "StatefulSet": "/apis/apps/v1/statefulsets",
    "DaemonSet": "/apis/apps/v1/daemonsets",
    "PodDisruptionBudget": "/apis/policy/v1/poddisruptionbudgets",
    "ResourceQuota": "/api/v1/resourcequotas",
    "Event": "/api/v1/events",
    "HorizontalPodAutoscaler": "/apis/autoscaling/v2/horizontalpodautoscalers",
}
WHERE_SERVED = {
    "ResourceSlice": "/apis/resource.k8s.io/v1/resourceslices",
    "NodeClaim": "/apis/karpenter.sh/v1/nodeclaims",
    "VerticalPodAutoscaler": "/apis/autoscaling.k8s.io/v1/verticalpodautoscalers",
}
"""Kinds that not every cluster has."""
SELECTED = {"Event": {"fieldSelector": f"reason={TRIGGERED},involvedObject.kind=Pod"}}
NEEDED = ("Node", "Pod")
PAGE = 500
POD_METRICS = "/apis/metrics.k8s.io/v1beta1/pods"
TIMEOUT = 30.0


class Documents(Struct, frozen=True):
    """The documents, each with the source that messages name."""

    cluster: object
    metrics: object
    pod_metrics: object
    cluster_source: str
    metrics_source: str
    pod_metrics_source: str


class ConnectionOptions(Protocol):
    """Files that replace a request to the cluster."""

    @property
    def metrics(self) -> Path | None:
        """A load-watcher document."""

    @property
    def pod_metrics(self) -> Path | None:
        """A list of metrics.k8s.io."""


def read(settings: Settings, given: ConnectionOptions, place: Place) -> Documents:
    """Reads all documents. Raises ClusterError if nodes or pods cannot be read, or the daemon does not answer."""
    api = connect(settings.cluster, Metrics())
    try:
        items = _objects(api)
        namespace = _namespace(api, settings, place)
        items += _switches(api, namespace) if namespace else []
        path = (
            _watcher(settings, namespace or namespace_of(api, place, settings.lease.name))
            if given.metrics is None
            else ""
        )
        watcher, usage = f"{api.server}{path}", f"{api.server}{POD_METRICS}"
        if given.metrics is not None:
            watcher, loads = f"--metrics {given.metrics}", files.read_document(given.metrics, "--metrics")
        else:
            path = _watcher(settings, namespace or namespace_of(api, place, settings.lease.name))
            watcher = f"{api.server}{path}"
            loads = _decode(_ask(api, path), watcher)
        if given.pod_metrics is not None:
            usage, used = f"--pod-metrics {given.pod_metrics}", files.read_document(given.pod_metrics, "--pod-metrics")
        else:
            used = _pod_metrics(api)
    finally:
        api.close()
    return Documents({"items": items}, loads, used, api.server, watcher, usage)


def read_objects(settings: Settings) -> tuple[object, str]:
    """The list of all objects, as kubectl prints it, and the server. Raises ClusterError if one cannot be read."""
    api = connect(settings.cluster, Metrics())
    try:
        return {"items": _objects(api)}, api.server
    finally:
        api.close()


def _objects(api: KubeApi) -> list[dict[str, Any]]:
    return [item for kind, path in {**LISTS, **WHERE_SERVED}.items() for item in _list_objects(api, kind, path)]


def _ask(api: KubeApi, path: str) -> bytes:
    """The body of an answer of the daemon. Raises ClusterError that names the alternatives."""
    try:
        return api.get(path)
    except ClusterError as error:
        raise ClusterError(
            f"{error}. The load is read from the Service of the daemon. Give --namespace and "
            "BALLAST_HTTP__PORT where it runs, or give --metrics FILE with the answer of its /watcher."
        ) from error


def _list_objects(api: KubeApi, kind: str, path: str) -> Iterator[dict[str, Any]]:
    position = ""
    while True:
        query: dict[str, str | int] = {"limit": PAGE, **SELECTED.get(kind, {})}
        query |= {"continue": position} if position else {}
        try:
            page: Any = _decode(api.get(path, query=query), path)
        except ClusterError as error:
            if kind in NEEDED:
                raise
            if kind in WHERE_SERVED and isinstance(error, NotFound):
                return
            typer.echo(f"warning: {error}", err=True)
            return
        for item in page.get("items") or ():
            yield {**item, "kind": kind}
        position = (page.get("metadata") or {}).get("continue", "")
        if not position:
            return


def _switches(api: KubeApi, namespace: str) -> Iterator[dict[str, Any]]:
    """The ConfigMap of the switches: a pause does not stop a plan, but is reported."""
    try:
        pauses = state.read(api, namespace, switches.NAME)
    except ClusterError as error:
        typer.echo(f"warning: it is unknown whether evictions are paused: {error}", err=True)
    else:
        yield {"kind": "ConfigMap", "metadata": {"name": switches.NAME}, "data": pauses.data}


def _pod_metrics(api: KubeApi) -> object:
    try:
        return _decode(api.get(POD_METRICS), POD_METRICS)
    except ClusterError as error:
        why = "there is no metrics-server" if isinstance(error, NotFound) else str(error)
        typer.echo(f"warning: {why}. The requests of pods are used in place of their usage.", err=True)
        return None


def _namespace(api: KubeApi, settings: Settings, place: Place) -> str | None:
    """Where Ballast is; None where that is not known, which matters only where it has to be asked."""
    try:
        return namespace_of(api, place, settings.lease.name)
    except BallastError:
        return None


def _watcher(settings: Settings, namespace: str) -> str:
    """The path of /watcher through the API server, so that the RBAC rights of the caller apply."""
    scheme = "https:" if settings.http.tls_cert_file else ""
    return f"/api/v1/namespaces/{namespace}/services/{scheme}ballast:{settings.http.port}/proxy/watcher"


def _decode(body: bytes, source: str) -> Any:
    try:
        return msgspec.json.decode(body)
    except NOT_JSON as error:
        raise ClusterError(f"The answer of {source} is not JSON: {error}") from error
