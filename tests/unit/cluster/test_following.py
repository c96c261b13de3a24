"""Listing and watching against a scripted server on a real socket."""

import itertools
import json
import queue
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ballast.base.clock import SystemClock
from ballast.base.errors import Forbidden, TooManyRequests
from ballast.base.metrics import Metrics
from ballast.cluster.cache import Cache
from ballast.cluster.lease import Elector
from ballast.cluster.listing import PAGE
from ballast.cluster.objects.decoding import Reader
from ballast.cluster.switches import Switches
from ballast.cluster.watch import Collection, Reflector, stop_all
from ballast_lab.harness.waiting import HUNG, until
from tests.worlds.http_server import Answer, Request, Server, api_for, serving, status
from tests.worlds.kube_api import FakeApi

HANG_UP = b""


def node(name: str, version: int, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": name, "resourceVersion": str(version), "labels": labels}}


def event(kind: str, item: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": item}).encode() + b"\n"


def bookmark(version: int) -> bytes:
    return event("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


class World:
    """Lists `items` at `version`; what is put into `events` goes out on the running watch."""

    def __init__(self, *items: dict[str, Any], version: int = 10) -> None:
        self.items = list(items)
        self.version = version
        self.events: queue.Queue[bytes] = queue.Queue()
        self.watches: queue.Queue[dict[str, str]] = queue.Queue()
        self.lists: queue.Queue[dict[str, str]] = queue.Queue()
        self.refuse: Callable[[Request], Answer | None] = lambda request: None

    def __call__(self, request: Request) -> Answer:
        query = dict(request.query)
        (self.watches if "watch" in query else self.lists).put(query)
        if (refused := self.refuse(request)) is not None:
            return refused
        if "watch" in query:
            return Answer(iter(self.events.get, HANG_UP))
        start = int(query.get("continue", 0))
        end = start + int(query["limit"])
        meta: dict[str, str] = {"resourceVersion": str(self.version)}
        if end < len(self.items):
            meta["continue"] = str(end)
        return Answer({"metadata": meta, "items": self.items[start:end]})


@pytest.fixture
def follow() -> Iterator[Callable[..., tuple[Cache, Server, Metrics]]]:
    made: list[Any] = []

    def start(world: World, *, pods: bool = False, node_selector: str | None = None) -> tuple[Cache, Server, Metrics]:
        context = serving(world)
        server = context.__enter__()
        metrics = Metrics()
        cache = Cache(api_for(server, metrics), SystemClock(), metrics, pods=pods, node_selector=node_selector)
        made.append((cache, world, context))
        cache.start()
        return cache, server, metrics

    yield start
    for cache, world, context in made:
        cache.stop()
        world.events.put(HANG_UP)
        context.__exit__(None, None, None)


def names(cache: Cache) -> list[str]:
    return [node.name for node in cache.nodes()]


@pytest.fixture
def world() -> World:
    return World(node("a", 3))


def test_pages_are_joined_and_nodes_come_by_name(follow: Any) -> None:
    world = World(*(node(f"n{number:03}", 5) for number in reversed(range(2 * PAGE + 100))))
    cache, _, metrics = follow(world)
    assert cache.wait_synced(HUNG)
    assert names(cache) == [f"n{number:03}" for number in range(2 * PAGE + 100)]
    assert world.lists.qsize() == 3
    assert cache.nodes() is cache.nodes()
    assert metrics.registry.get_sample_value("ballast_reads_total", {"verb": "list", "result": "ok"}) == 3


def test_events_change_the_cache_and_old_versions_are_ignored(follow: Any) -> None:
    world = World(node("a", 3), node("b", 4))
    cache, _, _ = follow(world)
    assert cache.wait_synced(HUNG)
    world.events.put(event("ADDED", node("c", 11)) + event("DELETED", node("b", 12)))
    world.events.put(event("MODIFIED", node("a", 12, zone="stale")) + event("MODIFIED", node("a", 12, zone="older")))
    world.events.put(event("MODIFIED", node("c", 13, zone="x")))
    until(lambda: (found := cache.node("c")) and found.labels)
    assert names(cache) == ["a", "c"]
    assert cache.node("a").labels == {}


def test_a_watch_goes_on_from_the_last_bookmark(world: World, follow: Any) -> None:
    _, _, metrics = follow(world)
    assert world.watches.get(timeout=HUNG)["resourceVersion"] == "10"
    world.events.put(bookmark(500))
    world.events.put(HANG_UP)
    again = world.watches.get(timeout=HUNG)
    assert again["resourceVersion"] == "500"
    assert again["allowWatchBookmarks"] == "true"
    assert world.lists.qsize() == 1
    assert metrics.registry.get_sample_value("ballast_watch_restarts_total", {"kind": "nodes", "reason": "ended"}) == 1


def test_gone_lists_again(world: World, follow: Any) -> None:
    cache, _, _ = follow(world)
    world.watches.get(timeout=HUNG)
    world.items, world.version = [node("b", 20)], 30
    world.events.put(event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}))
    world.events.put(HANG_UP)
    assert world.watches.get(timeout=HUNG)["resourceVersion"] == "30"
    assert names(cache) == ["b"]


def test_a_server_restored_from_a_backup_is_listed_again(follow: Any) -> None:
    world = World(node("a", 3), version=1000)
    cache, _, _ = follow(world)
    world.watches.get(timeout=HUNG)
    world.items, world.version = [node("b", 20)], 30
    too_large = status(504, "Timeout", causes=[{"reason": "ResourceVersionTooLarge"}])
    world.refuse = lambda request: too_large if request.query.get("resourceVersion") == "1000" else None
    world.events.put(HANG_UP)
    until(lambda: names(cache) == ["b"])


@pytest.mark.parametrize("told", [bookmark(7), event("MODIFIED", node("a", 7))])
def test_a_version_that_goes_back_lists_this_and_all_others_again(told: bytes, follow: Any) -> None:
    world = World(node("a", 3))
    cache, _, _ = follow(world)
    other = World(node("x", 3))
    elsewhere, _, _ = follow(other)
    elsewhere.share(cache.versions)
    assert cache.wait_synced(HUNG)
    assert elsewhere.wait_synced(HUNG)
    other.watches.get(timeout=HUNG)
    world.items, world.version = [node("a", 3), node("b", 6)], 8
    other.items, other.version = [node("y", 6)], 8
    world.events.put(told)
    until(lambda: names(cache) == ["a", "b"])
    other.events.put(HANG_UP)  # What closing the stream does against a real server, which this one waits for.
    until(lambda: names(elsewhere) == ["y"])
    assert cache.versions.turns == 1
    assert (world.lists.qsize(), other.lists.qsize()) == (2, 2)


def test_a_watch_that_only_the_lease_knows_to_be_of_the_future_is_listed_again(follow: Any) -> None:
    world = World(node("a", 3), version=900)
    cache, _, _ = follow(world)
    assert cache.wait_synced(HUNG)
    world.watches.get(timeout=HUNG)
    world.items, world.version = [node("a", 3), node("b", 6)], 8
    lease = Elector(FakeApi(), SystemClock(), Metrics(), namespace="ns", name="ballast", identity="a")  # type: ignore[arg-type]
    lease.versions = cache.versions
    lease._compare({"metadata": {"resourceVersion": "890"}})
    lease._compare({"metadata": {"resourceVersion": "7"}})
    world.events.put(HANG_UP)
    until(lambda: names(cache) == ["a", "b"])
    assert world.watches.get(timeout=HUNG)["resourceVersion"] == "8"


def test_an_expired_list_starts_over(follow: Any) -> None:
    world = World(*(node(f"n{number:03}", 5) for number in range(PAGE + 50)))
    expired: list[Request] = []

    def refuse(request: Request) -> Answer | None:
        if "continue" in request.query and not expired:
            expired.append(request)
            return status(410, "Expired")
        return None

    world.refuse = refuse
    cache, _, _ = follow(world)
    assert cache.wait_synced(HUNG)
    assert len(cache.nodes()) == PAGE + 50
    assert world.lists.qsize() == 4


def test_missing_rights_are_named_until_they_are_there(world: World, follow: Any) -> None:
    world.refuse = lambda request: status(403, "Forbidden", "nodes is forbidden")
    cache, _, _ = follow(world)
    until(lambda: cache.problem("nodes"))
    assert "verb `list` on `nodes`" in cache.problem("nodes")
    assert not cache.synced
    assert cache.age("nodes") == float("inf")
    world.refuse = lambda request: None
    until(lambda: cache.synced and cache.problem("nodes") is None)
    assert cache.age("nodes") < 5


def test_a_web_page_instead_of_a_list_is_named(follow: Any) -> None:
    world = World()
    world.refuse = lambda request: Answer(b"<html>please log in</html>")
    cache, _, _ = follow(world)
    until(lambda: cache.problem("nodes"))
    assert "does not answer as a Kubernetes API" in cache.problem("nodes")


def test_an_object_that_cannot_be_read_costs_only_itself(follow: Any) -> None:
    cache, _, _ = follow(World(node("a", 3), {"metadata": {"name": 7}}, node("b", 4)))
    assert cache.wait_synced(HUNG)
    assert names(cache) == ["a", "b"]


def test_an_unreadable_event_is_not_the_end(world: World, follow: Any) -> None:
    cache, _, _ = follow(world)
    world.watches.get(timeout=HUNG)
    world.events.put(b"{nonsense}\n")
    world.events.put(HANG_UP)
    assert world.watches.get(timeout=HUNG)["resourceVersion"] == "10"
    world.events.put(event("ADDED", node("b", 11)))
    until(lambda: names(cache) == ["a", "b"])


TOKEN = "SECRETTOKEN123"


@pytest.mark.parametrize(
    "echo",
    [
        event("ERROR", {"kind": "Status", "code": 500, "message": f"a proxy says: it was sent Bearer {TOKEN}"}),
        b"a proxy says: you sent Bearer " + TOKEN.encode() + b"\n",
        b"x" * 74 + TOKEN.encode() + b"\n",
        json.dumps({"type": "ADDED", "object": [f"Bearer {TOKEN}"]}).encode() + b"\n",
    ],
    ids=["event", "text", "cut", "shape"],
)
def test_a_watch_that_repeats_the_token_does_not_show_it(world: World, echo: bytes) -> None:
    with serving(world) as server:
        api = api_for(server, api_key={"authorization": f"Bearer {TOKEN}"})
        cache = Cache(api, SystemClock(), Metrics(), pods=False, node_selector=None)
        cache.start()
        world.events.put(echo)
        until(lambda: cache.problem("nodes"))
        world.events.put(HANG_UP)
        cache.stop()
        world.events.put(HANG_UP)
    assert server.requests[-1].headers["Authorization"] == f"Bearer {TOKEN}"
    assert "SECRET" not in cache.problem("nodes")
    assert "*****" in cache.problem("nodes") or "Expected" in cache.problem("nodes")


def test_a_defect_of_ours_is_told_and_answered_by_listing_again(world: World, follow: Any, monkeypatch: Any) -> None:
    cache, _, metrics = follow(world)
    world.watches.get(timeout=HUNG)

    def fail(_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(cache._nodes, "put", fail)
    world.events.put(event("ADDED", node("b", 11)))
    until(lambda: cache.problem("nodes"))
    assert cache.problem("nodes") == "RuntimeError: a defect"
    world.events.put(HANG_UP)
    monkeypatch.undo()
    world.items.append(node("b", 11))
    until(lambda: names(cache) == ["a", "b"])
    defects = {"kind": "nodes", "reason": "defect"}
    assert metrics.registry.get_sample_value("ballast_watch_restarts_total", defects) == 1


def test_a_silent_watch_stops_at_once(world: World, follow: Any) -> None:
    cache, _, _ = follow(world)
    world.watches.get(timeout=HUNG)
    until(lambda: all(watch._lines for watch in cache._watches.values()))
    cache.stop()
    assert not any(watch._thread.is_alive() for watch in cache._watches.values())


def test_the_selector_is_applied_by_the_server(world: World, follow: Any) -> None:
    follow(world, node_selector="pool=batch")
    assert world.lists.get(timeout=HUNG)["labelSelector"] == "pool=batch"
    assert world.watches.get(timeout=HUNG)["labelSelector"] == "pool=batch"


def test_pods_are_found_by_their_node_and_may_move(follow: Any) -> None:
    def pod(name: str, where: str, version: int) -> dict[str, Any]:
        meta = {"namespace": "default", "name": name, "uid": name, "resourceVersion": str(version)}
        return {"metadata": meta, "spec": {"nodeName": where}}

    class Both(World):
        def __call__(self, request: Request) -> Answer:
            if request.path.endswith("/nodes"):
                return status(403) if "watch" in request.query else Answer({"metadata": {"resourceVersion": "1"}})
            return super().__call__(request)

    world = Both(pod("p", "", 3), pod("q", "n1", 4))
    cache, _, _ = follow(world, pods=True)
    assert cache.wait_synced(HUNG)
    assert [pod.name for pod in cache.pods_on("n1")] == ["q"]
    world.events.put(event("MODIFIED", pod("p", "n1", 11)) + event("DELETED", pod("q", "n1", 12)))
    until(lambda: [pod.name for pod in cache.pods_on("n1")] == ["p"])
    assert cache.pods_on("") == ()
    assert [pod.name for pod in cache.pods()] == ["p"]


def test_pages_follow_the_bytes_of_the_page_before(follow: Any) -> None:
    world = World(*(node(f"n{number:03}", 5, zone="x" * 400_000) for number in range(100)))
    cache, _, _ = follow(world)
    assert cache.wait_synced(HUNG)
    assert len(names(cache)) == 100
    limits = [int(query["limit"]) for query in world.lists.queue]
    assert limits[:2] == [PAGE, PAGE // 4]
    assert 5 <= max(limits[3:]) <= 12


def test_a_page_that_is_too_large_is_asked_again_down_to_one_object(follow: Any) -> None:
    world = World(*(node(f"n{number}", 5, zone="x" * 13_000_000) for number in range(2)), node("small", 5))
    cache, _, _ = follow(world)
    assert cache.wait_synced(HUNG)
    assert len(names(cache)) == 3
    assert [int(query["limit"]) for query in world.lists.queue][:5] == [125, 31, 7, 1, 1]


def test_a_watch_goes_on_after_an_event_that_is_no_utf8(world: World, follow: Any) -> None:
    cache, _, metrics = follow(world)
    assert cache.wait_synced(HUNG)
    world.events.put(event("ADDED", node("bad", 11, zone="@@")).replace(b"@@", b"\xff\xfe"))
    world.events.put(event("ADDED", node("good", 12)))
    until(lambda: cache.node("good"))
    assert names(cache) == ["a", "good"]
    sample = metrics.registry.get_sample_value("ballast_watch_restarts_total", {"kind": "nodes", "reason": "defect"})
    assert sample is None


def test_however_long_the_server_asks_to_wait_a_watch_tries_again_within_its_bound() -> None:
    class Watching(SystemClock):
        def wait(self, event: threading.Event, timeout: float | None) -> bool:
            waits.append(timeout)
            if len(waits) == 20:
                event.set()
            return event.is_set()

    def refuse(*_: Any, **__: Any) -> bytes:
        raise TooManyRequests("the server is busy", retry_after=3600.0)

    waits: list[float | None] = []
    reader = Reader("nodes", lambda raw: raw)
    for watch, longest in (
        (Reflector(cast(Any, SimpleNamespace(get=refuse)), Watching(), Metrics(), cast(Any, None), reader, NODES), 30),
        (Switches(cast(Any, SimpleNamespace(get=refuse)), Watching(), Metrics(), "ns")._watch, 10),
    ):
        waits.clear()
        watch._run()
        assert len(waits) == 20
        assert all(wait is not None and 0 < wait <= longest for wait in waits)
        assert waits[0] == longest


NODES = Collection("/api/v1/nodes")


class _Hasty(SystemClock):
    """Waits for nothing, so that hours of attempts pass in a moment."""

    def wait(self, event: threading.Event, timeout: float | None) -> bool:
        return event.is_set()


def test_a_collection_that_is_forbidden_for_hours_is_still_tried() -> None:
    tried = itertools.count()
    api = SimpleNamespace(get=lambda *_, **__: _forbidden(tried))
    reader = Reader("nodes", lambda raw: raw)
    watch = Reflector(cast(Any, api), _Hasty(), Metrics(), cast(Any, None), reader, Collection("/api/v1/nodes"))
    watch.start()
    until(lambda: next(tried) > 1500 or not watch.alive)
    assert watch.alive
    watch.stop()


def _forbidden(tried: Iterator[int]) -> bytes:
    next(tried)
    raise Forbidden("nodes is forbidden", status=403)


def test_all_watches_are_told_to_end_before_any_is_waited_for() -> None:
    calls: list[str] = []

    class Watch:
        def end(self) -> None:
            calls.append("end")

        def join(self, patience: float) -> None:
            calls.append("join")
            assert 0 <= patience <= 1

    stop_all(cast(Any, [Watch(), Watch(), Watch()]))
    assert calls == ["end"] * 3 + ["join"] * 3
