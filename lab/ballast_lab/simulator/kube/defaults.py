"""Defaulting of the API server: the defaults that clients rely on, and the empty fields that it drops."""

from __future__ import annotations

import json
from typing import Any

from ballast_lab.simulator.kube.api_errors import invalid, invalid_value
from ballast_lab.simulator.kube.kinds import Kind

Document = dict[str, Any]

_FIRST_STATUS: dict[str, Document] = {
    "Deployment": {},
    "ReplicaSet": {"replicas": 0},
    "StatefulSet": {"replicas": 0, "availableReplicas": 0},
    "DaemonSet": {"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0},
    "PodDisruptionBudget": {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0},
    "HorizontalPodAutoscaler": {"currentMetrics": None, "desiredReplicas": 0},
}
_DEFAULT_TOLERATIONS = [
    {"key": f"node.kubernetes.io/{why}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for why in ("not-ready", "unreachable")
]
_GATED: Document = {
    "conditions": [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }
    ]
}


def check_types(document: Document) -> None:
    """Raises ApiError (422) if labels or annotations are not a map of strings."""
    for name in ("labels", "annotations"):
        values = (document.get("metadata") or {}).get(name)
        if values is None:
            continue
        if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
            shown = json.dumps(document, separators=(",", ":"))
            why = f"json: cannot unmarshal into Go struct field ObjectMeta.metadata.{name} of type string"
            raise invalid("", "", "", [invalid_value("patch", shown, why)])


def on_create(kind: Kind, document: Document) -> Document:
    """The defaults of a created object, with the status it has before its controller sees it."""
    check_types(document)
    if kind.name == "Pod":
        spec = {
            "priority": 0,
            "preemptionPolicy": "PreemptLowerPriority",
            "tolerations": _DEFAULT_TOLERATIONS,
            **(document.get("spec") or {}),
        }
        status = {"phase": "Pending", "qosClass": _qos_class(spec)}
        document = {**document, "spec": spec, "status": {**status, **(_GATED if spec.get("schedulingGates") else {})}}
    elif kind.name == "Namespace":
        document = {"spec": {"finalizers": ["kubernetes"]}, **document, "status": {"phase": "Active"}}
        labels = document["metadata"].get("labels") or {}
        document["metadata"]["labels"] = {"kubernetes.io/metadata.name": document["metadata"]["name"], **labels}
    elif kind.name in _FIRST_STATUS:
        document = {**document, "status": dict(_FIRST_STATUS[kind.name])}
    return on_write(kind, document)


def on_write(kind: Kind, document: Document) -> Document:
    """The defaults of every write; drops empty metadata fields."""
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
        kept = {key: value for key, value in spec.items() if value or key != "schedulingGates"}
        return {**document, "spec": {"enableServiceLinks": True, **pod_spec(kept)}}
    if kind.name in ("Deployment", "ReplicaSet", "StatefulSet"):
        return {**document, "spec": workload_spec(kind.name, spec)}
    return document


def workload_spec(kind: str, spec: Document) -> Document:
    """The defaults of the spec of a Deployment, ReplicaSet or StatefulSet."""
    filled = {"replicas": 1, **spec}
    if kind == "Deployment":
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
        filled = {"progressDeadlineSeconds": 600, "revisionHistoryLimit": 10, "strategy": strategy, **filled}
    template = {"metadata": {}, **(filled.get("template") or {})}
    return {**filled, "template": {**template, "spec": pod_spec(template.get("spec") or {})}}


def pod_spec(spec: Document) -> Document:
    """The defaults of the spec of a pod or a pod template."""
    filled = {
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30,
        "securityContext": {},
        **spec,
    }
    return {**filled, "containers": [_container(container) for container in spec.get("containers") or ()]}


def _container(container: Document) -> Document:
    resources = container.get("resources") or {}
    requests = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    tag = container.get("image", "").rpartition("/")[2].partition(":")[2]
    filled = {
        "imagePullPolicy": "Always" if tag in ("", "latest") else "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        **container,
    }
    return {**filled, "resources": {**resources, **({"requests": requests} if requests else {})}}


def _qos_class(spec: Document) -> str:
    resources = [container.get("resources") or {} for container in spec.get("containers") or ()]
    if not any(found.get("requests") or found.get("limits") for found in resources):
        return "BestEffort"
    limits = [found.get("limits") or {} for found in resources]
    same = all((found.get("requests") or limit) == limit for found, limit in zip(resources, limits, strict=True))
    return "Guaranteed" if same and all({"cpu", "memory"} <= limit.keys() for limit in limits) else "Burstable"
