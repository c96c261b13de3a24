"""What Ballast relies on an API server for. The same tests run against the simulator and a real one."""

from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from ballast.base.errors import ClusterError, Conflict, NotFound, TooManyRequests, Unauthorized
from ballast.base.metrics import Metrics
from ballast.cluster.client import KubeApi, load_configuration
from ballast_lab.harness.waiting import eventually
from tests.contract.objects import Client


def version_of(document: dict[str, Any]) -> int:
    return int(document["metadata"]["resourceVersion"])


def test_a_list_comes_in_pages_of_one_version(client: Client) -> None:
    for number in range(5):
        client.config_map(f"c{number}")
    names: list[str] = []
    versions: set[str] = set()
    query: dict[str, str | int] = {"limit": 2, "fieldSelector": "metadata.name!=kube-root-ca.crt"}
    while True:
        page = client.get(client.config_maps, **query)
        names += [item["metadata"]["name"] for item in page["items"]]
        versions.add(page["metadata"]["resourceVersion"])
        if not page["metadata"].get("continue"):
            break
        client.config_map(f"late-{len(names)}")
        query["continue"] = page["metadata"]["continue"]
    assert sorted(names) == ["c0", "c1", "c2", "c3", "c4"]
    assert len(versions) == 1


def test_a_watch_tells_everything_after_the_version_of_a_list_in_order(client: Client) -> None:
    client.config_map("before")
    version = client.get(client.config_maps)["metadata"]["resourceVersion"]
    path = f"{client.config_maps}/x"
    client.config_map("x")
    client.patch(path, {"data": {"a": "1"}})
    client.delete(path)
    events = client.watch(client.config_maps, version, fieldSelector="metadata.name!=kube-root-ca.crt")
    assert [(event["type"], event["object"]["metadata"]["name"]) for event in events] == [
        ("ADDED", "x"),
        ("MODIFIED", "x"),
        ("DELETED", "x"),
    ]
    versions = [version_of(event["object"]) for event in events]
    assert versions == sorted(set(versions))
    assert versions[0] > int(version)
    assert events[-1]["object"]["kind"] == "ConfigMap"


def test_a_watch_sends_bookmarks_and_ends_by_itself(client: Client) -> None:
    version = client.get(client.config_maps)["metadata"]["resourceVersion"]
    news = Timer(1.0, client.config_map, ["news"])  # a real API server sends no bookmark while nothing changed
    news.start()
    events = client.watch(client.config_maps, version, allowWatchBookmarks="true", timeoutSeconds=4)
    news.join()
    bookmarks = [event for event in events if event["type"] == "BOOKMARK"]
    assert bookmarks
    assert version_of(bookmarks[-1]["object"]) > int(version)


def test_a_field_selector_narrows_lists_and_watches_to_one_object(client: Client) -> None:
    client.config_map("a")
    client.config_map("b")
    chosen = "metadata.name=b"
    listed = client.get(client.config_maps, fieldSelector=chosen)
    assert [item["metadata"]["name"] for item in listed["items"]] == ["b"]
    for name in ("a", "b"):
        client.patch(f"{client.config_maps}/{name}", {"data": {"k": "v"}})
    events = client.watch(client.config_maps, listed["metadata"]["resourceVersion"], fieldSelector=chosen)
    assert [event["object"]["metadata"]["name"] for event in events] == ["b"]


def test_a_label_selector_decides_whom_a_watch_shows(client: Client) -> None:
    client.config_map("in", labels={"pool": "x"})
    client.config_map("out")
    listed = client.get(client.config_maps, labelSelector="pool=x")
    assert [item["metadata"]["name"] for item in listed["items"]] == ["in"]
    client.patch(f"{client.config_maps}/in", {"metadata": {"labels": {"pool": None}}})
    client.patch(f"{client.config_maps}/out", {"metadata": {"labels": {"pool": "x"}}})
    events = client.watch(client.config_maps, listed["metadata"]["resourceVersion"], labelSelector="pool=x")
    assert [(event["type"], event["object"]["metadata"]["name"]) for event in events] == [
        ("DELETED", "in"),
        ("ADDED", "out"),
    ]


def test_a_merge_patch_sets_and_removes_single_keys(client: Client) -> None:
    path = client.node("n", labels={"keep": "1", "drop": "1"}, annotations={"a": "b"})
    found = client.patch(
        path, {"metadata": {"labels": {"drop": None, "absent": None, "ballast.dev/score": "7"}}}, fieldManager="ballast"
    )
    assert found["metadata"]["labels"].get("drop") is None
    assert found["metadata"]["labels"]["keep"] == "1"
    assert found["metadata"]["labels"]["ballast.dev/score"] == "7"
    assert found["metadata"]["annotations"]["a"] == "b"
    assert "ballast" in [entry["manager"] for entry in found["metadata"]["managedFields"]]


def test_a_patch_that_changes_nothing_makes_no_version(client: Client) -> None:
    client.config_map("c", {"a": "1"})
    path = f"{client.config_maps}/c"
    before = client.get(path)
    assert version_of(client.patch(path, {"data": {"a": "1"}})) == version_of(before)


@pytest.mark.parametrize("method", ["patch", "replace"])
def test_an_old_version_is_a_conflict(client: Client, method: str) -> None:
    old = client.config_map("c", {"a": "1"})
    path = f"{client.config_maps}/c"
    new = client.patch(path, {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}, "data": {"a": "2"}})
    change = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": old["metadata"], "data": {"a": "3"}}
    with pytest.raises(Conflict):
        getattr(client, method)(path, change)
    assert client.get(path) == new


def test_creating_what_exists_is_a_conflict_and_reading_what_does_not_is_not_found(client: Client) -> None:
    client.config_map("c")
    with pytest.raises(Conflict) as caught:
        client.config_map("c")
    assert caught.value.reason == "AlreadyExists"
    for path in (f"{client.config_maps}/none", f"{client.leases}/none"):
        with pytest.raises(NotFound):
            client.get(path)


def test_taints_are_replaced_as_a_whole_list(client: Client) -> None:
    path = client.node("n")
    taints = [{"key": f"example.com/{name}", "effect": "PreferNoSchedule"} for name in ("a", "b")]
    client.patch(path, {"spec": {"taints": taints}})
    found = client.patch(path, {"spec": {"taints": taints[1:]}})
    assert [taint["key"] for taint in found["spec"]["taints"] if taint["key"].startswith("example.com/")] == [
        "example.com/b"
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"labels": {"a": "not a label value!"}}},
        {"metadata": {"labels": {"a b": "x"}}},
        {"spec": {"taints": [{"key": "a", "effect": "Sometimes"}]}},
    ],
)
def test_what_is_invalid_is_unprocessable(client: Client, change: dict[str, Any]) -> None:
    with pytest.raises(ClusterError) as caught:
        client.patch(client.node("n"), change)
    assert (caught.value.status, caught.value.reason) == (422, "Invalid")


def test_a_lease_keeps_what_was_written(client: Client) -> None:
    spec = {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-11-20T10:00:00.123456Z",
        "renewTime": "2026-11-20T10:00:02.000001Z",
        "leaseTransitions": 3,
    }
    path = f"{client.leases}/l"
    made = client.create(client.leases, {"metadata": {"name": "l"}, "spec": spec})
    assert made["spec"] == spec
    released = {**made, "spec": {**spec, "holderIdentity": "", "leaseDurationSeconds": 1}}
    assert client.replace(path, released)["spec"].get("holderIdentity", "") == ""
    with pytest.raises(Conflict):
        client.replace(path, made)


def test_credentials_that_are_not_valid_are_unauthorized(kubeconfig: Path) -> None:
    def load() -> Any:
        configuration = load_configuration(kubeconfig)
        configuration.api_key["BearerToken"] = "Bearer wrong"
        configuration.refresh_api_key_hook = None
        configuration.cert_file = configuration.key_file = None
        return configuration

    with pytest.raises(Unauthorized):
        KubeApi(load, Metrics()).get("/api/v1/nodes")


def test_an_eviction_that_a_budget_refuses_names_it_without_a_time_to_retry(client: Client) -> None:
    node = client.node("n").rpartition("/")[2]
    container = {"name": "main", "image": "none"}
    client.create(
        client.pods,
        {
            "metadata": {"name": "p", "labels": {"app": "x"}},
            "spec": {"containers": [container], "nodeName": node, "tolerations": [{"operator": "Exists"}]},
        },
    )
    budgets = f"/apis/policy/v1/namespaces/{client.namespace}/poddisruptionbudgets"
    client.create(
        budgets, {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}}
    )
    eventually("the pod runs", lambda: client.get(f"{client.pods}/p")["status"].get("phase") == "Running")
    eventually("the budget counts it", lambda: client.get(f"{budgets}/b")["status"].get("currentHealthy") == 1)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": client.namespace}}
    with pytest.raises(TooManyRequests) as caught:
        client.api.request("POST", f"{client.pods}/p/eviction", body=eviction)
    assert caught.value.causes == ("DisruptionBudget",)
    assert caught.value.retry_after is None


GATES = [{"name": "other.dev/quota"}, {"name": "ballast.dev/batch"}]


def gated(client: Client, name: str) -> dict[str, Any]:
    containers = [{"name": "main", "image": "none"}]
    return client.create(
        client.pods, {"metadata": {"name": name}, "spec": {"containers": containers, "schedulingGates": GATES}}
    )


def test_a_gated_pod_says_so_and_its_gates_can_only_be_removed(client: Client) -> None:
    made = gated(client, "gated")
    [condition] = made["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "SchedulingGated")
    with pytest.raises(ClusterError) as refused:
        client.patch(f"{client.pods}/gated", {"spec": {"schedulingGates": [*GATES, {"name": "more.dev/x"}]}})
    assert refused.value.status == 422
    assert "only deletion is allowed" in str(refused.value)


def test_one_gate_is_taken_from_exactly_one_pod_and_again_without_effect(client: Client) -> None:
    made = gated(client, "gated")
    path = f"{client.pods}/gated"
    taking = {"schedulingGates": [{"$patch": "delete", "name": "ballast.dev/batch"}]}

    def take(uid: str) -> None:
        body = {"metadata": {"uid": uid}, "spec": taking}
        client.api.request("PATCH", path, body=body, content_type="application/strategic-merge-patch+json")

    with pytest.raises(ClusterError) as refused:
        take("6f1d4a4e-0000-4000-8000-000000000000")
    assert refused.value.status in (409, 422)
    assert client.get(path)["spec"]["schedulingGates"] == GATES
    for _ in range(2):
        take(made["metadata"]["uid"])
        assert client.get(path)["spec"]["schedulingGates"] == GATES[:1]
