from typing import Any

import pytest

from ballast.base.errors import Forbidden
from ballast.cluster.events import Events
from ballast.cluster.node_writes import node_metadata
from ballast.cluster.write import Result, Write, WriteOutcome, WriteTarget
from tests.worlds.writing import WriterRig, raising


class Rig(WriterRig):
    def __init__(self) -> None:
        super().__init__(modes={})
        self.events = Events(self.api, self.clock, self.metrics, instance="ballast-0")

    def sent(self) -> list[dict[str, Any]]:
        """Runs the thread's work until nothing waits."""
        self.events._waiting.put(None)
        self.events._run()
        return [body for _, _, body in self.api.writes]


@pytest.fixture
def rig() -> Rig:
    return Rig()


def label(node: str) -> Write:
    return node_metadata(node, {"a": "b"}, {}, part="publishing", reason="score 3 to 7")


def evict(pod: str) -> Write:
    return Write(
        kind="eviction",
        part="eviction",
        method="POST",
        path="/x",
        target=WriteTarget("Pod", pod, "ns", uid="u"),
        reason="node is hot",
        event="Evict",
    )


def test_an_event_says_who_what_and_why(rig: Rig) -> None:
    rig.events.report(WriteOutcome(evict("p"), Result.REFUSED, "paused by key paused"))
    (event,) = rig.sent()
    assert rig.api.writes[0][1] == "/api/v1/namespaces/ns/events"
    assert event["involvedObject"] == {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": "ns", "uid": "u"}
    assert (event["type"], event["reason"]) == ("Warning", "EvictRefused")
    assert event["message"] == "node is hot: paused by key paused"
    assert event["firstTimestamp"] == "2023-11-14T22:13:20Z"


def test_events_about_nodes_go_to_the_default_namespace(rig: Rig) -> None:
    rig.events.report(WriteOutcome(label("n1"), Result.DONE))
    (event,) = rig.sent()
    assert event["metadata"]["namespace"] == "default"
    assert (event["type"], event["reason"]) == ("Normal", "PublishLoadDone")


def test_what_is_aggregated_is_counted_over_all_nodes(rig: Rig) -> None:
    for number in range(40):
        rig.events.report(WriteOutcome(label(f"n{number}"), Result.DONE))
    rig.clock.advance(301)
    rig.events.report(WriteOutcome(label("n9"), Result.DONE))
    first, second = rig.sent()
    assert first["count"] == 1
    assert second["count"] == 40
    assert "39 more like it" in second["message"]


def test_a_flood_of_topics_is_dropped_and_counted(rig: Rig) -> None:
    for number in range(130):
        rig.events.report(WriteOutcome(evict(f"p{number}"), Result.DONE))
    assert rig.counted("event", "dropped") == 30


def test_an_event_that_is_refused_is_only_counted(rig: Rig) -> None:
    rig.api.before = raising(Forbidden("no"))
    rig.events.report(WriteOutcome(evict("p"), Result.DONE))
    rig.sent()
    assert rig.counted("event", "failed") == 1


def test_a_defect_costs_one_event(rig: Rig) -> None:
    rig.api.before = raising(KeyError("x"), 1)
    for name in ("p", "q"):
        rig.events.report(WriteOutcome(evict(name), Result.DONE))
    assert [event["involvedObject"]["name"] for event in rig.sent()] == ["q"]
    assert rig.counted("event", "failed") == 1


@pytest.mark.parametrize("started", [False, True])
def test_stop(rig: Rig, started: bool) -> None:
    if started:
        rig.events.start()
    rig.events.stop()
    assert not rig.events._thread.is_alive()
