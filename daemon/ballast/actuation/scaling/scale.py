"""The subresource `scale` of workloads."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from ballast.actuation.scaling.cap import PART
from ballast.base.errors import NOT_JSON, ClusterError
from ballast.cluster.client import KubeApi
from ballast.cluster.objects import wire
from ballast.cluster.write import MERGE_PATCH, Write, WriteTarget, object_path
from ballast.model.selector import Selector, parse
from ballast.model.workload import Workload


class _ScaleSpec(wire.WireStruct):
    replicas: int = 0


class _ScaleStatus(wire.WireStruct):
    replicas: int = 0
    selector: str = ""


class _Scale(wire.WireStruct):
    metadata: wire.Meta
    spec: _ScaleSpec = msgspec.field(default_factory=_ScaleSpec)
    status: _ScaleStatus = msgspec.field(default_factory=_ScaleStatus)


_decoder = msgspec.json.Decoder(_Scale)


@dataclass(frozen=True, slots=True)
class Scale:
    """`replicas` asked for at a resource version; `selector` of the pods, None without one."""

    replicas: int
    version: str
    selector: Selector | None = None


def path_of(workload: Workload, kind: str) -> str:
    """API path of the scale; `kind` is the plural, with or without its group."""
    plural = kind.partition(".")[0]
    collection = f"/apis/{workload.api_version}/namespaces/{workload.namespace}/{plural}"
    return f"{object_path(collection, workload.name)}/scale"


def decode(body: bytes) -> Scale:
    """A Scale from JSON. Raises ClusterError where the body is not one."""
    try:
        found = _decoder.decode(body)
        selector = parse(found.status.selector) if found.status.selector else None
    except (*NOT_JSON, ValueError) as error:
        raise ClusterError(f"not a Scale ({error})") from error
    return Scale(found.spec.replicas, found.metadata.resource_version, selector)


def read(api: KubeApi, path: str) -> Scale:
    """The Scale at this API path. Raises ClusterError."""
    return decode(api.get(path))


def write(
    workload: Workload, path: str, replicas: int, version: str, reason: str, *, aggregated: bool = False
) -> Write:
    """The patch that sets the replicas; it conflicts if the object changed since `version`."""
    return Write(
        kind="scale",
        part=PART,
        method="PATCH",
        path=path,
        target=WriteTarget(workload.kind, workload.name, workload.namespace, workload.uid, workload.api_version),
        reason=reason,
        body={"metadata": {"resourceVersion": version}, "spec": {"replicas": replicas}},
        content_type=MERGE_PATCH,
        event="ScaleForPower",
        done_event="ScaledForPower",
        aggregated=aggregated,
    )
