"""Evicting step by step, and what is known of it afterwards."""

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from ballast.actuation.eviction.evictor import patience
from ballast.base.errors import ClusterError
from ballast.eviction.gate_rules import UNLIMITED, EvictionLimit, GateRules
from ballast.eviction.recent_evictions import STOP_FOR
from tests.worlds.evicting import FREE, KEY, NODES, NOW, WINDOW, EvictingApi, Replica, plans

EFFECT = "rebalance of 1 pod: what replaced them uses 90% of what was predicted (between 0% and 181%)"


@pytest.fixture
def replica(server: EvictingApi) -> Replica:
    return Replica(server)


def test_a_step_is_written_down_before_it_is_taken_and_evicts_this_very_pod(server: EvictingApi) -> None:
    replica = Replica(server)
    [pod, *_] = server.pods.values()
    seen: list[Any] = []
    server.refuse = lambda pod: seen.append((plans(server), server.state()["reservations"])) or None  # type: ignore[func-returns-value]
    [attempt] = replica.carry_out(pod)
    assert attempt.evicted
    [([running], reservations)] = seen
    assert [step["pod"] for step in running["steps"]] == ["shop/web-1"]
    assert json.loads(reservations)[0]["node"] == "n5"
    [body] = server.sent
    assert body["apiVersion"] == "policy/v1"
    assert body["deleteOptions"] == {"preconditions": {"uid": pod.uid}}
    assert body["metadata"]["annotations"] == {"ballast.dev/reason": "rebalance: n0 is too full"}
    assert server.evicted == {pod.uid: 1}
    assert ("Node n0", "PodEvicted", "shop/web-1, to go to n5: n0 is too full") in replica.told.all
    assert [target for target, *_ in replica.told.all] == ["Node n0", "Deployment shop/web"]


def test_a_grace_period_of_the_settings_replaces_the_pods_own(server: EvictingApi) -> None:
    replica = Replica(server, options={"grace_period": 5.0})
    replica.carry_out(server.pods["shop/web-1"])
    assert server.sent[0]["deleteOptions"]["gracePeriodSeconds"] == 5


def test_a_replacement_is_followed_until_the_effect_is_measured(replica: Replica, server: EvictingApi) -> None:
    replica.carry_out(server.pods["shop/web-1"])
    assert replica.evictor.history().awaited == {KEY}
    assert replica.evictor.pending() == {"n0": {"cpu": -0.1, "memory": -0.1}, "n5": {"cpu": 0.1, "memory": 0.1}}
    assert replica.extender.held
    [new] = server.replace_evicted("n5", ready=False)
    assert replica.follow() is None
    assert replica.recent()[0]["status"] == "landed"
    assert not replica.extender.held
    server.pods[f"shop/{new.name}"] = msgspec.structs.replace(new, ready=True)
    replica.follow()
    [row] = replica.recent()
    assert (row["status"], row["landed_on"], row["ready_at"]) == ("ready", "n5", server.clock.wall())
    assert replica.evictor.history().awaited == frozenset()
    assert replica.evictor.pending()["n5"]["cpu"] == pytest.approx(0.1 * (1 - 60 / WINDOW))
    replica.loads |= {"n0": 0.41, "n5": 0.59}
    replica.use = 0.9
    assert replica.follow(WINDOW) == EFFECT
    [row] = replica.recent()
    assert row["predicted"]["load"] == {"n0": {"cpu": -0.1, "memory": -0.1}, "n5": {"cpu": 0.1, "memory": 0.1}}
    assert row["measured"]["load"]["n0"] == {"cpu": pytest.approx(-0.09), "memory": pytest.approx(-0.09)}
    assert [row["measured"][key] for key in ("share", "low", "high")] == pytest.approx([0.9, 0.0, 1.806])
    assert "eviction.plan" not in server.state()
    assert replica.evictor.stopped("rebalance") is None
    assert replica.evictor.pending() == {}


def test_an_effect_is_judged_once_the_pod_has_ended_however_long_that_takes(
    replica: Replica, server: EvictingApi
) -> None:
    replica.carry_out(server.pods["shop/web-1"])
    ending = server.pods["shop/web-1"]
    server.replace_evicted("n5")
    server.pods["shop/web-1"] = ending
    replica.follow()
    assert replica.recent()[0]["status"] == "ready"
    assert replica.follow(WINDOW) is None
    assert replica.evictor.pending() == {"n0": {"cpu": -0.1, "memory": -0.1}, "n5": {"cpu": 0.0, "memory": 0.0}}
    del server.pods["shop/web-1"]
    replica.use = 0.9
    assert replica.follow() is None
    assert replica.evictor.pending()["n0"]["cpu"] == pytest.approx(-0.1)
    assert "uses 100%" in (replica.follow(WINDOW) or "")
    assert replica.evictor.stopped("rebalance") is None


def test_a_clock_that_was_turned_back_keeps_no_plan_open(replica: Replica, server: EvictingApi) -> None:
    replica.carry_out(server.pods["shop/web-1"])
    server.replace_evicted("n5")
    server.clock.step_wall(3600)
    replica.follow()
    server.clock.step_wall(-3600)
    replica.follow()
    [row] = replica.recent()
    assert row["ready_at"] == server.clock.wall()
    replica.use = 0.9
    assert replica.follow(WINDOW) == EFFECT
    assert "eviction.plan" not in server.state()
    assert replica.evictor.history().restarts[KEY] <= WINDOW


def test_what_nodes_do_by_themselves_is_no_effect(replica: Replica, server: EvictingApi) -> None:
    replica.carry_out(server.pods["shop/web-1"])
    server.replace_evicted("n5")
    replica.follow()
    replica.loads, replica.use = dict.fromkeys(NODES, 0.7) | {"n0": 0.1}, 0.2
    for _ in range(3):
        replica.follow(WINDOW / 4)
    assert "uses 20% of what was predicted (between 15% and 25%)" in (replica.follow(WINDOW / 4) or "")
    [row] = replica.recent()
    low = 0.2 * 0.97 - 0.06 * 0.8
    assert [row["measured"][key] for key in ("share", "low")] == pytest.approx([0.2, low])


def test_a_replacement_without_a_sample_has_no_share(replica: Replica, server: EvictingApi) -> None:
    replica.use = None
    replica.carry_out(server.pods["shop/web-1"])
    server.replace_evicted("n5")
    replica.follow()
    assert replica.follow(WINDOW) == "rebalance of 1 pod: what replaced them was not measured"
    [row] = replica.recent()
    assert row["measured"]["share"] is None
    assert "low" not in row["measured"]
    assert replica.evictor.stopped("rebalance") is None


def test_a_plan_without_effect_stops_its_planner_for_a_while(replica: Replica, server: EvictingApi) -> None:
    replica.carry_out(server.pods["shop/web-1"])
    server.replace_evicted("n5")
    replica.follow()
    replica.use = 0.0
    replica.follow(WINDOW)
    why = replica.evictor.stopped("rebalance")
    effect = "what replaced them uses 0% of what was predicted (between 0% and 6%)"
    assert why == f"rebalance is stopped for a while: {effect}"
    assert replica.evictor.stopped("relieve") is None
    replica.follow(1200)
    [attempt] = replica.carry_out(server.pods["shop/web-2"])
    assert (attempt.status, attempt.why) == ("refused", why)
    assert Replica(server).evictor.carry_out is not None
    after = Replica(server)
    after.evictor.recorder.resume()
    assert after.evictor.stopped("rebalance") == why
    server.clock.advance(STOP_FOR)
    assert after.evictor.stopped("rebalance") is None


def test_a_replacement_of_a_slow_workload_is_late_later(server: EvictingApi) -> None:
    replica = Replica(server, starts_within=900.0)
    replica.carry_out(server.pods["shop/web-1"])
    server.replace_evicted("n5", ready=False)
    replica.follow()
    replica.follow(840)
    assert replica.recent()[0]["status"] == "landed"
    assert "was not Ready within 900 s" in (replica.follow(120) or "")


def test_thrice_what_earlier_replacements_took_is_not_late(replica: Replica, server: EvictingApi) -> None:
    gate = replica.gate(restarts={KEY: 200.0})
    assert patience(server.pods["shop/web-1"], gate.facts, gate.history) == 600.0
    assert patience(server.pods["shop/web-1"], gate.facts, replica.gate().history) == 0.0


def test_relief_without_effect_is_remembered_by_node_and_cause(replica: Replica, server: EvictingApi) -> None:
    replica.carry_out(server.pods["shop/web-1"], kind="relieve")
    server.replace_evicted("n5")
    replica.follow()
    replica.use = 0.1
    replica.follow(WINDOW)
    assert replica.evictor.stopped("relieve") is None
    after = Replica(server)
    after.evictor.recorder.resume()
    [(node, cause)] = after.evictor.history().ineffective
    assert (node, cause) == ("n0", "cpu")


def test_a_late_replacement_rests_its_workload_and_not_the_planner(replica: Replica, server: EvictingApi) -> None:
    replica.carry_out(server.pods["shop/web-1"])
    server.replace_evicted("n5", ready=False)
    replica.follow()
    assert replica.follow(301) == (
        "the replacement of shop/web-1 on n5 was not Ready within 300 s; its workload is left alone for an hour"
    )
    assert replica.recent()[0]["status"] == "stopped"
    assert replica.evictor.stopped("rebalance") is None
    assert replica.evictor.history().backing_off[KEY] == server.clock.wall() + STOP_FOR
    assert ("Deployment shop/web", "ReplacementLate") in [told[:2] for told in replica.told.all]


def test_the_deadline_counts_from_the_end_of_the_evicted_pod(replica: Replica, server: EvictingApi) -> None:
    replica.carry_out(server.pods["shop/web-1"])
    for _ in range(20):
        assert replica.follow(60) is None
    [held] = replica.extender.held.values()
    assert held.until > server.clock.wall()
    server.replace_evicted("n5")
    replica.follow()
    assert replica.recent()[0]["status"] == "ready"


def test_a_pod_that_never_ends_holds_no_room_for_ever(replica: Replica, server: EvictingApi) -> None:
    replica.carry_out(server.pods["shop/web-1"])
    assert replica.follow(3599) is None
    assert replica.extender.held
    told = replica.follow(2)
    assert told is not None
    assert told.startswith("shop/web-1 has not ended within 60 minutes; its workload is left alone for an hour")
    assert not replica.extender.held
    assert replica.evictor.history().replacements == 0


def test_who_may_not_be_evicted_rests_and_others_go_on_but_not_for_long(server: EvictingApi) -> None:
    replica = Replica(server, rules=FREE)
    pods = [server.add(node, f"app{number}") for number in range(6) for node in ("n1", "n0")][1::2]
    server.refuse = lambda pod: ClusterError("forbidden", status=403) if pod.name < "app4" else None
    told = [(attempt.status, attempt.why) for attempt in replica.carry_out(*pods)]
    assert told == [("refused", "forbidden")] * 3
    assert {key[2] for key in replica.evictor.history().backing_off} == {"app0", "app1", "app2"}
    server.clock.advance(1)
    told = [(attempt.status, attempt.check) for attempt in replica.carry_out(*pods)]
    assert told == [("refused", "retry")] * 3 + [("refused", "")] + [("evicted", "")] * 2


def test_a_probe_of_a_pod_that_nobody_replaces_does_not_end_all_probes(server: EvictingApi) -> None:
    replica = Replica(server, rules=FREE)
    replica.extender.asked_at = {}
    bare = server.add("n0", owner=None, annotations={"ballast.dev/evict": "true"})
    [attempt] = replica.carry_out(bare)
    assert attempt.evicted
    del server.pods[f"shop/{bare.name}"]
    replica.follow()
    assert replica.replacements.may_probe("default-scheduler")


def test_a_replacement_that_came_back_makes_its_workload_stay_on_that_node(server: EvictingApi) -> None:
    replica = Replica(server, rules=replace(FREE, min_pod_age=0.0))
    replica.carry_out(server.pods["shop/web-1"])
    [back] = server.replace_evicted("n0")
    assert replica.follow() == "the replacement of shop/web-1 went back to n0"
    assert replica.evictor.history().looping.keys() == {(KEY, "n0")}
    [attempt] = replica.carry_out(back)
    assert attempt.check == "loop"
    [attempt] = replica.carry_out(server.pods["shop/web-2"])
    assert attempt.evicted, "it is on another node"
    after = Replica(server)
    after.evictor.recorder.resume()
    assert after.evictor.history().looping.keys() == {(KEY, "n0")}


def test_a_workload_may_be_moved_again_and_again(server: EvictingApi) -> None:
    replica = Replica(server, rules=GateRules(cooldown=0.0, workload_window=60.0, rates=()))
    for name in ("shop/web-1", "shop/web-2", "shop/web-3"):
        [attempt] = replica.carry_out(server.pods[name])
        assert attempt.evicted, attempt
        server.replace_evicted("n5")
        replica.follow(120)


def test_limits_of_hours_and_days_survive_a_restart(server: EvictingApi) -> None:
    rules = GateRules(rates=((EvictionLimit(2), 3600.0),), cooldown=0.0, workload_window=0.0, limit_workload=UNLIMITED)
    for name in ("shop/web-1", "shop/web-2", "shop/web-3"):
        replica = Replica(server, rules=rules)
        replica.evictor.recorder.resume()
        [attempt] = replica.carry_out(server.pods[name])
        assert attempt.evicted or attempt.check == "rate"
        server.replace_evicted("n5")
        replica.follow()
    assert sum(server.evicted.values()) == 2


def test_steps_of_one_plan_are_judged_as_they_were_planned(server: EvictingApi) -> None:
    """Its own replacements on the way hold no later step of it back, the limits of a cycle do."""
    replica = Replica(
        server,
        rules=GateRules(
            limit_namespace=UNLIMITED, limit_workload=EvictionLimit(3), max_unavailable=EvictionLimit(4), rates=()
        ),
    )
    attempts = replica.carry_out(*[server.pods[f"shop/web-{number}"] for number in (1, 2, 3, 4)])
    assert [attempt.check for attempt in attempts] == ["", "", "", "limit-node"]


def test_in_dry_run_everything_is_judged_and_nothing_is_written(server: EvictingApi) -> None:
    real = EvictingApi()
    for node in NODES[:3] * 2:
        real.add(node)
    rules = GateRules(rates=())
    wanted = [f"shop/web-{number}" for number in (1, 2, 3)]
    dry, wet = Replica(server, rules=rules, options={"acts": False}), Replica(real, rules=rules)
    would = dry.carry_out(*[server.pods[name] for name in wanted])
    did = wet.carry_out(*[real.pods[name] for name in wanted])
    assert [attempt.status for attempt in would] == ["dry-run", "refused", "refused"]
    assert [(attempt.check, attempt.permitted) for attempt in would] == [
        (attempt.check, attempt.permitted) for attempt in did
    ]
    assert server.writes == []
    assert dry.recent() == []
    assert not dry.extender.held
    assert dry.replacements.names(["default-scheduler"])


def test_a_sibling_that_came_shortly_before_is_no_replacement(server: EvictingApi) -> None:
    replica = Replica(server, rules=FREE)
    young = server.add("n4", created=NOW - 2)
    replica.follow(1)
    replica.carry_out(server.pods["shop/web-1"])
    replica.follow(1)
    assert replica.recent()[0]["landed_on"] is None
    [new] = server.replace_evicted("n5")
    replica.follow(1)
    assert replica.recent()[0]["landed_on"] == new.node != young.node


def test_only_so_many_are_followed_at_a_time(server: EvictingApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ballast.actuation.eviction.evictor.FOLLOWED", 2)
    replica = Replica(server, rules=FREE)
    attempts = replica.carry_out(*server.pods.values())
    assert [attempt.why for attempt in attempts] == ["", "", "2 evictions are still being followed"]


def test_what_is_written_down_of_the_most_evictions_fits_into_a_config_map(server: EvictingApi) -> None:
    replica = Replica(server, rules=FREE)
    pods = [server.add("n0", f"workload-with-a-long-name-{number}", created=NOW - 9999) for number in range(40)]
    replica.rules = GateRules(**{**FREE.__dict__, "min_replicas": 0})
    attempts = replica.carry_out(*pods)
    assert all(attempt.evicted for attempt in attempts)
    assert len(server.state()["eviction.plan"]) / len(pods) * 500 < 600_000
