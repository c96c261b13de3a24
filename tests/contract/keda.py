"""A ScaledObject as KEDA has it, without KEDA."""

from __future__ import annotations

import contextlib
from typing import Any

from ballast.errors import Conflict, NotFound
from tests.contract.objects import Client, eventually

_COUNT = {"type": "integer", "format": "int32"}
_TARGET = {
    "type": "object",
    "required": ["name"],
    "properties": {name: {"type": "string"} for name in ("apiVersion", "kind", "name", "envSourceContainerName")},
}
_TRIGGER = {
    "type": "object",
    "required": ["type", "metadata"],
    "properties": {
        "type": {"type": "string"},
        "metadata": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
_SPEC = {
    "type": "object",
    "required": ["scaleTargetRef", "triggers"],
    "properties": {
        "scaleTargetRef": _TARGET,
        "minReplicaCount": _COUNT,
        "maxReplicaCount": _COUNT,
        "idleReplicaCount": _COUNT,
        "pollingInterval": _COUNT,
        "cooldownPeriod": _COUNT,
        "triggers": {"type": "array", "items": _TRIGGER},
    },
}
CRD: dict[str, Any] = {
    "metadata": {"name": "scaledobjects.keda.sh"},
    "spec": {
        "group": "keda.sh",
        "scope": "Namespaced",
        "names": {
            "kind": "ScaledObject",
            "listKind": "ScaledObjectList",
            "plural": "scaledobjects",
            "singular": "scaledobject",
            "shortNames": ["so"],
        },
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "required": ["spec"],
                        "properties": {
                            "spec": _SPEC,
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}


def install(client: Client) -> None:
    """Makes the API server serve ScaledObjects, if it does not yet."""
    collection = "/apis/keda.sh/v1alpha1/scaledobjects"
    try:
        client.get(collection)
        return
    except NotFound:
        pass
    with contextlib.suppress(Conflict):
        client.api.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body=CRD)

    def served() -> bool:
        try:
            return bool(client.get(collection))
        except NotFound:
            return False

    eventually("ScaledObjects are served", served)
