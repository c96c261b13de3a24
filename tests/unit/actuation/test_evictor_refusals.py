"""Evictions that are refused, not answered or stopped in between."""

from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import pytest

from ballast.base.errors import ClusterError, Forbidden, TooManyRequests, Unreachable
from ballast.cluster.writer import Pace
from ballast.model.marks import EVICTS_ITSELF
from ballast.model.pod import Owner
from ballast.model.selector import Requirement, Selector
from ballast.model.workload import DisruptionBudget
from tests.worlds.evicting import FREE, KEY, NOW, EvictingApi, Replica, plans


def test_a_pod_of_another_uid_or_on_another_node_is_not_evicted(server: EvictingApi) -> None:
    replica = Replica(server, rules=FREE)
    one, two, three, *_ = list(server.pods.values())
    server.pods["shop/web-1"] = msgspec.structs.replace(one, uid="another")
    server.pods["shop/web-2"] = msgspec.structs.replace(two, node="n4")
    del server.pods["shop/web-3"]
    attempts = replica.carry_out(one, two, three)
    assert [attempt.why for attempt in attempts] == [
        "another pod is called shop/web-1 now",
        "shop/web-2 is not on n1 any more",
        "shop/web-3 is gone",
    ]
    assert not server.sent
    assert server.state() == {}


def test_a_planner_in_dry_run_evicts_nothing_beside_one_that_acts(server: EvictingApi) -> None:
    replica = Replica(server, rules=FREE, options={"imagining": frozenset({"rebalance"})})
    pod = server.pods["shop/web-1"]
    [attempt] = replica.carry_out(pod, kind="rebalance")
    assert (attempt.status, server.sent, server.state()) == ("dry-run", [], {})
    assert replica.evictor.history().evictions == (), "it counts against no rate of those that act"
    assert len(replica.evictor.history(imagined=True).evictions) == 1
    [attempt] = replica.carry_out(pod, kind="relieve")
    assert attempt.evicted, "and keeps no pod from being moved"


def test_the_server_refuses_a_pod_whose_uid_changed_after_the_last_look(server: EvictingApi) -> None:
    replica = Replica(server)
    pod = server.pods["shop/web-1"]
    server.before = lambda method, path, body: server.pods.update({"shop/web-1": msgspec.structs.replace(pod, uid="x")})
    [attempt] = replica.carry_out(pod)
    assert attempt.status == "failed"
    assert not server.evicted
    assert replica.evictor.history().evictions == ()
    assert not replica.extender.held


def test_a_target_that_cannot_take_it_any_more_is_node_fit(server: EvictingApi) -> None:
    replica = Replica(server)
    replica.extender.full = {"n5"}
    [attempt] = replica.carry_out(server.pods["shop/web-1"])
    assert attempt.check == "node-fit"


def test_a_step_that_counted_on_one_that_was_not_made_waits_for_the_next_plan(server: EvictingApi) -> None:
    replica = Replica(server, rules=FREE)
    other = server.add("n3", "api")
    server.add("n4", "api")
    first = server.pods["shop/web-1"]
    server.pods["shop/web-1"] = msgspec.structs.replace(first, node="n4")
    attempts = replica.carry_out(first, server.pods["shop/web-2"], other)
    assert [attempt.status for attempt in attempts] == ["failed", "refused", "evicted"]
    assert "an earlier step of its workload" in attempts[1].why


def refusing(*causes: str, retry_after: float | None = None) -> ClusterError:
    return TooManyRequests("not now", retry_after=retry_after, causes=causes)


def test_a_used_up_budget_makes_its_workload_rest_and_others_go_on(server: EvictingApi) -> None:
    replica = Replica(server, rules=FREE)
    other = server.add("n3", "api")
    server.add("n4", "api")
    server.refuse = lambda pod: refusing("DisruptionBudget") if pod.name.startswith("web") else None
    attempts = replica.carry_out(server.pods["shop/web-1"], server.pods["shop/web-2"], other)
    assert [(attempt.status, attempt.check) for attempt in attempts] == [
        ("refused", "pdb"),
        ("refused", "retry"),
        ("evicted", ""),
    ]
    history = replica.evictor.history()
    assert history.backing_off == {KEY: NOW + 60.0}
    assert len(history.evictions) == 1
    [running] = plans(server)
    assert [step["pod"] for step in running["steps"]] == [f"shop/{other.name}"]


@pytest.mark.parametrize("status", [403, 422, 429])
def test_what_a_webhook_refuses_rests_its_workload_and_the_plan_goes_on(server: EvictingApi, status: int) -> None:
    replica = Replica(server, rules=replace(FREE, min_replicas=1))
    error = TooManyRequests if status == 429 else partial(Forbidden, status=status)
    others = [server.add(f"n{i % 5}", f"api-{i}") for i in range(5)]
    pods = [server.pods["shop/web-1"], *others]
    server.refuse = lambda pod: None if pod.name == others[-1].name else error("denied", admission=True)
    attempts = replica.carry_out(*pods)
    assert [(attempt.status, attempt.check) for attempt in attempts] == [("refused", "")] * 5 + [("evicted", "")]
    assert KEY in replica.evictor.history().backing_off
    assert len(replica.evictor.history().evictions) == 1


def test_a_machine_that_moves_by_itself_counts_as_evicted(server: EvictingApi) -> None:
    replica = Replica(server, rules=FREE)
    pod = msgspec.structs.replace(server.pods["shop/web-1"], annotations={EVICTS_ITSELF: ""})
    server.pods["shop/web-1"] = pod
    server.refuse = lambda pod: TooManyRequests("evacuation begins", admission=True)
    [attempt] = replica.carry_out(pod)
    assert attempt.status == "evicted"
    assert KEY not in replica.evictor.history().backing_off


def test_each_refusal_in_a_row_doubles_the_rest(server: EvictingApi) -> None:
    replica = Replica(server, rules=FREE)
    server.refuse = lambda pod: refusing("DisruptionBudget")
    rests = []
    for _ in range(3):
        replica.carry_out(server.pods["shop/web-1"])
        assert plans(server) == []
        rests.append(replica.evictor.history().backing_off[KEY] - server.clock.wall())
        server.clock.advance(rests[-1])
    assert rests == [60.0, 120.0, 240.0]


def test_two_budgets_on_one_pod_are_both_named(server: EvictingApi) -> None:
    chosen = Selector((Requirement("app", "In", ("web",)),))
    budgets = tuple(DisruptionBudget("shop", name, chosen, 5) for name in ("one", "two"))
    replica = Replica(server)
    pod = msgspec.structs.replace(server.pods["shop/web-1"], labels={"app": "web"})
    server.pods["shop/web-1"] = pod
    text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."

    def appears(pod: Any) -> ClusterError:
        return ClusterError(text, status=500)

    server.refuse = appears
    [attempt] = replica.carry_out(pod)
    assert attempt.status == "refused"
    assert text in attempt.why
    replica.budgets = budgets
    server.clock.advance(120)
    [attempt] = replica.carry_out(pod)
    assert attempt.why == "the disruption budgets one and two both cover it, so the API server refuses to evict it"


def test_without_an_answer_nobody_knows_and_nothing_more_is_done(server: EvictingApi) -> None:
    replica = Replica(server, rules=FREE)
    server.refuse = lambda pod: Unreachable("no answer")
    attempts = replica.carry_out(server.pods["shop/web-1"], server.pods["shop/web-2"])
    assert [attempt.status for attempt in attempts] == ["recorded"]
    assert replica.evictor.history().evictions
    server.refuse = lambda pod: None
    replica.follow(29)
    assert replica.recent()[0]["status"] == "recorded"
    replica.follow(2)
    assert replica.recent()[0]["status"] == "failed"
    [attempt] = replica.carry_out(server.pods["shop/web-1"])
    assert attempt.why == "shop/web-1 was evicted already, or it is unknown whether it was"


def test_an_eviction_without_an_answer_that_happened_is_found_out(server: EvictingApi) -> None:
    replica = Replica(server)
    pod = server.pods["shop/web-1"]

    def lost(pod: Any) -> ClusterError:
        server.pods["shop/web-1"] = msgspec.structs.replace(pod, deleting=True)
        return Unreachable("no answer")

    server.refuse = lost
    replica.carry_out(pod)
    replica.follow()
    assert replica.recent()[0]["status"] == "evicted"


def test_a_pause_between_two_steps_stops_the_second(server: EvictingApi) -> None:
    replica = Replica(server, rules=FREE)

    def pausing(pod: Any) -> None:
        replica.paused = "paused by key paused"

    server.refuse = pausing
    attempts = replica.carry_out(server.pods["shop/web-1"], server.pods["shop/web-2"])
    assert [attempt.check for attempt in attempts] == ["", "paused"]


def test_what_cannot_be_written_down_is_not_done(server: EvictingApi) -> None:
    replica = Replica(server)

    def broken(method: str, path: str, body: Any) -> None:
        if method != "GET":
            raise ClusterError("no room", status=507)

    server.before = broken
    [attempt] = replica.carry_out(server.pods["shop/web-1"])
    assert attempt.status == "failed"
    assert "written down" in attempt.why
    assert not server.sent
    assert not replica.extender.held
    assert replica.evictor.history().evictions == ()


def test_nobody_evicts_before_the_state_was_read(server: EvictingApi) -> None:
    server._store(
        "/api/v1/namespaces/ballast/configmaps/ballast-state", {"data": {"eviction.plan": "{half", "schema": "1"}}
    )
    replica = Replica(server)
    [attempt] = replica.carry_out(server.pods["shop/web-1"])
    assert attempt.status == "refused"
    assert "Key eviction.plan of ConfigMap ballast-state cannot be read" in attempt.why
    assert not server.sent


def test_an_eviction_that_cannot_be_sent_soon_is_given_up(server: EvictingApi) -> None:
    """What it was judged by is too old then; what was written down of it is taken back."""
    replica = Replica(server)
    server.after = lambda *_: setattr(replica.writer, "_pace", Pace(server.clock, 0.001, 0))
    [attempt] = replica.carry_out(server.pods["shop/web-1"])
    assert (attempt.status, server.sent) == ("refused", [])
    assert "BALLAST_CLUSTER__QPS" in attempt.why
    assert replica.evictor.history().evictions == ()


def test_a_planner_that_plans_again_after_each_step_takes_one(server: EvictingApi) -> None:
    """A refused step is none."""
    replica = Replica(server, rules=FREE)
    one, two, three, *_ = server.pods.values()
    server.pods["shop/web-1"] = msgspec.structs.replace(one, uid="another", owner=Owner("ReplicaSet", "a", "u-a", True))
    attempts = replica.carry_out(one, two, three, kind="redistribute")
    assert [attempt.status for attempt in attempts] == ["failed", "evicted"]
    assert len(server.sent) == 1
