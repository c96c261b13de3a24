from ballast_lab.simulator import EmbeddedCluster
from lab_tests.simulator.client import Client


def pages(client: Client, path: str, limit: int, between: list[str] | None = None) -> list[str]:
    names: list[str] = []
    token = ""
    versions = set()
    while True:
        page = client.get(path, limit=limit, **({"continue": token} if token else {})).json
        versions.add(page["metadata"]["resourceVersion"])
        names += [item["metadata"]["name"] for item in page["items"]]
        token = page["metadata"].get("continue", "")
        if not token:
            assert len(versions) == 1
            return names
        if between:
            client.delete(f"/api/v1/nodes/{between.pop()}")


def test_pages_show_one_state_while_objects_go(client: Client) -> None:
    everything = [item["metadata"]["name"] for item in client.get("/api/v1/nodes").json["items"]]
    assert pages(client, "/api/v1/nodes", 2, between=["node-005", "node-003"]) == everything
    assert len(client.get("/api/v1/nodes").json["items"]) == len(everything) - 2


def test_pages_of_all_namespaces_are_complete_and_ordered(client: Client, cluster: EmbeddedCluster) -> None:
    listed = client.get("/api/v1/pods").json["items"]
    keys = [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in listed]
    assert keys == sorted(keys)
    assert pages(client, "/api/v1/pods", 7) == [name for _, name in keys]
    assert "kind" not in listed[0]


def test_remaining_items_are_counted_only_without_a_selector(client: Client) -> None:
    assert client.get("/api/v1/nodes", limit=2).json["metadata"]["remainingItemCount"] == 4
    narrowed = client.get("/api/v1/nodes", limit=2, labelSelector="kubernetes.io/os=linux").json
    assert "remainingItemCount" not in narrowed["metadata"]


def test_a_token_of_compacted_history_expires_and_offers_an_inconsistent_rest(
    client: Client, cluster: EmbeddedCluster
) -> None:
    token = client.get("/api/v1/nodes", limit=2).json["metadata"]["continue"]
    cluster.store.compact()
    gone = client.get("/api/v1/nodes", **{"limit": 2, "continue": token})
    assert gone.code == 410
    assert gone.json["reason"] == "Expired"
    rest = client.get("/api/v1/nodes", **{"continue": gone.json["metadata"]["continue"]}).json
    assert [item["metadata"]["name"] for item in rest["items"]] == ["node-002", "node-003", "node-004", "node-005"]


def test_a_version_of_the_future_is_refused(client: Client) -> None:
    answer = client.get("/api/v1/nodes", resourceVersion=10**9)
    assert answer.code == 504
    assert answer.json["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


def test_selectors_narrow_by_labels_and_fields(client: Client) -> None:
    def names(**query: str) -> list[str]:
        return [item["metadata"]["name"] for item in client.get("/api/v1/nodes", **query).json["items"]]

    client.patch("/api/v1/nodes/node-001", {"metadata": {"labels": {"tier": "gold", "rank": "7"}}})
    client.patch("/api/v1/nodes/node-002", {"metadata": {"labels": {"tier": "tin"}}})
    assert names(labelSelector="tier in (gold, tin)") == ["node-001", "node-002"]
    assert names(labelSelector="tier notin (gold),tier") == ["node-002"]
    assert names(labelSelector="rank>5") == ["node-001"]
    assert "node-001" not in names(labelSelector="!tier")
    assert names(labelSelector="tier!=gold,tier") == ["node-002"]
    assert names(fieldSelector="metadata.name=node-003") == ["node-003"]
    assert client.get("/api/v1/nodes", labelSelector="a b").code == 400
    assert client.get("/api/v1/nodes", fieldSelector="spec.nope=1").code == 400
    pods = client.get("/api/v1/pods", fieldSelector="spec.nodeName=node-001").json["items"]
    assert pods
    assert {pod["spec"]["nodeName"] for pod in pods} == {"node-001"}


def test_discovery_names_every_group_with_its_resources(client: Client) -> None:
    groups = {group["name"] for group in client.get("/apis").json["groups"]}
    assert groups >= {"apps", "policy", "autoscaling", "coordination.k8s.io", "metrics.k8s.io"}
    names = {entry["name"] for entry in client.get("/api/v1").json["resources"]}
    assert {"nodes", "pods", "pods/eviction", "pods/binding", "configmaps", "events"} <= names
    assert client.get("/apis/apps/v1/nothing").json["message"] == "the server could not find the requested resource"
    assert client.get("/nothing").code == 404
