"""ScaledObjects as KEDA has them, without KEDA; and a kind of nobody's that has a /scale."""

import contextlib
from typing import Any

from ballast.base.errors import ClusterError, Conflict, NotFound
from ballast_lab.harness.waiting import eventually
from tests.contract.objects import Client

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


WIDGETS: dict[str, Any] = {
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
                },
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "properties": {"size": _COUNT}},
                            "status": {"type": "object", "properties": {"size": _COUNT}},
                        },
                    }
                },
            }
        ],
    },
}


def install(client: Client, crd: dict[str, Any] = CRD) -> None:
    """Makes the API server serve ScaledObjects, or the given kind, if it does not yet."""
    version = f"{crd['spec']['group']}/{crd['spec']['versions'][0]['name']}"
    collection = f"/apis/{version}/{crd['spec']['names']['plural']}"
    try:
        client.get(collection)
        return
    except NotFound:
        pass
    with contextlib.suppress(Conflict):
        client.api.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body=crd)

    def served() -> bool:
        try:
            return bool(client.get(collection))
        except ClusterError:
            return False

    eventually(f"{collection} is served", served)
