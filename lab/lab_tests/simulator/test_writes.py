from typing import Any

import pytest

from ballast_lab.simulator import EmbeddedCluster
from lab_tests.simulator.client import STRATEGIC, Client

NODE = "/api/v1/nodes/node-000"
MAPS = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


def config_map(name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": {"a": "b"}}


def lease(name: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}, "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15}}


def test_a_merge_patch_with_null_removes_one_key(client: Client) -> None:
    client.patch(NODE, {"metadata": {"labels": {"one": "1", "two": "2"}}})
    labels = client.patch(NODE, {"metadata": {"labels": {"one": None}}}).json["metadata"]["labels"]
    assert "one" not in labels
    assert labels["two"] == "2"
    assert labels["kubernetes.io/hostname"] == "node-000"


def test_a_patch_that_changes_nothing_makes_no_version(client: Client) -> None:
    first = client.patch(NODE, {"metadata": {"labels": {"one": "1"}}}).json["metadata"]["resourceVersion"]
    for patch in ({"metadata": {"labels": {"one": "1"}}}, {}, {"metadata": {"labels": {"absent": None}}}):
        assert client.patch(NODE, patch).json["metadata"]["resourceVersion"] == first


def test_pods_of_the_world_do_not_change_by_an_empty_patch(client: Client, cluster: EmbeddedCluster) -> None:
    for path in ("pods", "nodes", "deployments", "statefulsets", "daemonsets", "replicasets"):
        root = "/api/v1" if path in ("pods", "nodes") else "/apis/apps/v1"
        metadata = client.get(f"{root}/{path}", limit=1).json["items"][0]["metadata"]
        place = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
        answer = client.patch(f"{root}{place}/{path}/{metadata['name']}", {})
        assert answer.json["metadata"]["resourceVersion"] == metadata["resourceVersion"], path


def test_a_dry_run_writes_nothing(client: Client) -> None:
    answer = client.patch(NODE, {"metadata": {"labels": {"one": "1"}}}, dryRun="All")
    assert answer.json["metadata"]["labels"]["one"] == "1"
    assert "one" not in client.get(NODE).json["metadata"]["labels"]


def test_a_field_manager_is_recorded(client: Client) -> None:
    answer = client.patch(NODE, {"metadata": {"labels": {"one": "1"}}}, fieldManager="ballast")
    (entry,) = [found for found in answer.json["metadata"]["managedFields"] if found["manager"] == "ballast"]
    assert entry["fieldsV1"] == {"f:metadata": {".": {}, "f:labels": {".": {}, "f:one": {}}}}


def test_taints_are_replaced_whole_and_conditions_merge_by_type(client: Client) -> None:
    one, two = {"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "PreferNoSchedule"}
    client.patch(NODE, {"spec": {"taints": [one]}}, STRATEGIC)
    assert client.patch(NODE, {"spec": {"taints": [two]}}, STRATEGIC).json["spec"]["taints"] == [two]
    assert "taints" not in client.patch(NODE, {"spec": {"taints": None}}).json["spec"]
    patch = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    conditions = client.patch(f"{NODE}/status", patch, STRATEGIC).json["status"]["conditions"]
    assert len(conditions) == 4
    assert {item["type"]: item["status"] for item in conditions}["Ready"] == "False"


def test_a_patch_of_the_object_leaves_its_status_alone_and_the_reverse(client: Client) -> None:
    answer = client.patch(NODE, {"status": {"capacity": {"cpu": "999"}}, "spec": {"unschedulable": True}})
    assert answer.json["status"]["capacity"]["cpu"] != "999"
    assert answer.json["spec"]["unschedulable"] is True
    assert "unschedulable" in client.patch(f"{NODE}/status", {"spec": {"unschedulable": None}}).json["spec"]


def test_an_old_version_is_a_conflict_for_every_way_of_writing(client: Client) -> None:
    client.post(MAPS, config_map("one"))
    for answer in (
        client.put(f"{MAPS}/one", config_map("one", resourceVersion="1")),
        client.patch(f"{MAPS}/one", {"metadata": {"resourceVersion": "1"}, "data": {"a": "c"}}),
        client.delete(f"{MAPS}/one", {"preconditions": {"resourceVersion": "1"}}),
        client.delete(f"{MAPS}/one", {"preconditions": {"uid": "another"}}),
        client.put(f"{MAPS}/one", config_map("one", uid="another")),
    ):
        assert answer.code == 409
        assert answer.json["reason"] == "Conflict"
    assert client.get(f"{MAPS}/one").json["data"] == {"a": "b"}


def test_creating_twice_and_reading_nothing_give_the_messages_of_kubernetes(client: Client) -> None:
    assert client.post(MAPS, config_map("one")).code == 201
    again = client.post(MAPS, config_map("one"))
    assert (again.code, again.json["message"]) == (409, 'configmaps "one" already exists')
    missing = client.get("/apis/apps/v1/namespaces/default/deployments/none")
    assert missing.json["message"] == 'deployments.apps "none" not found'
    assert missing.json["details"] == {"name": "none", "group": "apps", "kind": "deployments"}
    assert client.post("/api/v1/namespaces/nowhere/configmaps", config_map("one")).code == 404
    assert client.post(MAPS, {"metadata": {"generateName": "some-"}}).json["metadata"]["name"].startswith("some-")
    assert client.delete(f"{MAPS}/one").json["status"] == "Success"
    assert client.get(f"{MAPS}/one").code == 404


def test_a_lease_is_replaced_only_with_a_version_and_a_replace_creates_it(client: Client) -> None:
    made = client.put(f"{LEASES}/one", lease("one", resourceVersion="7"))
    assert made.code == 201
    without = client.put(f"{LEASES}/one", lease("one"))
    assert without.code == 422
    assert without.json["details"]["causes"][0]["field"] == "metadata.resourceVersion"
    version = made.json["metadata"]["resourceVersion"]
    assert client.put(f"{LEASES}/one", {**lease("one", resourceVersion=version), "spec": {}}).code == 200
    assert client.put(f"{LEASES}/one", lease("one", resourceVersion=version)).code == 409


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"metadata": {"labels": {"one": "two words"}}}, "metadata.labels"),
        ({"metadata": {"labels": {"one": "1" * 64}}}, "metadata.labels"),
        ({"metadata": {"labels": {"-one": "1"}}}, "metadata.labels"),
        ({"metadata": {"labels": {"UPPER.example/one": "1"}}}, "metadata.labels"),
        ({"metadata": {"annotations": {"/one": "1"}}}, "metadata.annotations"),
        ({"spec": {"taints": [{"key": "a", "effect": "Sometimes"}]}}, "metadata.taints[0].effect"),
        ({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}] * 2}}, "metadata.taints[1]"),
        ({"metadata": {"labels": {"one": 1}}}, "patch"),
        ({"metadata": {"uid": "another"}}, "metadata.uid"),
    ],
)
def test_what_cannot_be_is_unprocessable_and_names_the_field(client: Client, change: Any, field: str) -> None:
    answer = client.patch(NODE, change)
    assert answer.code == 422
    assert answer.json["reason"] == "Invalid"
    assert field in {cause["field"] for cause in answer.json["details"]["causes"]}


def test_wrong_methods_types_and_bodies_are_refused(client: Client) -> None:
    assert client.post(NODE, {}).code == 405
    assert client.put("/api/v1/nodes", {}).code == 405
    assert client.patch(NODE, {}, "application/json").code == 415
    assert client.patch(NODE, [], "application/json-patch+json").code == 415
    assert client.patch(NODE, "{bad").code == 400
    assert client.patch(NODE, []).code == 400
    assert client.ask("POST", MAPS, "x: y", "application/yaml").code == 415
    assert client.post(MAPS, {"kind": "Pod", "metadata": {"name": "one"}}).code == 400


def test_a_bound_pods_spec_cannot_change(client: Client) -> None:
    pod = client.get("/api/v1/pods", limit=1).json["items"][0]["metadata"]
    path = f"/api/v1/namespaces/{pod['namespace']}/pods/{pod['name']}"
    assert client.patch(path, {"spec": {"nodeName": "node-001x"}}).code == 422
    assert client.patch(path, {"metadata": {"labels": {"one": "1"}}}).code == 200
