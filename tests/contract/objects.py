"""What the contract tests need of a cluster: a client, a namespace of their own, nodes that go away again."""

import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ballast.base.errors import Conflict, NotFound
from ballast.base.metrics import Metrics
from ballast.cluster.client import KubeApi, connect
from ballast.cluster.write import MERGE_PATCH


@pytest.fixture
def kube_api(kubeconfig: Path) -> Iterator[KubeApi]:
    api = connect(SimpleNamespace(kubeconfig=kubeconfig, context=None), Metrics())
    yield api
    api.close()


class Client:
    """Documents in and out, for the tests' own hands."""

    def __init__(self, api: KubeApi, namespace: str) -> None:
        self.api = api
        self.namespace = namespace
        self.made: list[str] = []

    def get(self, path: str, **query: str | int) -> dict[str, Any]:
        return self._read(self.api.get(path, query=query))

    def create(self, collection: str, document: dict[str, Any]) -> dict[str, Any]:
        made = self._read(self.api.request("POST", collection, body=document))
        self.made.append(f"{collection}/{made['metadata']['name']}")
        return made

    def replace(self, path: str, document: dict[str, Any]) -> dict[str, Any]:
        return self._read(self.api.request("PUT", path, body=document))

    def patch(self, path: str, change: dict[str, Any], **query: str) -> dict[str, Any]:
        return self._read(self.api.request("PATCH", path, body=change, content_type=MERGE_PATCH, query=query))

    def delete(self, path: str) -> None:
        self.api.request("DELETE", path)

    def watch(self, collection: str, version: str, **query: str | int) -> list[dict[str, Any]]:
        """Everything a watch says until the server ends it."""
        query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": 1, **query}
        with self.api.stream(collection, query, idle=30.0) as lines:
            return [json.loads(line) for line in lines]

    @property
    def config_maps(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/configmaps"

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    @property
    def leases(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"

    def config_map(self, name: str, data: dict[str, str] | None = None, **meta: Any) -> dict[str, Any]:
        return self.create(self.config_maps, {"metadata": {"name": name, **meta}, "data": data or {}})

    def node(self, name: str, **meta: Any) -> str:
        """Makes a node and returns its path; its name is made unique."""
        made = self.create("/api/v1/nodes", {"metadata": {"name": f"{name}-{self.namespace}", **meta}})
        return f"/api/v1/nodes/{made['metadata']['name']}"

    def sweep(self) -> None:
        for path in reversed(self.made):
            query = {"gracePeriodSeconds": 0} if "/pods/" in path else {}
            try:
                self.api.request("DELETE", path, query=query)
            except (NotFound, Conflict):
                continue

    @staticmethod
    def _read(body: bytes) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(body)
        return found


@pytest.fixture
def client(kube_api: KubeApi) -> Iterator[Client]:
    """In a namespace of its own."""
    name = f"contract-{secrets.token_hex(4)}"
    client = Client(kube_api, name)
    client.create("/api/v1/namespaces", {"metadata": {"name": name}})
    yield client
    client.sweep()
