"""The three patch types: JSON merge patch (RFC 7396), strategic merge patch, JSON patch (RFC 6902)."""

from __future__ import annotations

import copy
from typing import Any, TypeAlias

from ballast.simulator.kube.api_errors import bad_request, unpatchable

Json: TypeAlias = Any

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON = "application/json-patch+json"

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
}
MERGED_SETS = frozenset({"finalizers"})
_DIRECTIVES = ("$setElementOrder/", "$retainKeys")


def apply(content_type: str, document: Json, patch: Json) -> Json:
    """A patched copy. Raises ApiError: 400 for a malformed patch, 422 for one that does not fit."""
    if content_type == JSON:
        return json_patch(copy.deepcopy(document), patch)
    if not isinstance(patch, dict):
        found = {list: "array", str: "string", bool: "bool"}.get(type(patch), "number")
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        )
    if content_type == MERGE:
        return merge(document, patch)
    return strategic(document, patch)


def merge(target: Json, patch: Json) -> Json:
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
    """Maps merge, lists with a merge key merge by it, every other list is replaced (taints are atomic)."""
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


def json_patch(document: Json, operations: Json) -> Json:
    if not isinstance(operations, list):
        raise bad_request("error decoding patch: a JSON patch is a list of operations")
    for operation in operations:
        try:
            document = _operate(document, operation)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise unpatchable() from error
    return document


def _operate(document: Json, operation: Json) -> Json:
    kind, path = operation["op"], operation["path"]
    if kind == "test":
        if _read(document, path) != operation.get("value"):
            raise ValueError(f"testing value {path} failed")
        return document
    if kind == "remove":
        return _remove(document, path)
    if kind == "replace":
        _read(document, path)
        return _write(document, path, operation["value"], replace=True)
    if kind == "add":
        return _write(document, path, operation["value"])
    value = copy.deepcopy(_read(document, operation["from"]))
    if kind == "move":
        document = _remove(document, operation["from"])
    elif kind != "copy":
        raise ValueError(kind)
    return _write(document, path, value)


def _steps(path: str) -> list[str]:
    if path and not path.startswith("/"):
        raise ValueError(path)
    return [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:]]


def _child(container: Json, step: str) -> Json:
    return container[int(step)] if isinstance(container, list) else container[step]


def _read(document: Json, path: str) -> Json:
    for step in _steps(path):
        document = _child(document, step)
    return document


def _write(document: Json, path: str, value: Json, *, replace: bool = False) -> Json:
    steps = _steps(path)
    if not steps:
        return value
    container = document
    for step in steps[:-1]:
        container = _child(container, step)
    last = steps[-1]
    if not isinstance(container, list):
        container[last] = value
    elif replace:
        container[int(last)] = value
    else:
        at = len(container) if last == "-" else int(last)
        if not 0 <= at <= len(container):
            raise IndexError(last)
        container.insert(at, value)
    return document


def _remove(document: Json, path: str) -> Json:
    steps = _steps(path)
    container = document
    for step in steps[:-1]:
        container = _child(container, step)
    del container[int(steps[-1]) if isinstance(container, list) else steps[-1]]
    return document
