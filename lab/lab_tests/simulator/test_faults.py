import asyncio

import pytest
import requests

from ballast_lab.harness.waiting import HUNG
from ballast_lab.simulator import EmbeddedCluster
from lab_tests.simulator.client import Client
from tests.worlds.clock import FakeClock

NODES = "/api/v1/nodes"


def test_shed_load_is_plain_text_with_a_time_to_retry_and_ends(
    client: Client, cluster: EmbeddedCluster, clock: FakeClock
) -> None:
    cluster.faults.kube_429(seconds=60, retry_after=3)
    refused = client.get(NODES)
    assert (refused.code, refused.headers["Retry-After"]) == (429, "3")
    assert refused.text.startswith("Too many requests")
    clock.advance(61)
    assert client.get(NODES).code == 200


def test_a_missing_right_names_verb_resource_and_user(client: Client, cluster: EmbeddedCluster) -> None:
    cluster.faults.kube_forbidden("patch", "nodes")
    refused = client.patch(f"{NODES}/node-000", {})
    assert refused.code == 403
    assert refused.json["message"] == (
        'nodes "node-000" is forbidden: User "system:serviceaccount:ballast:ballast" cannot patch resource "nodes" '
        'in API group "" at the cluster scope'
    )
    assert client.get(NODES).code == 200
    cluster.faults.kube_forbidden("*", "pods/eviction")
    answer = client.post("/api/v1/namespaces/default/pods/x/eviction", {})
    assert 'cannot create resource "pods/eviction" in API group "" in the namespace "default"' in answer.json["message"]


def test_a_client_that_disconnects_within_its_request_gets_no_response(cluster: EmbeddedCluster) -> None:
    async def gone() -> dict[str, str]:
        return {"type": "http.disconnect"}

    async def send(message: object) -> None:
        raise AssertionError(message)

    credentials = (b"authorization", f"Bearer {cluster.token}".encode())
    asyncio.run(
        cluster._kube(
            {
                "type": "http",
                "method": "PATCH",
                "path": f"{NODES}/node-000",
                "query_string": b"",
                "headers": [credentials, (b"content-type", b"application/merge-patch+json")],
            },
            gone,
            send,
        )
    )


def test_credentials_count(client: Client, cluster: EmbeddedCluster) -> None:
    wrong = requests.get(cluster.url + NODES, headers={"Authorization": "Bearer wrong"}, timeout=HUNG)
    right = requests.get(cluster.url + NODES, headers={"Authorization": f"Bearer {cluster.token}"}, timeout=HUNG)
    assert (wrong.status_code, right.status_code) == (401, 200)
    assert wrong.json()["reason"] == "Unauthorized"
    cluster.faults.kube_401()
    assert client.get(NODES).code == 401


def test_server_errors_and_resets(client: Client, cluster: EmbeddedCluster) -> None:
    cluster.faults.kube_500()
    assert client.get(NODES).json["reason"] == "InternalError"
    cluster.faults.clear()
    cluster.faults.kube_reset()
    with pytest.raises(requests.ConnectionError):
        client.get(NODES)
    cluster.faults.clear()
    cluster.faults.prometheus_down()
    with pytest.raises(requests.ConnectionError):
        client.prometheus("up")
    assert client.get(NODES).code == 200


def test_watches_can_end_and_fall_silent(client: Client, cluster: EmbeddedCluster) -> None:
    cluster.faults.kube_watch_gone()
    assert client.watch(NODES, resourceVersion=cluster.store.revision)[0]["object"]["code"] == 410
    cluster.faults.clear()
    cluster.faults.kube_watch_silence()
    start = cluster.store.revision
    client.patch(f"{NODES}/node-000", {"metadata": {"labels": {"turn": "1"}}})
    with pytest.raises(requests.ConnectionError):
        requests.get(cluster.url + NODES, params={"watch": "1", "resourceVersion": str(start)}, timeout=(5, 0.3))


def test_metrics_server_can_be_missing(client: Client, cluster: EmbeddedCluster) -> None:
    path = "/apis/metrics.k8s.io/v1beta1/nodes"
    assert len(client.get(path).json["items"]) == 6
    cluster.faults.metrics_server_missing()
    assert client.get(path).code == 503
    assert "metrics.k8s.io" not in client.get("/apis").text


def test_slow_answers_take_longer(client: Client, cluster: EmbeddedCluster) -> None:
    cluster.faults.kube_slow(delay=30.0)
    with pytest.raises(requests.ReadTimeout):
        requests.get(cluster.url + NODES, timeout=(5, 0.2))


def test_switches_work_over_http(client: Client, cluster: EmbeddedCluster) -> None:
    assert client.post("/faults", {"fault": "kube_429", "seconds": 60}).code == 200
    assert client.get("/faults").json == [{"fault": "kube_429", "retry_after": 1}]
    assert client.get(NODES).code == 429
    assert client.delete("/faults").json == []
    assert client.get(NODES).code == 200
    unknown = client.post("/faults", {"fault": "clear"})
    assert unknown.code == 400
    assert "kube_429" in unknown.text
    assert client.post("/faults", {"fault": "kube_429", "hours": 3}).code == 400


def test_requests_are_counted_as_rbac_names_them(client: Client, cluster: EmbeddedCluster) -> None:
    client.get(NODES)
    client.patch(f"{NODES}/node-000/status", {})
    client.prometheus("up")
    client.get("/power")
    counts = cluster.requests
    assert counts["list", "nodes"] == counts["patch", "nodes/status"] == counts["query", "prometheus"] == 1
    assert counts["get", "power"] == 1
