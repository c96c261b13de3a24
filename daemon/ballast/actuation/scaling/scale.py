"""The subresource `scale` of workloads: reading it, who wrote it last, and writing it against a resource version."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from ballast.base.errors import NOT_JSON, ClusterError, Gone, NotFound
from ballast.base.parts import Part
from ballast.cluster.client import KubeApi
from ballast.cluster.objects import wire
from ballast.cluster.write import FIELD_MANAGER, MERGE_PATCH, Result, Write, WriteOutcome, WriteTarget, object_path
from ballast.cluster.writer import Writer
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
        scale = _decoder.decode(body)
        selector = parse(scale.status.selector) if scale.status.selector else None
    except (*NOT_JSON, ValueError) as error:
        raise ClusterError(f"not a Scale ({error})") from error
    return Scale(scale.spec.replicas, scale.metadata.resource_version, selector)


def read(api: KubeApi, path: str) -> Scale:
    """The Scale at this API path. Raises ClusterError."""
    return decode(api.get(path))


def write(
    workload: Workload, path: str, replicas: int, version: str, reason: str, *, aggregated: bool = False
) -> Write:
    """The patch that sets the replicas; it conflicts if the object changed since `version`."""
    return Write(
        kind="scale",
        part=Part.POWER,
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


def is_ours(api: KubeApi, path: str, field: str) -> bool:
    """Whether Ballast wrote `spec.<field>` last; True where that cannot be read."""
    try:
        entries = msgspec.json.decode(api.get(path))["metadata"].get("managedFields") or ()
    except (ClusterError, msgspec.DecodeError, KeyError, TypeError):
        return True
    return any(_has(entry, field) and entry.get("manager") == FIELD_MANAGER for entry in entries)


def manager_of(api: KubeApi, path: str, field: str) -> str:
    """The newest field manager of `spec.<field>` other than Ballast; empty where that cannot be read."""
    try:
        entries = msgspec.json.decode(api.get(path))["metadata"].get("managedFields") or ()
    except (ClusterError, msgspec.DecodeError, KeyError, TypeError):
        return ""
    owning = [entry for entry in entries if isinstance(entry, dict) and _owns(entry, field)]
    latest: dict[str, Any] = max(owning, key=lambda entry: str(entry.get("time", "")), default={})
    return str(latest.get("manager", ""))


def _owns(entry: dict[str, Any], field: str) -> bool:
    return entry.get("manager") != FIELD_MANAGER and _has(entry, field)


def _has(entry: object, field: str) -> bool:
    spec = (entry.get("fieldsV1") or {}).get("f:spec") if isinstance(entry, dict) else None
    return isinstance(spec, dict) and f"f:{field}" in spec


S = TypeVar("S")
ATTEMPTS = 5


def retry_on_conflict(
    writer: Writer, seen: S, decide: Callable[[S], Write | WriteOutcome], read: Callable[[], S]
) -> WriteOutcome:
    """Submits the write that `decide` makes of `seen`, up to ATTEMPTS times.

    Where `decide` returns an outcome instead of a write, that is recorded and returned.
    """
    outcome: WriteOutcome | None = None
    for _ in range(ATTEMPTS):
        decided = decide(seen)
        if isinstance(decided, WriteOutcome):
            return writer.record(decided)
        outcome = writer.submit(decided)
        if outcome.result is not Result.CONFLICT:
            break
        try:
            seen = read()
        except (NotFound, Gone) as error:
            return writer.record(WriteOutcome(decided, Result.GONE, str(error), error.status))
        except ClusterError as error:
            return writer.record(WriteOutcome(decided, Result.FAILED, str(error), error.status))
    assert outcome is not None
    return outcome
