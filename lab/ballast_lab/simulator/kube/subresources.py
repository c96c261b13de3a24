"""The subresources scale, binding and eviction."""

from __future__ import annotations

from typing import Any

from ballast_lab.simulator.kube import patching, selectors
from ballast_lab.simulator.kube.api_errors import (
    ApiError,
    GroupResource,
    bad_request,
    conflict,
    disruption_refused,
    invalid,
    invalid_value,
    success,
)
from ballast_lab.simulator.kube.kinds import BUDGET, POD, Kind
from ballast_lab.simulator.kube.resources import Document, ObjectApi, check_preconditions
from ballast_lab.simulator.kube.store import Stored


def scale_of(kind: Kind, stored: Stored) -> Document:
    """The autoscaling/v1 Scale of a workload."""
    workload = stored.read()
    metadata = workload["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    selector = workload["spec"].get("selector", {}).get("matchLabels") or {}
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in kept if key in metadata},
        "spec": {"replicas": workload["spec"].get("replicas", 0)},
        "status": {
            "replicas": workload.get("status", {}).get("replicas", 0),
            "selector": ",".join(f"{key}={value}" for key, value in sorted(selector.items())),
        },
    }


def write_scale(
    resources: ObjectApi,
    kind: Kind,
    namespace: str,
    name: str,
    body: Any,
    *,
    patch_type: str = "",
    manager: str = "",
    dry: bool = False,
) -> Document:
    """Replaces the Scale, or patches it if `patch_type` is given."""

    def change(workload: Document) -> Document:
        scale = body
        if patch_type:
            scale = scale_of(kind, resources.get(kind, namespace, name))
            scale["metadata"].pop("resourceVersion", None)
            scale = patching.apply(patch_type, scale, body)
        replicas = (scale.get("spec") or {}).get("replicas", 0)
        if replicas < 0:
            negative = invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
            raise invalid("autoscaling", "Scale", name, [negative])
        metadata = scale.get("metadata") or {}
        workload["metadata"]["resourceVersion"] = metadata.get("resourceVersion", "")
        if metadata.get("uid"):
            workload["metadata"]["uid"] = metadata["uid"]
        workload["spec"]["replicas"] = replicas
        return workload

    return scale_of(kind, resources.update(kind, namespace, name, change, manager=manager, dry=dry))


def bind(resources: ObjectApi, namespace: str, name: str, node: str) -> Document:
    """Binds a pod to a node. Raises ApiError: 404 if the pod does not exist, 409 if it is bound already."""
    if not node:
        raise bad_request("pod does not have a target node")

    def change(pod: Document) -> Document:
        bound = pod["spec"].get("nodeName")
        if bound:
            why = f'pod {name} is already assigned to node "{bound}"'
            raise conflict(GroupResource("", "pods/binding"), name, why)
        pod["spec"] = {**pod["spec"], "nodeName": node}
        conditions = [item for item in pod["status"].get("conditions") or () if item["type"] != "PodScheduled"]
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": resources.now()}
        pod["status"] = {**pod["status"], "conditions": [*conditions, scheduled]}
        return pod

    with resources.store.lock:
        pod = change(resources.get(POD, namespace, name).read())
        resources.store.put(POD, pod)
    return success(code=201)


def evict(resources: ObjectApi, namespace: str, name: str, eviction: Document, *, dry: bool = False) -> Document:
    """The API-initiated eviction of kube-apiserver 1.36, which checks the budget before the preconditions.

    Raises ApiError: 404, 409 for a precondition, 429 from a disruption budget, 500 when two budgets cover the pod.
    """
    if (eviction.get("metadata") or {}).get("name", name) != name:
        raise bad_request("name in URL does not match name in Eviction object")
    options = eviction.get("deleteOptions") or {}
    dry = dry or bool(options.get("dryRun"))
    with resources.store.lock:
        stored = resources.get(POD, namespace, name)
        pod = stored.read()
        if not _ignores_budgets(pod):
            _take_from_budget(resources, pod, dry)
        check_preconditions(POD, stored, options.get("preconditions") or {})
        kept = {key: value for key, value in options.items() if key != "preconditions"}
        resources.delete(POD, namespace, name, kept, dry=dry)
    return success(code=201)


def _ignores_budgets(pod: Document) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed", "Pending") or "deletionTimestamp" in pod["metadata"]


def _take_from_budget(resources: ObjectApi, pod: Document, dry: bool) -> None:
    namespace, labels = pod["metadata"]["namespace"], pod["metadata"].get("labels") or {}
    budgets = [
        budget
        for stored in resources.store.all(BUDGET, namespace)
        if selectors.matches((budget := stored.read())["spec"].get("selector"), labels)
    ]
    if len(budgets) > 1:
        text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise ApiError(500, "", text)
    if not budgets:
        return
    budget, status = budgets[0], budgets[0].get("status") or {}
    name = budget["metadata"]["name"]
    healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    if not is_ready(pod):
        always = budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
        if always or healthy >= desired > 0:
            return
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 1):
        raise disruption_refused(f"The disruption budget {name} is still being processed by the server.", 10)
    if status.get("disruptionsAllowed", 0) <= 0:
        text = f"The disruption budget {name} does not allow evicting pods currently"
        if healthy <= desired:
            text = f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        raise disruption_refused(text)
    if dry:
        return
    disrupted = {**(status.get("disruptedPods") or {}), pod["metadata"]["name"]: resources.now()}
    taken = {**status, "disruptionsAllowed": status["disruptionsAllowed"] - 1, "disruptedPods": disrupted}
    resources.update(BUDGET, namespace, name, lambda document: {**document, "status": taken}, subresource="status")


def is_ready(pod: Document) -> bool:
    """Whether the condition Ready is True."""
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
