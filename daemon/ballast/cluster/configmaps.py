"""Reading and writing one ConfigMap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from ballast.base.errors import NOT_JSON, ClusterError, NotFound
from ballast.cluster.client import KubeApi
from ballast.cluster.objects import wire
from ballast.cluster.write import Write, WriteTarget, object_path

_decoder = msgspec.json.Decoder(wire.ConfigMap)


@dataclass(frozen=True)
class ConfigMapStore:
    """`version` is its resourceVersion, empty where it does not exist yet."""

    data: Mapping[str, str]
    version: str = ""


def collection(namespace: str) -> str:
    """The path of the ConfigMaps of a namespace."""
    return f"/api/v1/namespaces/{namespace}/configmaps"


def read(api: KubeApi, namespace: str, name: str) -> ConfigMapStore:
    """The ConfigMap, an empty one without a version where there is none. Raises ClusterError."""
    path = object_path(collection(namespace), name)
    try:
        found = _decoder.decode(api.get(path))
    except NotFound:
        return ConfigMapStore({})
    except NOT_JSON as error:
        raise ClusterError(f"GET {path}: not a ConfigMap ({error})") from error
    return ConfigMapStore(found.data or {}, found.metadata.resource_version)


def writing(namespace: str, name: str, wanted: ConfigMapStore, *, kind: str, reason: str) -> Write:
    """Creates it, or replaces exactly the version that was read."""
    meta = {"name": name, "namespace": namespace, **({"resourceVersion": wanted.version} if wanted.version else {})}
    path = collection(namespace)
    return Write(
        kind=kind,
        part=None,
        method="PUT" if wanted.version else "POST",
        path=object_path(path, name) if wanted.version else path,
        target=WriteTarget("ConfigMap", name, namespace),
        reason=reason,
        body={"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": dict(wanted.data)},
    )
