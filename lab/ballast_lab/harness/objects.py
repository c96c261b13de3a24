"""Nodes and pods as the tests need them, and a clean cluster between tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ballast_lab.harness.api import Api, Json
from ballast_lab.harness.waiting import eventually

PODS = "/api/v1/namespaces/default/pods"


def node(
    name: str,
    *,
    cpu: str = "8",
    memory: str = "32Gi",
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    address: str | None = None,
) -> Json:
    amounts = {"cpu": cpu, "memory": memory, "pods": str(pods)}
    addresses = [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}] if address else []
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "status": {"capacity": amounts, "allocatable": amounts, "addresses": addresses},
    }


def pod(name: str, *, cpu: str = "500m", memory: str = "256Mi", scheduler: str | None = None, **spec: Any) -> Json:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    chosen = {"schedulerName": scheduler} if scheduler else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], **chosen, **spec},
    }


def add_nodes(api: Api, nodes: Iterable[Json]) -> list[str]:
    """Creates them and waits until kwok has made them Ready and the taint for new nodes is gone."""
    names = [str(api.post("/api/v1/nodes", each)["metadata"]["name"]) for each in nodes]
    wanted = set(names)
    eventually(
        f"{len(names)} nodes are ready",
        lambda: wanted <= {each["metadata"]["name"] for each in api.items("/api/v1/nodes") if _usable(each)},
        every=0.2,
    )
    return names


def _usable(found: Json) -> bool:
    conditions = found["status"].get("conditions", [])
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and not found["spec"].get("taints")


def set_labels(api: Api, name: str, labels: Mapping[str, str | None]) -> None:
    api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}})


def placements(api: Api, names: Iterable[str] | None = None) -> dict[str, str]:
    """{pod: node} once all (or the named) pods are bound."""
    wanted = None if names is None else set(names)

    def bound() -> dict[str, str]:
        found = {each["metadata"]["name"]: each["spec"].get("nodeName", "") for each in api.items(PODS)}
        if wanted is not None:
            found = {name: where for name, where in found.items() if name in wanted}
            assert len(found) == len(wanted)
        assert all(found.values()), f"{sum(not where for where in found.values())} of {len(found)} pods are pending"
        return found

    return eventually("all pods are bound", bound, every=0.2)


def sweep(api: Api) -> None:
    """Removes every pod and node."""
    api.delete(PODS, {"gracePeriodSeconds": 0})
    api.delete("/api/v1/nodes", {"gracePeriodSeconds": 0})
    eventually("no pods are left", lambda: not api.items(PODS))
    eventually("no nodes are left", lambda: not api.items("/api/v1/nodes"))
