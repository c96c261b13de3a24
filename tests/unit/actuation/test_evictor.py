"""Evicting step by step, and what is known of it afterwards."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import pytest

from ballast.actuation.eviction.evictor import Evictor
from ballast.actuation.eviction.records import StepRecord
from ballast.actuation.eviction.replacement_reservations import ReplacementReservations
from ballast.errors import ClusterError, Forbidden, TooManyRequests, Unreachable
from ballast.eviction.recent_evictions import STOP_FOR
from ballast.eviction.rules import UNLIMITED, EvictionLimit, GateRules
from ballast.model.marks import EVICTS_ITSELF
from ballast.model.selector import Requirement, Selector
from ballast.model.workload import DisruptionBudget
from tests.unit.actuation.mill import NODES, NOW, ONE, WINDOW, Desk, Mill, Replica

KEY = ("shop", "Deployment", "web")
FREE = GateRules(
    limit_total=UNLIMITED,
    limit_node=UNLIMITED,
    limit_namespace=UNLIMITED,
    limit_workload=UNLIMITED,
    rates=(),
    cooldown=0.0,
    workload_window=0.0,
    max_unavailable=UNLIMITED,
    max_replacements=100,
)


@pytest.fixture
def mill() -> Mill:
    made = Mill()
    for node in NODES[:3] * 2:
        made.add(node)
    return made


def plans(mill: Mill) -> list[Any]:
    found: list[Any] = json.loads(mill.state().get("eviction.plan", "[]"))
    return found


def test_a_step_is_written_down_before_it_is_taken_and_evicts_this_very_pod(mill: Mill) -> None:
    replica = Replica(mill)
    [pod, *_] = mill.pods.values()
    seen: list[Any] = []
    mill.refuse = lambda pod: seen.append((plans(mill), mill.state()["reservations"])) or None  # type: ignore[func-returns-value]
    [attempt] = replica.carry_out(pod)
    assert attempt.evicted
    [([running], reservations)] = seen
    assert [step["pod"] for step in running["steps"]] == ["shop/web-1"]
    assert json.loads(reservations)[0]["node"] == "n5"
    [body] = mill.sent
    assert body["apiVersion"] == "policy/v1"
    assert body["deleteOptions"] == {"preconditions": {"uid": pod.uid}}
    assert body["metadata"]["annotations"] == {"ballast.dev/reason": "rebalance: n0 is too full"}
    assert mill.evicted == {pod.uid: 1}
    assert ("Node n0", "PodEvicted", "shop/web-1, to go to n5: n0 is too full") in replica.told.all
    assert [target for target, *_ in replica.told.all] == ["Node n0", "Deployment shop/web"]


def test_a_grace_period_of_the_settings_replaces_the_pods_own(mill: Mill) -> None:
    replica = Replica(mill, options={"grace_period": 5.0})
    replica.carry_out(mill.pods["shop/web-1"])
    assert mill.sent[0]["deleteOptions"]["gracePeriodSeconds"] == 5


def test_a_replacement_is_followed_until_the_effect_is_measured(mill: Mill) -> None:
    replica = Replica(mill)
    replica.carry_out(mill.pods["shop/web-1"])
    assert replica.evictor.history().awaited == {KEY}
    assert replica.evictor.pending() == {
        "n0": {"cpu": -0.1, "memory": -0.1},
        "n5": {"cpu": 0.1, "memory": 0.1},
    }
    assert replica.desk.held
    [new] = mill.replace_evicted("n5", ready=False)
    assert replica.follow() is None
    assert replica.recent()[0]["status"] == "landed"
    assert not replica.desk.held
    mill.pods[f"shop/{new.name}"] = msgspec.structs.replace(new, ready=True)
    replica.follow()
    [row] = replica.recent()
    assert (row["status"], row["landed_on"], row["ready_at"]) == ("ready", "n5", mill.clock.wall())
    assert replica.evictor.history().awaited == frozenset()
    assert replica.evictor.pending()["n5"]["cpu"] == pytest.approx(0.1 * (1 - 60 / WINDOW))
    replica.loads |= {"n0": 0.41, "n5": 0.58}
    assert replica.follow(WINDOW) == "rebalance of 1 pod: loads changed by 85% of what was predicted"
    [row] = replica.recent()
    assert row["predicted"]["load"] == {"n0": {"cpu": -0.1, "memory": -0.1}, "n5": {"cpu": 0.1, "memory": 0.1}}
    assert row["measured"]["load"]["n0"] == {"cpu": pytest.approx(-0.09), "memory": pytest.approx(-0.09)}
    assert row["measured"]["share"] == pytest.approx(0.85)
    assert "eviction.plan" not in mill.state()
    assert replica.evictor.stopped("rebalance") is None
    assert replica.evictor.pending() == {}


def test_what_changed_everywhere_is_no_effect(mill: Mill) -> None:
    replica = Replica(mill)
    replica.carry_out(mill.pods["shop/web-1"])
    mill.replace_evicted("n5")
    replica.follow()
    replica.loads = dict.fromkeys(NODES, 0.7) | {"n0": 0.6, "n5": 0.8}
    assert replica.follow(WINDOW) == "rebalance of 1 pod: loads changed by 100% of what was predicted"


def test_a_plan_without_effect_stops_its_planner_for_a_while(mill: Mill) -> None:
    replica = Replica(mill)
    replica.carry_out(mill.pods["shop/web-1"])
    mill.replace_evicted("n5")
    replica.follow()
    replica.follow(WINDOW)
    why = replica.evictor.stopped("rebalance")
    assert why == "rebalance is stopped for a while: loads changed by 0% of what was predicted"
    assert replica.evictor.stopped("relieve") is None
    replica.follow(1200)
    [attempt] = replica.carry_out(mill.pods["shop/web-2"])
    assert (attempt.status, attempt.why) == ("refused", why)
    assert Replica(mill).evictor.carry_out is not None
    after = Replica(mill)
    after.evictor.resume()
    assert after.evictor.stopped("rebalance") == why
    mill.clock.advance(STOP_FOR)
    assert after.evictor.stopped("rebalance") is None


def test_relief_without_effect_is_remembered_by_node_and_cause(mill: Mill) -> None:
    replica = Replica(mill)
    replica.carry_out(mill.pods["shop/web-1"], kind="relieve")
    mill.replace_evicted("n5")
    replica.follow()
    replica.follow(WINDOW)
    assert replica.evictor.stopped("relieve") is None
    after = Replica(mill)
    after.evictor.resume()
    [(node, cause)] = after.evictor.history().ineffective
    assert (node, cause) == ("n0", "cpu")


def test_a_replacement_that_does_not_become_ready_stops_the_planner(mill: Mill) -> None:
    replica = Replica(mill)
    replica.carry_out(mill.pods["shop/web-1"])
    mill.replace_evicted("n5", ready=False)
    replica.follow()
    assert replica.follow(301) == ("rebalance stops: the replacement of shop/web-1 on n5 was not Ready within 300 s")
    assert replica.recent()[0]["status"] == "stopped"
    assert replica.evictor.stopped("rebalance")
    assert KEY in replica.evictor.history().backing_off
    assert ("Deployment shop/web", "ReplacementLate") in [told[:2] for told in replica.told.all]


def test_the_deadline_counts_from_the_end_of_the_evicted_pod(mill: Mill) -> None:
    replica = Replica(mill)
    replica.carry_out(mill.pods["shop/web-1"])
    for _ in range(20):
        assert replica.follow(60) is None
    [held] = replica.desk.held.values()
    assert held.until > mill.clock.wall()
    mill.replace_evicted("n5")
    replica.follow()
    assert replica.recent()[0]["status"] == "ready"


def test_a_pod_that_never_ends_holds_no_room_for_ever(mill: Mill) -> None:
    replica = Replica(mill)
    replica.carry_out(mill.pods["shop/web-1"])
    assert replica.follow(3599) is None
    assert replica.desk.held
    told = replica.follow(2)
    assert told is not None
    assert told.startswith("rebalance stops: shop/web-1 has not ended within 60 minutes")
    assert not replica.desk.held
    assert replica.evictor.history().replacements == 0


def test_who_may_not_be_evicted_rests_and_others_go_on_but_not_for_long(mill: Mill) -> None:
    replica = Replica(mill, rules=FREE)
    pods = [mill.add(node, f"app{number}") for number in range(6) for node in ("n1", "n0")][1::2]
    mill.refuse = lambda pod: ClusterError("forbidden", status=403) if pod.name < "app4" else None
    told = [(attempt.status, attempt.why) for attempt in replica.carry_out(*pods)]
    assert told == [("refused", "forbidden")] * 3
    assert {key[2] for key in replica.evictor.history().backing_off} == {"app0", "app1", "app2"}
    mill.clock.advance(1)
    told = [(attempt.status, attempt.check) for attempt in replica.carry_out(*pods)]
    assert told == [("refused", "retry")] * 3 + [("refused", "")] + [("evicted", "")] * 2


def test_a_probe_of_a_pod_that_nobody_replaces_does_not_end_all_probes(mill: Mill) -> None:
    replica = Replica(mill, rules=FREE)
    replica.desk.asked_at = {}
    bare = mill.add("n0", owner=None, annotations={"ballast.dev/evict": "true"})
    [attempt] = replica.carry_out(bare)
    assert attempt.evicted
    del mill.pods[f"shop/{bare.name}"]
    replica.follow()
    assert replica.landing.may_probe("default-scheduler")


def test_a_replacement_that_came_back_makes_its_workload_a_loop(mill: Mill) -> None:
    replica = Replica(mill, rules=FREE)
    replica.carry_out(mill.pods["shop/web-1"])
    mill.replace_evicted("n0")
    assert replica.follow() == "the replacement of shop/web-1 went back to n0"
    assert replica.evictor.history().looping == {KEY}
    [attempt] = replica.carry_out(mill.pods["shop/web-2"])
    assert attempt.check == "loop"
    after = Replica(mill)
    after.evictor.resume()
    assert after.evictor.history().looping == {KEY}


def test_a_workload_that_was_moved_twice_is_left_alone(mill: Mill) -> None:
    replica = Replica(mill, rules=GateRules(cooldown=0.0, workload_window=60.0, rates=()))
    for name in ("shop/web-1", "shop/web-2"):
        [attempt] = replica.carry_out(mill.pods[name])
        assert attempt.evicted, attempt
        mill.replace_evicted("n5")
        replica.follow(120)
    [attempt] = replica.carry_out(mill.pods["shop/web-3"])
    assert attempt.check == "loop"


def test_a_pod_of_another_uid_or_on_another_node_is_not_evicted(mill: Mill) -> None:
    replica = Replica(mill, rules=FREE)
    one, two, three, *_ = list(mill.pods.values())
    mill.pods["shop/web-1"] = msgspec.structs.replace(one, uid="another")
    mill.pods["shop/web-2"] = msgspec.structs.replace(two, node="n4")
    del mill.pods["shop/web-3"]
    attempts = replica.carry_out(one, two, three)
    assert [attempt.why for attempt in attempts] == [
        "another pod is called shop/web-1 now",
        "shop/web-2 is not on n1 any more",
        "shop/web-3 is gone",
    ]
    assert not mill.sent
    assert mill.state() == {}


def test_the_server_refuses_a_pod_whose_uid_changed_after_the_last_look(mill: Mill) -> None:
    replica = Replica(mill)
    pod = mill.pods["shop/web-1"]
    mill.before = lambda method, path, body: mill.pods.update({"shop/web-1": msgspec.structs.replace(pod, uid="x")})
    [attempt] = replica.carry_out(pod)
    assert attempt.status == "failed"
    assert not mill.evicted
    assert replica.evictor.history().evictions == ()
    assert not replica.desk.held


def test_a_target_that_cannot_take_it_any_more_is_node_fit(mill: Mill) -> None:
    replica = Replica(mill)
    replica.desk.full = {"n5"}
    [attempt] = replica.carry_out(mill.pods["shop/web-1"])
    assert attempt.check == "node-fit"


def refusing(*causes: str, retry_after: float | None = None) -> ClusterError:
    return TooManyRequests("not now", retry_after=retry_after, causes=causes)


def test_a_used_up_budget_makes_its_workload_rest_and_others_go_on(mill: Mill) -> None:
    replica = Replica(mill, rules=FREE)
    other = mill.add("n3", "api")
    mill.add("n4", "api")
    mill.refuse = lambda pod: refusing("DisruptionBudget") if pod.name.startswith("web") else None
    attempts = replica.carry_out(mill.pods["shop/web-1"], mill.pods["shop/web-2"], other)
    assert [(attempt.status, attempt.check) for attempt in attempts] == [
        ("refused", "pdb"),
        ("refused", "retry"),
        ("evicted", ""),
    ]
    history = replica.evictor.history()
    assert history.backing_off == {KEY: NOW + 60.0}
    assert len(history.evictions) == 1
    [running] = plans(mill)
    assert [step["pod"] for step in running["steps"]] == [f"shop/{other.name}"]


@pytest.mark.parametrize("status", [403, 422, 429])
def test_what_a_webhook_refuses_rests_its_workload_and_the_plan_goes_on(mill: Mill, status: int) -> None:
    replica = Replica(mill, rules=replace(FREE, min_replicas=1))
    error = TooManyRequests if status == 429 else partial(Forbidden, status=status)
    others = [mill.add(f"n{i % 5}", f"api-{i}") for i in range(5)]
    pods = [mill.pods["shop/web-1"], *others]
    mill.refuse = lambda pod: None if pod.name == others[-1].name else error("denied", admission=True)
    attempts = replica.carry_out(*pods)
    assert [(attempt.status, attempt.check) for attempt in attempts] == [("refused", "")] * 5 + [("evicted", "")]
    assert KEY in replica.evictor.history().backing_off
    assert len(replica.evictor.history().evictions) == 1


def test_a_machine_that_moves_by_itself_counts_as_evicted(mill: Mill) -> None:
    replica = Replica(mill, rules=FREE)
    pod = msgspec.structs.replace(mill.pods["shop/web-1"], annotations={EVICTS_ITSELF: ""})
    mill.pods["shop/web-1"] = pod
    mill.refuse = lambda pod: TooManyRequests("evacuation begins", admission=True)
    [attempt] = replica.carry_out(pod)
    assert attempt.status == "evicted"
    assert KEY not in replica.evictor.history().backing_off


def test_each_refusal_in_a_row_doubles_the_rest(mill: Mill) -> None:
    replica = Replica(mill, rules=FREE)
    mill.refuse = lambda pod: refusing("DisruptionBudget")
    rests = []
    for _ in range(3):
        replica.carry_out(mill.pods["shop/web-1"])
        assert plans(mill) == []
        rests.append(replica.evictor.history().backing_off[KEY] - mill.clock.wall())
        mill.clock.advance(rests[-1])
    assert rests == [60.0, 120.0, 240.0]


def test_two_budgets_on_one_pod_are_both_named(mill: Mill) -> None:
    chosen = Selector((Requirement("app", "In", ("web",)),))
    budgets = tuple(DisruptionBudget("shop", name, chosen, 5) for name in ("one", "two"))
    replica = Replica(mill)
    pod = msgspec.structs.replace(mill.pods["shop/web-1"], labels={"app": "web"})
    mill.pods["shop/web-1"] = pod
    text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."

    def appears(pod: Any) -> ClusterError:
        return ClusterError(text, status=500)

    mill.refuse = appears
    [attempt] = replica.carry_out(pod)
    assert attempt.status == "refused"
    assert text in attempt.why
    replica.budgets = budgets
    mill.clock.advance(120)
    [attempt] = replica.carry_out(pod)
    assert attempt.why == "the disruption budgets one and two both cover it, so the API server refuses to evict it"


def test_without_an_answer_nobody_knows_and_nothing_more_is_done(mill: Mill) -> None:
    replica = Replica(mill, rules=FREE)
    mill.refuse = lambda pod: Unreachable("no answer")
    attempts = replica.carry_out(mill.pods["shop/web-1"], mill.pods["shop/web-2"])
    assert [attempt.status for attempt in attempts] == ["recorded"]
    assert replica.evictor.history().evictions
    mill.refuse = lambda pod: None
    replica.follow(31)
    assert replica.recent()[0]["status"] == "failed"
    [attempt] = replica.carry_out(mill.pods["shop/web-1"])
    assert attempt.why == "shop/web-1 was evicted already, or it is unknown whether it was"


def test_an_eviction_without_an_answer_that_happened_is_found_out(mill: Mill) -> None:
    replica = Replica(mill)
    pod = mill.pods["shop/web-1"]

    def lost(pod: Any) -> ClusterError:
        mill.pods["shop/web-1"] = msgspec.structs.replace(pod, deleting=True)
        return Unreachable("no answer")

    mill.refuse = lost
    replica.carry_out(pod)
    replica.follow()
    assert replica.recent()[0]["status"] == "evicted"


def test_a_pause_between_two_steps_stops_the_second(mill: Mill) -> None:
    replica = Replica(mill, rules=FREE)

    def pausing(pod: Any) -> None:
        replica.paused = "paused by key paused"

    mill.refuse = pausing
    attempts = replica.carry_out(mill.pods["shop/web-1"], mill.pods["shop/web-2"])
    assert [attempt.check for attempt in attempts] == ["", "paused"]


def test_what_cannot_be_written_down_is_not_done(mill: Mill) -> None:
    replica = Replica(mill)

    def broken(method: str, path: str, body: Any) -> None:
        if method != "GET":
            raise ClusterError("no room", status=507)

    mill.before = broken
    [attempt] = replica.carry_out(mill.pods["shop/web-1"])
    assert attempt.status == "failed"
    assert "written down" in attempt.why
    assert not mill.sent
    assert not replica.desk.held
    assert replica.evictor.history().evictions == ()


def test_nobody_evicts_before_the_state_was_read(mill: Mill) -> None:
    mill._store(
        "/api/v1/namespaces/ballast/configmaps/ballast-state", {"data": {"eviction.plan": "{half", "schema": "1"}}
    )
    replica = Replica(mill)
    [attempt] = replica.carry_out(mill.pods["shop/web-1"])
    assert attempt.status == "refused"
    assert "Key eviction.plan of ConfigMap ballast-state cannot be read" in attempt.why
    assert not mill.sent


def test_limits_of_hours_and_days_survive_a_restart(mill: Mill) -> None:
    rules = GateRules(rates=((EvictionLimit(2), 3600.0),), cooldown=0.0, workload_window=0.0, limit_workload=UNLIMITED)
    for name in ("shop/web-1", "shop/web-2", "shop/web-3"):
        replica = Replica(mill, rules=rules)
        replica.evictor.resume()
        [attempt] = replica.carry_out(mill.pods[name])
        assert attempt.evicted or attempt.check == "rate"
        mill.replace_evicted("n5")
        replica.follow()
    assert sum(mill.evicted.values()) == 2


def test_steps_of_one_plan_are_judged_as_they_were_planned(mill: Mill) -> None:
    """Its own replacements on the way hold no later step of it back, the limits of a cycle do."""
    replica = Replica(
        mill,
        rules=GateRules(
            limit_namespace=UNLIMITED, limit_workload=EvictionLimit(3), max_unavailable=EvictionLimit(4), rates=()
        ),
    )
    attempts = replica.carry_out(*[mill.pods[f"shop/web-{number}"] for number in (1, 2, 3, 4)])
    assert [attempt.check for attempt in attempts] == ["", "", "", "limit-node"]


def test_a_redistribution_evicts_one_and_holds_the_room_for_those_that_wait(mill: Mill) -> None:
    replica = Replica(mill, rules=FREE, options={"nominate": True})
    first = mill.add("", "batch", phase="Pending", ready=False, waiting_since=NOW - 100, created=NOW - 200)
    mill.objects[f"/api/v1/namespaces/shop/pods/{first.name}/status"] = {"metadata": {"name": first.name}}
    attempts = replica.carry_out(mill.pods["shop/web-1"], mill.pods["shop/web-2"], kind="redistribute", starts=(first,))
    assert [attempt.status for attempt in attempts] == ["evicted"]
    assert {(each.node, each.purpose.value) for each in replica.desk.standing()} == {
        ("n5", "replacement"),
        ("n0", "waiting"),
    }
    patches = [(path, body) for method, path, body in mill.requests if method == "PATCH"]
    assert patches == [
        (
            f"/api/v1/namespaces/shop/pods/{first.name}/status",
            {"metadata": {"uid": first.uid}, "status": {"nominatedNodeName": "n0"}},
        )
    ]
    mill.pods[f"shop/{first.name}"] = msgspec.structs.replace(first, node="n0", scheduled_at=NOW)
    mill.replace_evicted("n5")
    assert replica.follow() == "redistribute started 1 of 1 waiting pods"


def test_a_redistribution_that_starts_nobody_stops(mill: Mill) -> None:
    replica = Replica(mill)
    first = mill.add("", "batch", phase="Pending", ready=False, waiting_since=NOW - 100, created=NOW - 200)
    replica.carry_out(mill.pods["shop/web-1"], kind="redistribute", starts=(first,))
    mill.replace_evicted("n5")
    assert replica.follow() is None
    told = replica.follow(301)
    assert told == "redistribute started 0 of 1 waiting pods"
    assert replica.evictor.stopped("redistribute")


def test_one_probe_shows_whether_the_landing_is_steered(mill: Mill) -> None:
    replica = Replica(mill, rules=FREE)
    replica.desk.asked_at = {}
    assert replica.landing.names(["default-scheduler"]) == {"default-scheduler"}
    attempts = replica.carry_out(mill.pods["shop/web-1"], mill.pods["shop/web-2"])
    assert [(attempt.status, attempt.check) for attempt in attempts] == [("evicted", ""), ("refused", "reservation")]
    assert not replica.landing.may_probe("default-scheduler")
    mill.replace_evicted("n5")
    replica.desk.asked_at = {"default-scheduler": mill.clock.monotonic()}
    replica.follow()
    assert replica.landing.steered("default-scheduler")
    assert replica.landing.failed == {}


def test_a_probe_that_landed_unseen_is_the_last_for_a_day_also_after_a_restart(mill: Mill) -> None:
    replica = Replica(mill, rules=FREE)
    replica.desk.asked_at = {}
    replica.carry_out(mill.pods["shop/web-1"])
    mill.replace_evicted("n3")
    replica.follow()
    assert replica.landing.names(["default-scheduler"]) == frozenset()
    after = Replica(mill)
    after.desk.asked_at = {}
    after.evictor.resume()
    assert after.landing.names(["default-scheduler"]) == frozenset()
    mill.clock.advance(86_401)
    assert after.landing.may_probe("default-scheduler")


def test_a_step_without_a_target_reserves_nothing(mill: Mill) -> None:
    replica = Replica(mill)
    replica.desk.asked_at = {}
    [attempt] = replica.carry_out(mill.pods["shop/web-1"], to=None, kind="relieve")
    assert attempt.evicted
    assert not replica.desk.held
    assert replica.evictor.pending() == {"n0": {"cpu": -0.1, "memory": -0.1}}


def test_room_is_held_over_two_looks_at_what_became_of_it(mill: Mill) -> None:
    held = [
        ReplacementReservations(Desk(mill.clock), mill.clock, interval=interval).wanted(
            StepRecord("shop/a", "u", "n0", NOW, target="n5", owner="o"), mill.pods["shop/web-1"], ()
        )[0]
        for interval in (1.0, 60.0, 600.0, 86_400.0)
    ]
    assert [each.until - NOW for each in held] == [120, 120, 1200, 1800]


def test_the_document_shows_what_is_held(mill: Mill) -> None:
    replica = Replica(mill)
    replica.carry_out(mill.pods["shop/web-1"])
    found = replica.evictor.document({"rate": "20/1h"}, "too many nodes are not Ready")
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


def test_a_new_leader_holds_the_reservations_of_the_one_before(mill: Mill) -> None:
    before = Replica(mill)
    before.carry_out(mill.pods["shop/web-1"])
    after = Replica(mill)
    assert after.evictor.resume() == "took over 1 evictions that are not finished"
    assert [(each.name, each.node, each.until) for each in after.desk.standing()] == [
        (each.name, each.node, each.until) for each in before.desk.standing()
    ]
    assert after.evictor.history() == before.evictor.history()
    assert isinstance(after.evictor, Evictor)


def test_in_dry_run_everything_is_judged_and_nothing_is_written(mill: Mill) -> None:
    real = Mill()
    for node in NODES[:3] * 2:
        real.add(node)
    rules = GateRules(rates=())
    wanted = [f"shop/web-{number}" for number in (1, 2, 3)]
    dry, wet = Replica(mill, rules=rules, options={"acts": False}), Replica(real, rules=rules)
    would = dry.carry_out(*[mill.pods[name] for name in wanted])
    did = wet.carry_out(*[real.pods[name] for name in wanted])
    assert [attempt.status for attempt in would] == ["dry-run", "refused", "refused"]
    assert [(attempt.check, attempt.permitted) for attempt in would] == [
        (attempt.check, attempt.permitted) for attempt in did
    ]
    assert mill.writes == []
    assert dry.recent() == []
    assert not dry.desk.held
    assert dry.landing.names(["default-scheduler"])


def test_a_sibling_that_came_shortly_before_is_no_replacement(mill: Mill) -> None:
    replica = Replica(mill, rules=FREE)
    young = mill.add("n4", created=NOW - 2)
    replica.follow(1)
    replica.carry_out(mill.pods["shop/web-1"])
    replica.follow(1)
    assert replica.recent()[0]["landed_on"] is None
    [new] = mill.replace_evicted("n5")
    replica.follow(1)
    assert replica.recent()[0]["landed_on"] == new.node != young.node


def test_only_so_many_are_followed_at_a_time(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ballast.actuation.eviction.evictor.FOLLOWED", 2)
    replica = Replica(mill, rules=FREE)
    attempts = replica.carry_out(*mill.pods.values())
    assert [attempt.why for attempt in attempts] == ["", "", "2 evictions are still being followed"]


def test_what_is_written_down_of_the_most_evictions_fits_into_a_config_map(mill: Mill) -> None:
    replica = Replica(mill, rules=FREE)
    pods = [mill.add("n0", f"workload-with-a-long-name-{number}", created=NOW - 9999) for number in range(40)]
    replica.rules = GateRules(**{**FREE.__dict__, "min_replicas": 0})
    attempts = replica.carry_out(*pods)
    assert all(attempt.evicted for attempt in attempts)
    assert len(mill.state()["eviction.plan"]) / len(pods) * 500 < 600_000
