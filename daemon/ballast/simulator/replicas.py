"""Deployments, ReplicaSets and StatefulSets keep their number of pods; dependents of deleted owners go."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from ballast.simulator import objects
from ballast.simulator.kube.kinds import DEPLOYMENT, POD, REPLICA_SET, STATEFUL_SET, Kind
from ballast.simulator.kube.resources import Document, ObjectApi
from ballast.simulator.kube.selectors import matches
from ballast.simulator.kube.store import Store, Stored
from ballast.simulator.kube.subresources import is_ready

HASH = "pod-template-hash"
Key = tuple[str, str]


def sets_of(store: Store, namespace: str, labels: Sequence[Mapping[str, str]]) -> list[tuple[Kind, Key]]:
    """The ReplicaSets and StatefulSets that select any of these pods."""
    found = []
    for kind in (REPLICA_SET, STATEFUL_SET):
        for stored in store.all(kind, namespace):
            selector = stored.read()["spec"]["selector"]
            if any(matches(selector, pod) for pod in labels):
                found.append((kind, (namespace, stored.name)))
    return found


def roll_out(resources: ObjectApi, namespace: str, name: str) -> None:
    """A Deployment's newest ReplicaSet gets all replicas at once, older ones none."""
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
    wanted = deployment["spec"]["replicas"]
    if newest is not None:
        _scale(resources, namespace, newest.name, wanted)
    else:
        resources.create(REPLICA_SET, namespace, _new_set(deployment, wanted))


def fill(resources: ObjectApi, kind: Kind, namespace: str, name: str) -> None:
    """Creates missing pods, deletes surplus ones, and reports both in the status."""
    stored = resources.store.get(kind, namespace, name)
    if stored is None:
        return
    owner = stored.read()
    wanted, selector = owner["spec"]["replicas"], owner["spec"]["selector"]
    pods = [pod for pod in resources.store.all(POD, namespace) if matches(selector, pod.labels)]
    living = [pod for pod in pods if _alive(pod)]
    if kind is STATEFUL_SET:
        names = {pod.name for pod in pods}
        for ordinal in range(wanted):
            if f"{name}-{ordinal}" not in names:
                resources.create(POD, namespace, _pod(owner, f"{name}-{ordinal}"))
        surplus = [pod for pod in living if int(pod.name.rpartition("-")[2]) >= wanted]
    else:
        for _ in range(wanted - len(living)):
            resources.create(POD, namespace, _pod(owner, f"{name}-{resources.store.suffix()}"))
        surplus = sorted(living, key=lambda pod: (pod.fields["status.phase"] == "Running", -pod.revision))
        surplus = surplus[: max(0, len(living) - wanted)]
    for pod in surplus:
        resources.delete(POD, namespace, pod.name)
    _report(resources, kind, owner)


def collect(resources: ObjectApi, kind: Kind, gone: Stored) -> None:
    """Deletes what a deleted owner leaves behind."""
    dependents = REPLICA_SET if kind is DEPLOYMENT else POD
    for stored in _owned(resources.store, dependents, gone.namespace, gone.uid):
        resources.delete(dependents, stored.namespace, stored.name)


def _report(resources: ObjectApi, kind: Kind, owner: Document) -> None:
    metadata, selector = owner["metadata"], owner["spec"]["selector"]
    namespace, name = metadata["namespace"], metadata["name"]
    pods = [pod for pod in resources.store.all(POD, namespace) if matches(selector, pod.labels) and _alive(pod)]
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
                above = {
                    **counts,
                    "updatedReplicas": len(pods),
                    "unavailableReplicas": owner["spec"]["replicas"] - ready,
                    "observedGeneration": deployment.read()["metadata"].get("generation", 1),
                }
                _write_status(resources, DEPLOYMENT, namespace, reference["name"], above)


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


def _alive(pod: Stored) -> bool:
    if pod.fields["status.phase"] in ("Succeeded", "Failed"):
        return False
    return b'"deletionTimestamp"' not in pod.raw


def _owned(store: Store, kind: Kind, namespace: str, uid: str) -> list[Stored]:
    mark = uid.encode()
    return [
        stored
        for stored in store.all(kind, namespace)
        if mark in stored.raw
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
    own = {**template["metadata"], "name": name, "generateName": f"{metadata['name']}-", "ownerReferences": references}
    return {"metadata": own, "spec": template["spec"]}
