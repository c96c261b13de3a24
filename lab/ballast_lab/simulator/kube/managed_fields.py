"""`metadata.managedFields`: which manager wrote which fields. A change within a list owns the whole list."""

from __future__ import annotations

from typing import Any

Document = dict[str, Any]


def fields_v1(document: Document) -> Document:
    """All fields of a document in FieldsV1 format, as large as the API server makes it."""
    fields: Document = {}
    for key, value in document.items():
        if isinstance(value, dict):
            fields[f"f:{key}"] = {".": {}, **fields_v1(value)}
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            fields[f"f:{key}"] = {_item_key(item): {".": {}, **fields_v1(item)} for item in value}
        else:
            fields[f"f:{key}"] = {}
    return fields


def entry(
    manager: str, operation: str, api_version: str, time: str, fields: Document, subresource: str = ""
) -> Document:
    """One ManagedFieldsEntry."""
    found = {
        "manager": manager,
        "operation": operation,
        "apiVersion": api_version,
        "time": time,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    return {**found, "subresource": subresource} if subresource else found


def record(document: Document, old: Document | None, manager: str, time: str, subresource: str = "") -> None:
    """Adds the fields that differ from `old` to the manager's entry, and removes them from the other entries."""
    changed = fields_v1(_difference(_owned(document), _owned(old or {})))
    metadata = document["metadata"]
    entries = list(metadata.get("managedFields") or ())
    same = (manager, "Update", subresource)
    for at, found in enumerate(entries):
        fields = _without(found["fieldsV1"], changed)
        if fields != found["fieldsV1"]:
            entries[at] = {**found, "fieldsV1": fields}
    entries = [found for found in entries if found["fieldsV1"]]
    for at, found in enumerate(entries):
        if (found["manager"], found["operation"], found.get("subresource", "")) == same:
            fields = _union(found["fieldsV1"], changed)
            entries[at] = entry(manager, "Update", document["apiVersion"], time, fields, subresource)
            break
    else:
        entries.append(entry(manager, "Update", document["apiVersion"], time, changed, subresource))
    metadata["managedFields"] = entries


def _owned(document: Document) -> Document:
    metadata = document.get("metadata") or {}
    owned = {key: value for key, value in document.items() if key not in ("apiVersion", "kind", "metadata")}
    kept = {key: metadata[key] for key in ("labels", "annotations", "finalizers", "ownerReferences") if key in metadata}
    return {**owned, "metadata": kept} if kept else owned


def _difference(new: Document, old: Document) -> Document:
    changed: Document = {}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            if nested := _difference(value, before):
                changed[key] = nested
        elif value != before:
            changed[key] = value
    return changed


def _union(one: Document, other: Document) -> Document:
    merged = dict(one)
    for key, value in other.items():
        merged[key] = _union(merged.get(key, {}), value)
    return merged


def _without(fields: Document, other: Document) -> Document:
    """`fields` without those of `other`, and without parents that become empty."""
    remaining: Document = {}
    for key, value in fields.items():
        if key == "." or key not in other:
            remaining[key] = value
        elif value.keys() - {"."} and (inner := _without(value, other[key])).keys() - {"."}:
            remaining[key] = inner
    return remaining


def _item_key(item: Document) -> str:
    for key in ("name", "type", "uid"):
        if key in item:
            return f'k:{{"{key}":"{item[key]}"}}'
    return f"v:{len(item)}"
