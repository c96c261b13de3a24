import json
import threading

import requests

from ballast_lab.harness.waiting import HUNG
from ballast_lab.simulator import EmbeddedCluster, World
from ballast_lab.simulator.kube.kinds import CONFIG_MAP, NODE
from lab_tests.simulator.client import MERGE, Client
from tests.worlds.clock import FakeClock

NODES = "/api/v1/nodes"
END = "k8s.io/initial-events-end"


def label(client: Client, node: str, **labels: str | None) -> None:
    assert client.patch(f"{NODES}/{node}", {"metadata": {"labels": labels}}).code == 200


def version(client: Client) -> str:
    return str(client.get(NODES, limit=1).json["metadata"]["resourceVersion"])


def test_a_watch_sends_every_change_after_a_version_in_order(client: Client) -> None:
    start = version(client)
    for value in ("1", "2", "3"):
        label(client, "node-000", turn=value)
    client.delete(f"{NODES}/node-001")
    events = client.watch(NODES, resourceVersion=start)
    assert [event["type"] for event in events] == ["MODIFIED", "MODIFIED", "MODIFIED", "DELETED"]
    assert [event["object"]["metadata"]["labels"].get("turn") for event in events[:3]] == ["1", "2", "3"]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions))
    assert versions[0] > int(start)


def test_a_watch_without_a_version_begins_with_what_there_is(client: Client) -> None:
    events = client.watch(NODES)
    assert [event["type"] for event in events] == ["ADDED"] * 6


def test_bookmarks_come_with_a_version_to_go_on_from(clock: FakeClock) -> None:
    with EmbeddedCluster(World(nodes=2, clock=clock, scene="calm"), bookmark_seconds=10.0) as cluster:
        client = Client(cluster)
        start = version(client)
        cluster.resources.create(CONFIG_MAP, "default", {"metadata": {"name": "elsewhere"}})
        events = client.watch(NODES, resourceVersion=start, allowWatchBookmarks="true", timeoutSeconds=25)
        client.close()
    assert {event["type"] for event in events} == {"BOOKMARK"}
    assert len(events) >= 2
    assert events[-1]["object"]["kind"] == "Node"
    assert int(events[-1]["object"]["metadata"]["resourceVersion"]) > int(start)


def test_a_streamed_list_ends_with_an_annotated_bookmark(client: Client) -> None:
    events = client.watch(
        NODES, sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true"
    )
    ends = [event for event in events if event["object"]["metadata"].get("annotations", {}).get(END) == "true"]
    assert len(ends) == 1
    assert client.get(NODES, watch="true", sendInitialEvents="true").code == 422


def test_a_version_too_old_ends_in_gone(client: Client, cluster: EmbeddedCluster) -> None:
    start = version(client)
    label(client, "node-000", turn="1")
    cluster.store.compact()
    (event,) = client.watch(NODES, resourceVersion=start)
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")


def test_a_selector_turns_changes_into_additions_and_deletions(client: Client) -> None:
    start = version(client)
    label(client, "node-000", tier="gold")
    label(client, "node-000", turn="1")
    label(client, "node-001", turn="1")
    label(client, "node-000", tier=None)
    events = client.watch(NODES, resourceVersion=start, labelSelector="tier=gold")
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]


def test_one_object_can_be_watched(client: Client) -> None:
    start = version(client)
    label(client, "node-000", turn="1")
    label(client, "node-001", turn="1")
    events = client.watch(NODES, resourceVersion=start, fieldSelector="metadata.name=node-001")
    assert [event["object"]["metadata"]["name"] for event in events] == ["node-001"]


def test_a_waiting_watch_sends_a_change_at_once(cluster: EmbeddedCluster) -> None:
    start = cluster.store.revision
    with requests.get(
        f"{cluster.url}{NODES}",
        params={"watch": "true", "resourceVersion": str(start), "timeoutSeconds": "1000"},
        stream=True,
        timeout=HUNG,
    ) as response:
        lines = response.iter_lines(chunk_size=1)
        change = {"metadata": {"labels": {"turn": "1"}}}
        writer = threading.Thread(target=cluster.resources.patch, args=(NODE, "", "node-000", MERGE, change))
        writer.start()
        event = json.loads(next(lines))
        writer.join()
    assert event["object"]["metadata"]["labels"]["turn"] == "1"


def test_a_stop_ends_open_watches(clock: FakeClock) -> None:
    cluster = EmbeddedCluster(World(nodes=2, clock=clock, scene="calm")).start()
    with requests.get(f"{cluster.url}{NODES}", params={"watch": "true"}, stream=True, timeout=HUNG) as response:
        cluster.stop()
        assert len(list(response.iter_lines())) == 2
