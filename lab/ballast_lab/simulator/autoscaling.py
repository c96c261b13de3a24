"""The HorizontalPodAutoscaler without metrics: it keeps the replicas between `minReplicas` and `maxReplicas`.

Source: kube-controller-manager, pkg/controller/podautoscaler/horizontal.go.
"""

from __future__ import annotations

from ballast_lab.simulator.kube.kinds import BY_NAME, DEPLOYMENT, REPLICA_SET, STATEFUL_SET, Kind
from ballast_lab.simulator.kube.resources import Document, ObjectApi
from ballast_lab.simulator.kube.store import Store

AUTOSCALER = BY_NAME["HorizontalPodAutoscaler"]
SCALED = {kind.name: kind for kind in (DEPLOYMENT, REPLICA_SET, STATEFUL_SET)}
Key = tuple[str, str]


def autoscalers_of(store: Store, kind: Kind, namespace: str, name: str) -> list[Key]:
    """The (namespace, name) of the autoscalers that scale this workload."""
    return [
        (namespace, stored.name)
        for stored in store.all(AUTOSCALER, namespace)
        if (target := stored.read()["spec"]["scaleTargetRef"])["kind"] == kind.name and target["name"] == name
    ]


def reconcile(resources: ObjectApi, namespace: str, name: str) -> None:
    """Brings the replicas within the bounds and writes the status. 0 replicas disable the autoscaler if min > 0."""
    stored = resources.store.get(AUTOSCALER, namespace, name)
    if stored is None:
        return
    spec = stored.read()["spec"]
    kind, target = SCALED.get(spec["scaleTargetRef"]["kind"]), spec["scaleTargetRef"]["name"]
    scaled = resources.store.get(kind, namespace, target) if kind is not None else None
    if kind is None or scaled is None:
        return
    current, least = scaled.read()["spec"]["replicas"], spec.get("minReplicas", 1)
    if not current and least:
        return
    desired = min(max(current, least), spec["maxReplicas"])
    if desired != current:
        resources.update(kind, namespace, target, lambda found: _with_replicas(found, desired))
    counts: Document = {"currentReplicas": current, "desiredReplicas": desired}
    if desired != current:
        counts["lastScaleTime"] = resources.now()
    status = {**(stored.read().get("status") or {}), **counts}
    resources.update(AUTOSCALER, namespace, name, lambda found: {**found, "status": status}, subresource="status")


def _with_replicas(document: Document, replicas: int) -> Document:
    return {**document, "spec": {**document["spec"], "replicas": replicas}}
