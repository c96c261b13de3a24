"""The patch types: JSON merge patch (RFC 7396), and the strategic merge patch that kubectl sends.

Source: k8s.io/apimachinery pkg/util/strategicpatch/patch.go.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from ballast_lab.simulator.kube.api_errors import bad_request

Json: TypeAlias = Any

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

MERGE_KEYS = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "ownerReferences": "uid",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "schedulingGates": "name",
}
"""Lists that merge by a key, and the key (`patchMergeKey` in the Go types)."""

MERGED_SETS = frozenset({"finalizers"})
"""Lists of plain values that merge as sets."""

_DIRECTIVES = ("$setElementOrder/", "$retainKeys")


def apply(content_type: str, document: Json, patch: Json) -> Json:
    """A patched copy. Raises ApiError (400) for a malformed patch."""
    if not isinstance(patch, dict):
        found = {list: "array", str: "string", bool: "bool"}.get(type(patch), "number")
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        )
    if content_type == MERGE:
        return merge(document, patch)
    return strategic(document, patch)


def merge(target: Json, patch: Json) -> Json:
    """A JSON merge patch: maps merge, null deletes a key, every other value is replaced."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def strategic(target: Json, patch: Json) -> Json:
    """A strategic merge patch: maps merge, lists merge by their merge key, other lists (taints) are replaced."""
    if not isinstance(patch, dict):
        return patch
    if patch.get("$patch") == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    if patch.get("$patch") == "delete":
        return {}
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if key == "$patch" or key.startswith(_DIRECTIVES):
            continue
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.partition("/")[2]
            merged[name] = [item for item in merged.get(name) or [] if item not in value]
        elif value is None:
            merged.pop(key, None)
        elif isinstance(value, list) and key in MERGE_KEYS:
            merged[key] = _by_key(merged.get(key) or [], value, MERGE_KEYS[key])
        elif isinstance(value, list) and key in MERGED_SETS:
            merged[key] = list(dict.fromkeys([*(merged.get(key) or []), *value]))
        else:
            merged[key] = strategic(merged.get(key), value)
    return merged


def _by_key(target: list[Json], patch: list[Json], key: str) -> list[Json]:
    if {"$patch": "replace"} in patch:
        return [item for item in patch if item != {"$patch": "replace"}]
    merged = list(target)
    for item in patch:
        if key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
        at = next((at for at, old in enumerate(merged) if old.get(key) == item[key]), None)
        if item.get("$patch") == "delete":
            merged = [old for old in merged if old.get(key) != item[key]]
        elif at is None:
            merged.append(strategic({}, item))
        else:
            merged[at] = strategic(merged[at], item)
    return merged
