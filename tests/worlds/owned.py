"""Pods of owners of many kinds, as kubectl prints them: one replica on the hot node n1, the others on n2 and n3."""

from collections.abc import Mapping
from typing import Any

from tests.worlds.printed import LONG_AGO, Json, listed, node, pod, watcher

HOT = watcher({"n1": (90, 30), "n2": (20, 20), "n3": (25, 20)})
ON = ("n1", "n2", "n3")


def ref(kind: str, name: str, group: str = "apps/v1") -> Json:
    return {"apiVersion": group, "kind": kind, "name": name, "uid": f"uid-{kind}-{name}", "controller": True}


def made(kind: str, name: str, *, owner: Json | None = None, group: str = "apps/v1", **parts: Any) -> Json:
    """An object; `parts` are its spec and status, and what its metadata has beside the usual."""
    meta = {"name": name, "namespace": "shop", "uid": f"uid-{kind}-{name}", "generation": 1}
    if owner is not None:
        meta["ownerReferences"] = [owner]
    return {"apiVersion": group, "kind": kind, "metadata": {**meta, **parts.pop("metadata", {})}, **parts}


def replica(name: str, on: str, owner: Json, labels: Mapping[str, str] | None = None, **more: Any) -> Json:
    """A replica of 4 cores."""
    meta = {"ownerReferences": [owner], "labels": {"app": "x", **(labels or {})}, **more.pop("metadata", {})}
    return pod(name, "4", "1Gi", on, metadata=meta, **more)


def stateful(hashes: Mapping[str, str], *, strategy: Any = None, group: str = "apps/v1", **status: Any) -> list[Json]:
    """A StatefulSet `x` whose pods have these hashes by node; it has updated all of them unless `status` says so."""
    settled = {"observedGeneration": 1, "replicas": 3, "readyReplicas": 3, "updatedReplicas": 3}
    spec = {"replicas": 3, "updateStrategy": strategy or {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}}
    owner = made("StatefulSet", "x", group=group, spec=spec, status={**settled, **status})
    pods = [
        replica(f"x-{number}", on, ref("StatefulSet", "x", group), {"controller-revision-hash": value} if value else {})
        for number, (on, value) in enumerate(hashes.items())
    ]
    return [owner, *pods]


def replica_sets(owner: Json | None, sets: Mapping[str, tuple[str, ...]], **labels: str) -> list[Json]:
    """ReplicaSets of one owner by name, with a pod on each of these nodes."""
    items = []
    for name, nodes in sets.items():
        spec = {"replicas": len(nodes)}
        items.append(made("ReplicaSet", name, owner=owner, spec=spec, status={"observedGeneration": 1}))
        marks = {"pod-template-hash": name.rpartition("-")[2], **labels}
        items += [replica(f"{name}-{on}", on, ref("ReplicaSet", name), marks) for on in nodes]
    return items


def deployment(sets: Mapping[str, tuple[str, ...]], *, updated: int = 3, present: int = 3, **spec: Any) -> list[Json]:
    status = {"observedGeneration": 1, "replicas": present, "updatedReplicas": updated, "readyReplicas": present}
    owner = made("Deployment", "x", spec={"replicas": 3, **spec}, status=status)
    return [owner, *replica_sets(ref("Deployment", "x"), sets)]


def direct(kind: str, hashes: Mapping[str, str], *, group: str, label: str = "controller-revision-hash") -> list[Json]:
    """Pods that an owner of another kind made itself."""
    owner = ref(kind, "x", group)
    pods = [replica(f"x-{on}", on, owner, {label: value} if value else {}) for on, value in hashes.items()]
    return [made(kind, "x", group=group, spec={"replicas": 3}), *pods]


def cluster(*items: Json | list[Json]) -> Json:
    return listed(*(machine(name) for name in ON), *items)


def machine(name: str, *, system: str = "linux/amd64", version: str = "v1.35.1", **more: Any) -> Json:
    """A node as kubelets tell of theirs; `status` is what its status has beside the usual, "" is left out."""
    status, conditions = more.pop("status", {}), more.pop("conditions", ())
    made = node(name, "16", "64Gi", **more)
    os_name, _, architecture = system.partition("/")
    info = {"operatingSystem": os_name, "architecture": architecture, "kubeletVersion": version, "osImage": "o"}
    made["status"] |= {"nodeInfo": {key: value for key, value in info.items() if value}, **status}
    made["status"]["conditions"][0]["lastTransitionTime"] = LONG_AGO
    made["status"]["conditions"] += conditions
    return made
