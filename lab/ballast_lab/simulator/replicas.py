"""The controllers of Deployments, ReplicaSets and StatefulSets, and the garbage collection of their dependents."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from ballast_lab.simulator import objects
from ballast_lab.simulator.kube.kinds import DEPLOYMENT, POD, REPLICA_SET, STATEFUL_SET, Kind
from ballast_lab.simulator.kube.resources import Document, ObjectApi
from ballast_lab.simulator.kube.selectors import matches
from ballast_lab.simulator.kube.store import Store, Stored
from ballast_lab.simulator.kube.subresources import is_ready

HASH = "pod-template-hash"
Key = tuple[str, str]


def sets_of(store: Store, namespace: str, labels: Sequence[Mapping[str, str]]) -> list[tuple[Kind, Key]]:
    """The ReplicaSets and StatefulSets that select a pod with any of these label sets."""
    found = []
    for kind in (REPLICA_SET, STATEFUL_SET):
        for stored in store.all(kind, namespace):
            selector = stored.read()["spec"]["selector"]
            if any(matches(selector, pod) for pod in labels):
                found.append((kind, (namespace, stored.name)))
    return found


def roll_out(resources: ObjectApi, namespace: str, name: str) -> None:
    """Gives all replicas to a Deployment's newest ReplicaSet at once, and none to older ones."""
    stored = resources.store.get(DEPLOYMENT, namespace, name)
    if stored is None:
        return
    deployment = stored.read()
    newest = None
    for old in _owned(resources.store, REPLICA_SET, namespace, stored.uid):
        current = old.read()
        if _without_hash(current["spec"]["template"]) == _without_hash(deployment["spec"]["template"]):
            newest = old
        else:
            _scale(resources, namespace, old.name, 0)
    desired = deployment["spec"]["replicas"]
    if newest is not None:
        _scale(resources, namespace, newest.name, desired)
    else:
        resources.create(REPLICA_SET, namespace, _new_set(deployment, desired))


def reconcile(resources: ObjectApi, kind: Kind, namespace: str, name: str) -> None:
    """Creates the missing pods of a ReplicaSet or StatefulSet, deletes surplus ones, and updates the status."""
    stored = resources.store.get(kind, namespace, name)
    if stored is None:
        return
    owner = stored.read()
    desired, selector = owner["spec"]["replicas"], owner["spec"]["selector"]
    pods = [pod for pod in resources.store.all(POD, namespace) if matches(selector, pod.labels)]
    active = [pod for pod in pods if _is_active(pod)]
    if kind is STATEFUL_SET:
        names = {pod.name for pod in pods}
        for ordinal in range(desired):
            if f"{name}-{ordinal}" not in names:
                resources.create(POD, namespace, _pod(owner, f"{name}-{ordinal}"))
        surplus = [pod for pod in active if int(pod.name.rpartition("-")[2]) >= desired]
    else:
        for _ in range(desired - len(active)):
            resources.create(POD, namespace, _pod(owner, f"{name}-{resources.store.suffix()}"))
        # Pods that do not run yet are deleted first, then those that changed last.
        surplus = sorted(active, key=lambda pod: (pod.fields["status.phase"] == "Running", -pod.revision))
        surplus = surplus[: max(0, len(active) - desired)]
    for pod in surplus:
        resources.delete(POD, namespace, pod.name)
    _update_status(resources, kind, owner)


def delete_dependents(resources: ObjectApi, kind: Kind, deleted: Stored) -> None:
    """Deletes the ReplicaSets or pods of a deleted owner."""
    dependents = REPLICA_SET if kind is DEPLOYMENT else POD
    for stored in _owned(resources.store, dependents, deleted.namespace, deleted.uid):
        resources.delete(dependents, stored.namespace, stored.name)


def _update_status(resources: ObjectApi, kind: Kind, owner: Document) -> None:
    metadata, selector = owner["metadata"], owner["spec"]["selector"]
    namespace, name = metadata["namespace"], metadata["name"]
    pods = [pod for pod in resources.store.all(POD, namespace) if matches(selector, pod.labels) and _is_active(pod)]
    ready = sum(is_ready(pod.read()) for pod in pods)
    counts = {
        "replicas": len(pods),
        "readyReplicas": ready,
        "availableReplicas": ready,
        "observedGeneration": metadata.get("generation", 1),
    }
    _write_status(resources, kind, namespace, name, counts)
    for reference in metadata.get("ownerReferences") or ():
        if reference["kind"] == "Deployment":
            deployment = resources.store.get(DEPLOYMENT, namespace, reference["name"])
            if deployment is not None and owner["spec"]["replicas"]:
                rollout = {
                    **counts,
                    "updatedReplicas": len(pods),
                    "unavailableReplicas": owner["spec"]["replicas"] - ready,
                    "observedGeneration": deployment.read()["metadata"].get("generation", 1),
                }
                _write_status(resources, DEPLOYMENT, namespace, reference["name"], rollout)


def _write_status(resources: ObjectApi, kind: Kind, namespace: str, name: str, counts: Mapping[str, int]) -> None:
    def change(current: Document) -> Document:
        status = {**(current.get("status") or {}), **counts}
        kept = {name: value for name, value in status.items() if value or name == "replicas"}
        return {**current, "status": kept}

    resources.update(kind, namespace, name, change, subresource="status")


def _scale(resources: ObjectApi, namespace: str, name: str, replicas: int) -> None:
    def change(current: Document) -> Document:
        return {**current, "spec": {**current["spec"], "replicas": replicas}}

    resources.update(REPLICA_SET, namespace, name, change)


def _is_active(pod: Stored) -> bool:
    if pod.fields["status.phase"] in ("Succeeded", "Failed"):
        return False
    return b'"deletionTimestamp"' not in pod.raw


def _owned(store: Store, kind: Kind, namespace: str, uid: str) -> list[Stored]:
    encoded_uid = uid.encode()
    return [
        stored
        for stored in store.all(kind, namespace)
        if encoded_uid in stored.raw
        and any(reference["uid"] == uid for reference in stored.read()["metadata"].get("ownerReferences") or ())
    ]


def _without_hash(template: Document) -> Document:
    labels = {key: value for key, value in template["metadata"].get("labels", {}).items() if key != HASH}
    return {**template, "metadata": {**template["metadata"], "labels": labels}}


def _new_set(deployment: Document, replicas: int) -> Document:
    metadata, template = deployment["metadata"], deployment["spec"]["template"]
    digest = hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:10]
    labels = {**(template["metadata"].get("labels") or {}), HASH: digest}
    return {
        "metadata": {
            "name": f"{metadata['name']}-{digest}",
            "labels": labels,
            "ownerReferences": objects.owner("Deployment", metadata["name"], metadata["uid"]),
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {**template, "metadata": {**template["metadata"], "labels": labels}},
        },
    }


def _pod(owner: Document, name: str) -> Document:
    template, metadata = owner["spec"]["template"], owner["metadata"]
    references = objects.owner(owner["kind"], metadata["name"], metadata["uid"])
    identity = {"name": name, "generateName": f"{metadata['name']}-", "ownerReferences": references}
    return {"metadata": {**template["metadata"], **identity}, "spec": template["spec"]}
