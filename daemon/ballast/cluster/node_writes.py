"""The writes on nodes."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import msgspec

from ballast.base.errors import ClusterError, Gone, NotFound
from ballast.base.text import printable
from ballast.cluster.client import KubeApi
from ballast.cluster.write import MERGE_PATCH, Result, Write, WriteOutcome, WriteTarget, object_path
from ballast.cluster.writer import Writer
from ballast.model.node import Taint

Taints: TypeAlias = list[dict[str, Any]]
PREFER = "PreferNoSchedule"
LONGEST_MANAGER = 128
"""Characters of a field manager, as the API server allows."""

_ATTEMPTS = 5


def node_metadata(
    name: str, labels: Mapping[str, str | None], annotations: Mapping[str, str | None], *, part: str, reason: str
) -> Write:
    """Sets labels and annotations of a node, removes those that are None. Idempotent, hence without resourceVersion."""
    fields = {"labels": dict(labels), "annotations": dict(annotations)}
    return Write(
        kind="labels",
        part=part,
        method="PATCH",
        path=object_path("/api/v1/nodes", name),
        target=WriteTarget("Node", name, uid=name),
        reason=reason,
        body={"metadata": {key: value for key, value in fields.items() if value}},
        content_type=MERGE_PATCH,
        event="PublishLoad",
        aggregated=True,
    )


def manager_of_keys(api: KubeApi, name: str, keys: Collection[str]) -> str:
    """The field manager of any of these labels and annotations on a node, the newest; empty where nobody tells."""
    try:
        entries = (
            msgspec.json.decode(api.get(object_path("/api/v1/nodes", name)))["metadata"].get("managedFields") or ()
        )
        writers = [entry for entry in entries if any(f"f:{key}" in _metadata_fields(entry) for key in keys)]
        newest: dict[str, Any] = max(writers, key=lambda entry: str(entry.get("time", "")), default={})
    except (ClusterError, msgspec.DecodeError, KeyError, TypeError, AttributeError):
        return ""
    return printable(str(newest.get("manager", "")), LONGEST_MANAGER)


def _metadata_fields(entry: Mapping[str, Any]) -> set[str]:
    metadata = (entry.get("fieldsV1") or {}).get("f:metadata") or {}
    return {*(metadata.get("f:labels") or ()), *(metadata.get("f:annotations") or ())}


def replace_taints(
    api: KubeApi,
    writer: Writer,
    name: str,
    change: Callable[[Taints], Taints],
    *,
    part: str | None,
    reason: str,
    deadline: float | None = None,
    aggregated: bool = False,
) -> WriteOutcome:
    """Changes a node's taints as a whole list, against the version just read; reads again after a conflict.

    `change` gets the taints as they are now and returns those wanted; with nothing to change nothing is sent.
    `deadline` as in `Writer.submit`, `aggregated` as in `Write`. Without a `part` no mode or pause holds it back: for
    what is given back.
    """
    path = object_path("/api/v1/nodes", name)
    write = Write(
        kind="taint",
        part=part,
        method="PATCH",
        path=path,
        target=WriteTarget("Node", name, uid=name),
        reason=reason,
        content_type=MERGE_PATCH,
        event="PublishTaint",
        aggregated=aggregated,
    )
    outcome = WriteOutcome(write, Result.DONE, "nothing to change")
    for _ in range(_ATTEMPTS):
        try:
            node = msgspec.json.decode(api.get(path))
        except (NotFound, Gone) as error:
            return WriteOutcome(write, Result.GONE, str(error), error.status)
        except ClusterError as error:
            return WriteOutcome(write, Result.FAILED, str(error), error.status)
        present: Taints = node.get("spec", {}).get("taints") or []
        taints = change([dict(taint) for taint in present])
        if taints == present:
            return WriteOutcome(write, Result.DONE, "nothing to change")
        body = {"metadata": {"resourceVersion": node["metadata"]["resourceVersion"]}, "spec": {"taints": taints}}
        outcome = writer.submit(replace(write, body=body), deadline=deadline)
        if outcome.result is not Result.CONFLICT:
            return outcome
    return outcome


def with_taint(taints: Taints, key: str, present: bool) -> Taints:
    """The list with or without our taint; everything else stays as it is, in its order."""
    ours: dict[str, Any] = {"key": key, "effect": PREFER}
    mine = [taint for taint in taints if taint.get("key") == key and taint.get("effect") == PREFER]
    if present:
        return taints if mine else [*taints, ours]
    return [taint for taint in taints if taint not in mine]


def with_values(taints: Taints, key: str, values: Iterable[Taint]) -> Taints:
    """The list with these taints as all that have this key; everything else stays as it is, in its order."""
    return [
        *(taint for taint in taints if taint.get("key") != key),
        *({"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in values),
    ]
