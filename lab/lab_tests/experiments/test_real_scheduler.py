"""The experiment on a cluster, against an API server that places every second pod."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from ballast.base.errors import ClusterError, NotFound
from ballast_lab.experiments import real_scheduler
from ballast_lab.experiments.real_scheduler import LABEL, NAME, ExperimentFailed, results
from ballast_lab.experiments.worlds import worlds

WORLD = replace(worlds()["R3"], nodes=worlds()["R3"].nodes[:2])


class FakeApi:
    """Nodes are Ready at once unless `broken`; a new namespace has no service account for one pod."""

    def __init__(self, *, broken: bool = False, left: bool = False, refused: bool = False) -> None:
        self.broken, self.refused = broken, refused
        self.nodes: dict[str, Any] = {"left": {"metadata": {"name": "left"}}} if left else {}
        self.namespaces: set[str] = set()
        self.pods: list[Any] = []
        self.tried = 0

    def get(self, path: str, *, query: Mapping[str, Any] | None = None) -> bytes:
        if path == "/api/v1/nodes":
            assert query == {"labelSelector": LABEL}
            return json.dumps({"items": list(self.nodes.values())}).encode()
        if path.endswith("/pods"):
            return json.dumps({"items": self.pods}).encode()
        if NAME not in self.namespaces:
            raise NotFound(path, status=404)
        return b"{}"

    def request(self, method: str, path: str, *, query: Any = None, body: Any = None) -> bytes:
        if method == "POST":
            self._create(path, body)
        elif path.endswith("/pods"):
            self.pods = []
        elif path == "/api/v1/nodes":
            self.nodes = {}
        else:
            self.namespaces.discard(NAME)
        return b"{}"

    def _create(self, path: str, body: Any) -> None:
        if path == "/api/v1/namespaces":
            self.namespaces.add(body["metadata"]["name"])
        elif path == "/api/v1/nodes":
            ready = {"type": "Ready", "status": "Unknown" if self.broken else "True"}
            self.nodes[body["metadata"]["name"]] = {**body, "status": {"conditions": [ready]}}
        else:
            self.tried += 1
            if self.refused:
                raise ClusterError("pods is forbidden", status=403)
            if self.tried == 1:
                raise ClusterError('error looking up service account: serviceaccount "default" not found', status=403)
            placed = len(self.pods) % 2 == 0
            waits = [] if placed else [{"type": "PodScheduled", "status": "False"}]
            spec = {**body["spec"], **({"nodeName": f"{NAME}-000"} if placed else {})}
            self.pods.append({**body, "spec": spec, "status": {"conditions": waits}})


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real_scheduler.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(real_scheduler, "READY_WITHIN", 0.05)


def run(api: FakeApi, **more: Any) -> Any:
    return results(api, [WORLD], [0, 1], pods=10, **more)  # type: ignore[arg-type]


def test_every_scheduler_places_every_list_and_nothing_is_left() -> None:
    api = FakeApi()
    told = run(api, schedulers=["default-scheduler", "ballast-extender"])
    assert [(row.name, row.published, row.measured) for row in told.rows] == [
        ("R3: default-scheduler", 542, 5),
        ("R3: ballast-extender", None, 5),
    ]
    assert "| R3 | default-scheduler | 542 | 5 |" in told.table
    assert (api.nodes, api.namespaces, api.pods) == ({}, set(), [])


def test_nodes_that_are_never_ready_are_removed_again() -> None:
    api = FakeApi(broken=True)
    with pytest.raises(ExperimentFailed, match="2 nodes are not Ready: does KWOK run"):
        run(api)
    assert (api.nodes, api.namespaces) == ({}, set())


def test_a_refusal_is_told_and_everything_is_removed() -> None:
    api = FakeApi(refused=True)
    with pytest.raises(ClusterError, match="pods is forbidden"):
        run(api)
    assert (api.nodes, api.namespaces) == ({}, set())


def test_what_is_there_already_stays() -> None:
    api = FakeApi(left=True)
    with pytest.raises(ExperimentFailed, match=f"kubectl delete nodes -l {LABEL}"):
        run(api)
    assert list(api.nodes) == ["left"]
