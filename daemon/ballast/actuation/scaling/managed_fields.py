"""The field manager that last wrote a field, from `metadata.managedFields`."""

from __future__ import annotations

from typing import Any

import msgspec

from ballast.base.errors import ClusterError
from ballast.cluster.client import KubeApi
from ballast.cluster.write import FIELD_MANAGER


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
