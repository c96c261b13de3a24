"""Ballast's own readers and writers against an API server."""

import threading
from collections.abc import Callable
from contextlib import closing, contextmanager
from ipaddress import ip_address
from typing import Any

import pytest

from ballast.base.clock import SystemClock
from ballast.base.errors import NotFound
from ballast.base.metrics import Metrics
from ballast.cluster.cache import Cache
from ballast.cluster.events import Events
from ballast.cluster.leader_endpoint import LeaderEndpoint, OwnPlace
from ballast.cluster.lease import Elector, LeaseTimes, read_lease
from ballast.cluster.node_writes import node_metadata, replace_taints
from ballast.cluster.state import StateStore
from ballast.cluster.switches import NAME, Switches
from ballast.cluster.write import Result
from ballast.cluster.writer import Writer
from ballast_lab.harness.waiting import HUNG, eventually
from tests.contract.objects import Client
from tests.worlds.writing import writer_on

CLOCK = SystemClock()


@contextmanager
def running(part: Any) -> Any:
    part.start()
    try:
        yield part
    finally:
        part.stop()


def writer_for(client: Client, *, mode: str = "on", events: Events | None = None) -> Writer:
    return writer_on(client.api, CLOCK, modes={"publishing": mode}, events=events)


def test_the_cache_follows_nodes_and_pods(client: Client) -> None:
    label = f"contract/{client.namespace}"
    node = client.node("n", labels={label: "x"}).rpartition("/")[2]
    with running(Cache(client.api, CLOCK, Metrics(), pods=True, node_selector=f"{label}=x")) as cache:
        assert cache.wait_synced(HUNG)
        assert [found.name for found in cache.nodes()] == [node]
        client.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {"ballast.dev/window": "{}"}}})
        eventually("the annotation arrives", lambda: cache.node(node).annotations)
        requests = {"requests": {"cpu": "250m"}}
        client.create(
            client.pods,
            {
                "metadata": {"name": "p"},
                "spec": {
                    "containers": [{"name": "main", "image": "none", "resources": requests}],
                    "nodeName": node,
                    "tolerations": [{"operator": "Exists"}],
                },
            },
        )
        (pod,) = eventually("the pod arrives", lambda: cache.pods_on(node))
        assert (pod.namespace, pod.name, pod.shape.requests) == (client.namespace, "p", {"cpu": 0.25})
        client.api.request("DELETE", f"{client.pods}/p", query={"gracePeriodSeconds": 0})
        eventually("the pod goes", lambda: not cache.pods_on(node))
        client.delete(f"/api/v1/nodes/{node}")
        eventually("the node goes", lambda: cache.nodes() == ())
        assert cache.problem("nodes") is None
        assert cache.age("pods") < 30


def test_a_cache_stops_at_once(client: Client) -> None:
    cache = Cache(client.api, CLOCK, Metrics(), pods=True)
    cache.start()
    assert cache.wait_synced(HUNG)
    stopping = threading.Thread(target=cache.stop)
    stopping.start()
    stopping.join(HUNG)
    assert not stopping.is_alive()


def test_labels_and_taints_are_written(client: Client) -> None:
    path = client.node("n")
    name = path.rpartition("/")[2]
    writer = writer_for(client)
    write = node_metadata(name, {"ballast.dev/score": "7"}, {"ballast.dev/window": "{}"}, part="publishing", reason="t")
    assert writer.submit(write).result is Result.DONE
    taint = {"key": "ballast.dev/overloaded", "effect": "PreferNoSchedule"}
    for change in (lambda taints: [*taints, taint], lambda taints: [t for t in taints if t != taint]):
        assert replace_taints(client.api, writer, name, change, part="publishing", reason="t").done
    found = client.get(path)
    assert found["metadata"]["labels"]["ballast.dev/score"] == "7"
    assert found["metadata"]["annotations"]["ballast.dev/window"] == "{}"
    assert taint not in found["spec"].get("taints", [])
    assert writer.submit(node_metadata("none", {"a": "b"}, {}, part="publishing", reason="t")).result is Result.GONE


def test_dry_run_changes_nothing(client: Client) -> None:
    path = client.node("n")
    name = path.rpartition("/")[2]
    writer = writer_for(client, mode="dry-run")
    assert writer.submit(node_metadata(name, {"a": "b"}, {}, part="publishing", reason="t")).result is Result.DRY_RUN
    outcome = replace_taints(client.api, writer, name, lambda taints: [*taints, {}], part="publishing", reason="t")
    assert outcome.result is Result.DRY_RUN
    assert "a" not in client.get(path)["metadata"].get("labels", {})


def test_events_are_accepted(client: Client) -> None:
    name = client.node("n").rpartition("/")[2]
    events = Events(client.api, CLOCK, Metrics(), instance="ballast-0")
    with running(events):
        writer_for(client, events=events).submit(node_metadata(name, {"a": "b"}, {}, part="publishing", reason="busy"))
        selector = f"involvedObject.name={name},reason=PublishLoadDone"
        path = "/api/v1/namespaces/default/events"
        (event,) = eventually("the Event is there", lambda: client.get(path, fieldSelector=selector)["items"])
    assert event["message"] == "busy"
    client.delete(f"{path}/{event['metadata']['name']}")


def test_state_survives_and_two_writers_lose_nothing(client: Client) -> None:
    states = [StateStore(client.api, writer_for(client), client.namespace) for _ in range(2)]

    def work(number: int) -> None:
        for turn in range(5):
            key = f"k{number}-{turn}"
            while not states[number].update(lambda keys, key=key: {**keys, key: "1"}, reason="t").done:
                pass

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(states[0].read()) == sorted(f"k{number}-{turn}" for number in range(2) for turn in range(5))


def test_switches_pause_and_resume(client: Client) -> None:
    path = f"{client.config_maps}/{NAME}"
    with running(Switches(client.api, CLOCK, Metrics(), client.namespace)) as switches:
        assert switches.wait_synced(HUNG)
        assert switches.paused("publishing") is None
        client.config_map(NAME, {"paused.publishing": "true"})
        eventually("it pauses", lambda: switches.paused("publishing"))
        assert switches.paused("power") is None
        client.patch(path, {"data": {"paused.publishing": "yes"}})
        eventually("the value is named", lambda: "'yes'" in str(switches.paused("publishing")))
        client.delete(path)
        eventually("it resumes", lambda: switches.paused("publishing") is None)


def test_one_of_two_leads_and_hands_over(client: Client) -> None:
    def elector(name: str) -> Elector:
        return Elector(
            client.api,
            CLOCK,
            Metrics(),
            namespace=client.namespace,
            name="ballast",
            identity=name,
            times=LeaseTimes(HUNG, HUNG / 2, 0.2),
        )

    with running(elector("a")) as first:
        eventually("the first leads", first.is_leader)
        with running(elector("b")) as second:
            eventually("the second sees it", lambda: second.holder() == "a")
            assert not second.is_leader()
            first.stop()
            eventually("the second leads", second.is_leader)
            found = read_lease(client.api, client.namespace, "ballast")
            assert (found.holder_identity, found.lease_transitions) == ("b", 1)
    assert read_lease(client.api, client.namespace, "ballast").holder_identity in ("", None)


@pytest.mark.parametrize("address", ["10.1.2.3", "fd00::7"])
def test_the_service_of_the_extender_leads_to_the_leader(client: Client, address: str) -> None:
    core, slices = (f"/{each}/namespaces/{client.namespace}" for each in ("api/v1", "apis/discovery.k8s.io/v1"))
    name = f"extender-{ip_address(address).version}"
    ports = [{"name": "http", "port": 2020}]
    service = client.create(f"{core}/services", {"metadata": {"name": name}, "spec": {"ports": ports}})

    def endpoints() -> Any:
        return [each["addresses"] for each in client.get(f"{slices}/endpointslices/{name}")["endpoints"] or ()]

    def place(pod: str) -> Any:
        where = OwnPlace(pod, client.namespace, address)
        return LeaderEndpoint(client.api, writer_for(client), CLOCK, name, where)

    first, second = place("first"), place("second")
    first.start(2020)
    second.start(2020)
    try:
        first.leading(True)
        eventually("the first is reached", lambda: _try(endpoints) == [[address]])
        made = client.get(f"{slices}/endpointslices/{name}")
        assert made["metadata"]["labels"]["kubernetes.io/service-name"] == name
        assert made["metadata"]["ownerReferences"][0]["uid"] == service["metadata"]["uid"]
        assert made["ports"] == [{"name": "http", "port": 2020, "protocol": "TCP"}]
        second.leading(True)
        eventually("the second is reached", lambda: _target(client, f"{slices}/endpointslices/{name}") == "second")
        first.stop()
        assert _target(client, f"{slices}/endpointslices/{name}") == "second", "one that stops leaves the other's"
    finally:
        first.stop()
        second.stop()
    assert endpoints() == []


def _try(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except NotFound:
        return None


def _target(client: Client, path: str) -> Any:
    found = client.get(path)["endpoints"]
    return found[0]["targetRef"]["name"] if found else None


@pytest.mark.parametrize("name", ["a%2Fb", "no/such", "Ünicode"])
def test_odd_names_reach_the_server_as_one_name(client: Client, name: str) -> None:
    outcome = writer_for(client).submit(node_metadata(name, {"a": "b"}, {}, part="publishing", reason="t"))
    assert outcome.result in (Result.GONE, Result.FAILED)
    assert outcome.status in (400, 404)


def test_a_closed_client_can_still_be_used(client: Client) -> None:
    with closing(client.api):
        client.get("/api/v1/nodes", limit=1)
    assert client.get("/api/v1/nodes", limit=1)["kind"] == "NodeList"
