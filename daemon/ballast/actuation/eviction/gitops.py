"""Whether somebody else keeps the replicas of a Deployment as they are."""

from __future__ import annotations

from typing import Any

import msgspec

from ballast.base.errors import NOT_JSON

_MARKS = (
    "argocd.argoproj.io/",
    "applicationset.argoproj.io/",
    "kustomize.toolkit.fluxcd.io/",
    "helm.toolkit.fluxcd.io/",
    "fluxcd.io/",
    "objectset.rio.cattle.io/",
    "configmanagement.gke.io/",
    "configsync.gke.io/",
    "config.k8s.io/owning-inventory",
    "kapp.k14s.io/",
)
"""Beginnings of labels and annotations of Argo CD, Flux, Fleet, Config Sync and kapp."""

_MANAGERS = ("argocd", "flux", "kustomize-controller", "helm-controller", "fleet", "configsync", "applier", "kapp")


def objection(body: bytes) -> str | None:
    """Why one more replica would be undone, or differ from what is declared; or None. `body` is the Deployment."""
    try:
        metadata: dict[str, Any] = msgspec.json.decode(body)["metadata"]
    except (*NOT_JSON, KeyError, TypeError):
        return "it cannot be read"
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller"):
            return f"{owner.get('kind')} {owner.get('name')} sets its replicas"
    for key in (*(metadata.get("labels") or ()), *(metadata.get("annotations") or ())):
        if key.startswith(_MARKS):
            return f"it is declared elsewhere ({key})"
    for entry in metadata.get("managedFields") or ():
        manager = str(entry.get("manager", "")).lower()
        if _sets_replicas(entry) and any(name in manager for name in _MANAGERS):
            return f"{manager} sets its replicas"
    return None


def _sets_replicas(entry: dict[str, Any]) -> bool:
    spec = (entry.get("fieldsV1") or {}).get("f:spec")
    return isinstance(spec, dict) and "f:replicas" in spec
