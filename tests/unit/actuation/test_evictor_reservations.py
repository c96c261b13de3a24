"""Room that is held for replacements, and where they land."""

import json

import msgspec

from ballast.actuation.eviction.evictor import Evictor
from ballast.actuation.eviction.records import StepRecord
from ballast.actuation.eviction.replacement_reservations import ReplacementReservations
from tests.worlds.evicting import FREE, NOW, ONE, EvictingApi, FakeExtender, Replica


def test_a_redistribution_evicts_one_and_holds_the_room_for_those_that_wait(server: EvictingApi) -> None:
    replica = Replica(server, rules=FREE, options={"nominate": True})
    first = server.add("", "batch", phase="Pending", ready=False, waiting_since=NOW - 100, created=NOW - 200)
    server.objects[f"/api/v1/namespaces/shop/pods/{first.name}/status"] = {"metadata": {"name": first.name}}
    attempts = replica.carry_out(
        server.pods["shop/web-1"], server.pods["shop/web-2"], kind="redistribute", starts=(first,)
    )
    assert [attempt.status for attempt in attempts] == ["evicted"]
    assert {(each.node, each.purpose.value) for each in replica.extender.active()} == {
        ("n5", "replacement"),
        ("n0", "waiting"),
    }
    patches = [(path, body) for method, path, body in server.requests if method == "PATCH"]
    assert patches == [
        (
            f"/api/v1/namespaces/shop/pods/{first.name}/status",
            {"metadata": {"uid": first.uid}, "status": {"nominatedNodeName": "n0"}},
        )
    ]
    server.pods[f"shop/{first.name}"] = msgspec.structs.replace(first, node="n0", scheduled_at=NOW)
    server.replace_evicted("n5")
    assert replica.follow() == "redistribute started 1 of 1 waiting pods"


def test_a_redistribution_that_starts_nobody_stops(server: EvictingApi) -> None:
    replica = Replica(server)
    first = server.add("", "batch", phase="Pending", ready=False, waiting_since=NOW - 100, created=NOW - 200)
    replica.carry_out(server.pods["shop/web-1"], kind="redistribute", starts=(first,))
    server.replace_evicted("n5")
    assert replica.follow() is None
    told = replica.follow(301)
    assert told == "redistribute started 0 of 1 waiting pods"
    assert replica.evictor.stopped("redistribute")


def test_one_probe_shows_whether_the_landing_is_steered(server: EvictingApi) -> None:
    replica = Replica(server, rules=FREE)
    replica.extender.asked_at = {}
    assert replica.replacements.names(["default-scheduler"]) == {"default-scheduler"}
    attempts = replica.carry_out(server.pods["shop/web-1"], server.pods["shop/web-2"])
    assert [(attempt.status, attempt.check) for attempt in attempts] == [("evicted", ""), ("refused", "reservation")]
    assert not replica.replacements.may_probe("default-scheduler")
    server.replace_evicted("n5")
    replica.extender.asked_at = {"default-scheduler": server.clock.monotonic()}
    replica.follow()
    assert replica.replacements.steered("default-scheduler")
    assert replica.replacements.failed == {}


def test_a_probe_that_landed_unseen_is_the_last_for_a_day_also_after_a_restart(server: EvictingApi) -> None:
    replica = Replica(server, rules=FREE)
    replica.extender.asked_at = {}
    replica.carry_out(server.pods["shop/web-1"])
    server.replace_evicted("n3")
    replica.follow()
    assert replica.replacements.names(["default-scheduler"]) == frozenset()
    after = Replica(server)
    after.extender.asked_at = {}
    after.evictor.recorder.resume()
    assert after.replacements.names(["default-scheduler"]) == frozenset()
    server.clock.advance(86_401)
    assert after.replacements.may_probe("default-scheduler")


def test_a_step_without_a_target_reserves_nothing(server: EvictingApi) -> None:
    replica = Replica(server)
    replica.extender.asked_at = {}
    [attempt] = replica.carry_out(server.pods["shop/web-1"], to=None, kind="relieve")
    assert attempt.evicted
    assert not replica.extender.held
    assert replica.evictor.pending() == {"n0": {"cpu": -0.1, "memory": -0.1}}


def test_room_is_held_over_two_looks_at_what_became_of_it(server: EvictingApi) -> None:
    held = [
        ReplacementReservations(FakeExtender(server.clock), server.clock, interval=interval).reservations_for(
            StepRecord("shop/a", "u", "n0", NOW, target="n5", owner="o"), server.pods["shop/web-1"], ()
        )[0]
        for interval in (1.0, 60.0, 600.0, 86_400.0)
    ]
    assert [each.until - NOW for each in held] == [120, 120, 1200, 1800]


def test_the_document_shows_what_is_held(server: EvictingApi) -> None:
    replica = Replica(server)
    replica.carry_out(server.pods["shop/web-1"])
    found = msgspec.to_builtins(replica.evictor.recorder.document({"rate": "20/1h"}, "too many nodes are not Ready"))
    assert found["reservations"] == [
        {
            "node": "n5",
            "for": "shop/web-1",
            "kind": "replacement",
            "until": NOW + 120,
            "cpu": 1.0,
            "memory": ONE.requests["memory"],
        }
    ]
    assert (found["limits"], found["breaker"]) == ({"rate": "20/1h"}, "too many nodes are not Ready")
    json.dumps(found)


def test_a_new_leader_holds_the_reservations_of_the_one_before(server: EvictingApi) -> None:
    before = Replica(server)
    before.carry_out(server.pods["shop/web-1"])
    after = Replica(server)
    assert after.evictor.recorder.resume() == "took over 1 evictions that are not finished"
    assert [(each.name, each.node, each.until) for each in after.extender.active()] == [
        (each.name, each.node, each.until) for each in before.extender.active()
    ]
    assert after.evictor.history() == before.evictor.history()
    assert isinstance(after.evictor, Evictor)


def test_a_new_leader_holds_no_reservation_that_has_ended_meanwhile(server: EvictingApi) -> None:
    before = Replica(server)
    before.carry_out(server.pods["shop/web-1"])
    [held] = before.extender.active()
    server.clock.advance(held.until - server.clock.wall())
    after = Replica(server)
    after.evictor.recorder.resume()
    assert after.extender.active() == ()
