"""What the API server fills in: the defaults clients rely on, and empty fields that it leaves out."""

from __future__ import annotations

from typing import Any

from ballast.simulator.kinds import Kind

Document = dict[str, Any]

_STATUS_IS_THE_CONTROLLERS = (
    "Deployment",
    "ReplicaSet",
    "StatefulSet",
    "DaemonSet",
    "PodDisruptionBudget",
    "HorizontalPodAutoscaler",
)


def on_create(kind: Kind, document: Document) -> Document:
    if kind.name == "Pod":
        document = {**document, "status": {"phase": "Pending", "qosClass": "Burstable"}}
    elif kind.name == "Namespace":
        document = {"spec": {"finalizers": ["kubernetes"]}, **document, "status": {"phase": "Active"}}
        labels = document["metadata"].get("labels") or {}
        document["metadata"]["labels"] = {"kubernetes.io/metadata.name": document["metadata"]["name"], **labels}
    elif kind.name in _STATUS_IS_THE_CONTROLLERS:
        document = {**document, "status": {}}
    return on_write(kind, document)


def on_write(kind: Kind, document: Document) -> Document:
    metadata = document["metadata"]
    for key in ("labels", "annotations", "finalizers", "ownerReferences"):
        if key in metadata and not metadata[key]:
            del metadata[key]
    spec = document.get("spec")
    if not isinstance(spec, dict):
        return document
    if kind.name == "Node":
        return {**document, "spec": {key: value for key, value in spec.items() if value or key != "taints"}}
    if kind.name == "Pod":
        return {**document, "spec": pod_spec(spec)}
    if kind.name in ("Deployment", "ReplicaSet", "StatefulSet"):
        return {**document, "spec": {"replicas": 1, **spec}}
    return document


def pod_spec(spec: Document) -> Document:
    filled = {
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30,
        "securityContext": {},
        "enableServiceLinks": True,
        **spec,
    }
    return {**filled, "containers": [_container(container) for container in spec.get("containers") or ()]}


def _container(container: Document) -> Document:
    resources = container.get("resources") or {}
    requests = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {**container, "resources": {**resources, **({"requests": requests} if requests else {})}}
