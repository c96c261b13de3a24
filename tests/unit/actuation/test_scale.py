"""Replicas that nothing else scales are changed through /scale."""

from typing import Any

import pytest

from ballast.actuation.scaling.remembered import SETTLED
from ballast.actuation.scaling.target_status import Actuator
from ballast.cluster.write import Result
from ballast.model.pod import Pod
from tests.worlds.scaling import APPS, ROLLOUTS, Rig, autoscaler, meta, policy, refuse, workload

API = f"{APPS}/deployments/api"


def rig(replicas: int = 5, **more: Any) -> Rig:
    return Rig({API: workload("api", replicas)}, **more)


@pytest.fixture
def found() -> Rig:
    return rig()


def test_a_deployment_is_scaled_against_the_version_that_was_seen(found: Rig) -> None:
    standing = found.standing(policy("api"))
    assert (standing.actuator, standing.count, standing.replicas, standing.usable) == (Actuator.SCALE, 5, 5, True)
    (outcome,) = found.apply(policy("api"), {"api": 3})
    assert outcome.done
    assert found.spec(API)["replicas"] == 3
    ((method, path, body),) = found.api.writes
    assert (method, path) == ("PATCH", f"{API}/scale")
    assert body == {"metadata": {"resourceVersion": standing.version}, "spec": {"replicas": 3}}
    assert [event.write.reason for event in found.reported] == ["power falls"]


@pytest.mark.parametrize("plural", ["statefulsets", "replicasets"])
def test_so_are_the_other_kinds(plural: str) -> None:
    path = f"{APPS}/{plural}/db"
    found = Rig({path: workload("db", 4)})
    assert [outcome.result for outcome in found.apply(policy("db", kind=f"{plural}.apps/"), {"db": 6})] == ["done"]
    assert found.spec(path)["replicas"] == 6


def test_anything_else_with_a_scale_is_asked_what_it_has_once_per_version() -> None:
    path = f"{ROLLOUTS}/web"
    custom = {**workload("web", 4), "kind": "Rollout", "apiVersion": "argoproj.io/v1alpha1"}
    found, wanted = Rig({path: custom}), policy("web", kind="rollouts.argoproj.io/")
    assert (found.standing(wanted).count, found.standing(wanted).kind) == (4, "Rollout")
    assert [path for _, path, _ in found.api.requests] == [f"{path}/scale"]
    assert found.apply(wanted, {"web": 2})[0].done
    assert found.standing(wanted).count == 2
    found.edit(path, replicas=7)
    assert found.standing(wanted).count == 7
    found.api.before = refuse("/scale")
    found.edit(path, replicas=8)
    assert "no" in (found.standing(wanted).problem or "")


def test_what_is_so_already_costs_no_write(found: Rig) -> None:
    assert found.apply(policy("api"), {"api": 5}) == []
    assert found.api.writes == []


def test_until_the_watch_catches_up_our_own_write_counts(found: Rig) -> None:
    found.apply(policy("api"), {"api": 3})
    assert found.standing(policy("api"), fresh=False).count == 3
    assert found.apply(policy("api"), {"api": 2}, fresh=False)[0].done
    assert len(found.api.writes) == 2
    found.edit(API, replicas=9)
    assert found.standing(policy("api")).count == 9


def test_a_conflict_is_read_again_and_tried_again(found: Rig) -> None:
    standings = found.observe(policy("api"))
    found.edit(API, paused=False)
    (outcome,) = found.actuators.apply(standings, {"shop/api": 2}, reason="power falls")
    assert outcome.done
    assert found.spec(API)["replicas"] == 2


def test_what_someone_else_set_meanwhile_is_not_overwritten(found: Rig) -> None:
    standings = found.observe(policy("api"))
    found.edit(API, replicas=8)
    (outcome,) = found.actuators.apply(standings, {"shop/api": 2}, reason="power falls")
    assert outcome.result is Result.CONFLICT
    assert "from 5 to 8" in outcome.reason
    assert found.spec(API)["replicas"] == 8


def test_someone_else_may_have_wanted_the_same(found: Rig) -> None:
    standings = found.observe(policy("api"))
    found.edit(API, replicas=2)
    (outcome,) = found.actuators.apply(standings, {"shop/api": 2}, reason="power falls")
    assert outcome.done
    assert found.metrics.registry.get_sample_value("ballast_writes_total", {"kind": "scale", "result": "done"}) == 1


def test_an_autoscaler_that_came_meanwhile_is_left_in_charge(found: Rig) -> None:
    standings = found.observe(policy("api"))
    found.edit(API, paused=False)
    found.api._store("/x/horizontalpodautoscalers/api", autoscaler("api", 9))
    found.cache.observe()
    (outcome,) = found.actuators.apply(standings, {"shop/api": 2}, reason="power falls")
    assert outcome.result is Result.CONFLICT
    assert found.spec(API)["replicas"] == 5


def test_a_workload_that_vanished_is_gone(found: Rig) -> None:
    standings = found.observe(policy("api"))
    del found.api.objects[API]
    assert found.actuators.apply(standings, {"shop/api": 2}, reason="x")[0].result is Result.GONE
    assert "there is no deployments.apps/shop/api" in (found.standing(policy("api")).problem or "")


def test_a_read_that_fails_after_a_conflict_ends_it(found: Rig) -> None:
    standings = found.observe(policy("api"))
    found.edit(API, paused=False)
    found.api.before = refuse("/scale")
    assert found.actuators.apply(standings, {"shop/api": 2}, reason="x")[0].result is Result.FAILED


def pod(name: str, phase: str = "Pending", app: str = "api", node: str = "", **more: Any) -> Pod:
    return Pod("shop", name, uid=name, phase=phase, labels={"app": app}, node=node, **more)


def test_increases_wait_for_the_pods_of_the_last_one(found: Rig) -> None:
    found.pods = pod("a"), pod("b", "Running"), pod("c", app="other"), pod("d", deleting=True)
    standing = found.standing(policy("api"))
    assert (standing.pending, standing.maximum) == (1, 5)
    (outcome,) = found.apply(policy("api"), {"api": 6})
    assert (outcome.result, "1 of its pods" in outcome.reason) == (Result.REFUSED, True)
    assert found.apply(policy("api"), {"api": 4})[0].done


def test_only_pods_that_no_node_takes_leave_their_watts_to_others(found: Rig) -> None:
    refused, gated = pod("a", waiting_since=1.0), pod("b", gates=("example.com/held",))
    found.pods = refused, gated, pod("not-seen-yet"), pod("pulls-its-image", node="n1")
    standing = found.standing(policy("api"))
    assert (standing.pending, standing.unplaced) == (4, 2)


def test_a_rollout_is_waited_for_but_not_in_an_emergency(found: Rig) -> None:
    found.api.objects[API]["status"] = {"observedGeneration": 0, "replicas": 5, "updatedReplicas": 2}
    (outcome,) = found.apply(policy("api"), {"api": 4})
    assert (outcome.result, outcome.reason) == (Result.REFUSED, "a rollout is under way")
    assert found.apply(policy("api"), {"api": 4}, emergency=True)[0].done


def test_a_rollout_that_does_not_go_on_blocks_nothing(found: Rig) -> None:
    found.api.objects[API]["status"] = {"observedGeneration": 0, "replicas": 5, "updatedReplicas": 2}
    found.edit(API, paused=True)
    standing = found.standing(policy("api"))
    assert not standing.rolling
    assert "does not go on" in (standing.note or "")
    assert found.apply(policy("api"), {"api": 4})[0].done


def test_pods_that_cannot_be_created_are_no_room(found: Rig) -> None:
    refused = [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}]
    found.api.objects[API]["status"] = {"replicas": 3, "readyReplicas": 3, "conditions": refused}
    assert found.standing(policy("api")).ceiling is None
    found.clock.advance(SETTLED)
    standing = found.standing(policy("api"))
    assert (standing.count, standing.maximum, standing.ceiling) == (5, 3, 3)
    (outcome,) = found.apply(policy("api"), {"api": 6})
    assert (outcome.result, "3 of its pods" in outcome.reason) == (Result.REFUSED, True)
    assert found.apply(policy("api"), {"api": 3})[0].done
    found.api.objects[API]["status"] = {"replicas": 3, "readyReplicas": 3}
    assert found.standing(policy("api")).maximum == 3
    found.clock.advance(601)
    assert found.standing(policy("api")).ceiling is None


def test_dry_runs_and_pauses_send_nothing() -> None:
    found = rig(mode="dry-run")
    assert found.apply(policy("api"), {"api": 4})[0].result is Result.DRY_RUN
    found = rig()
    found.pauses["power"] = "paused by key paused"
    assert found.apply(policy("api"), {"api": 4})[0].reason == "paused by key paused"
    assert found.api.writes == []


def test_reductions_go_first() -> None:
    names = ("a", "b", "c")
    found = Rig({f"{APPS}/deployments/{name}": workload(name, 5) for name in names})
    outcomes = found.apply(policy(*names), {"a": 9, "b": 1, "c": 2})
    assert [outcome.write.target.name for outcome in outcomes] == ["b", "c", "a"]


def test_an_emergency_keeps_the_order_that_is_given() -> None:
    names = ("a", "b", "c")
    found = Rig({f"{APPS}/deployments/{name}": workload(name, 9) for name in names})
    outcomes = found.apply(policy(*names), {"b": 8, "c": 1, "a": 8}, emergency=True)
    assert [outcome.write.target.name for outcome in outcomes] == ["b", "c", "a"]
    assert all(outcome.done for outcome in outcomes)


def test_what_only_watches_writes_nothing(found: Rig) -> None:
    standing = found.standing(policy("api", actuation="observe"))
    assert (standing.actuator, standing.count, standing.usable, standing.problem) == (Actuator.OBSERVE, 5, False, None)
    (outcome,) = found.apply(policy("api", actuation="observe"), {"api": 1})
    assert (outcome.result, outcome.reason) == (Result.REFUSED, "it is only observed")


def test_the_pods_on_hot_nodes_go_first_where_that_is_asked_for() -> None:
    found = rig(3)
    pods = {name: pod(name, "Running", node=node) for name, node in (("p", "hot"), ("q", "warm"), ("r", "cold"))}
    found.pods = tuple(pods.values())
    for name in pods:
        found.api._store(f"/api/v1/namespaces/shop/pods/{name}", {"metadata": meta(name)})
    found.apply(policy("api"), {"api": 2}, loads={"hot": 0.91, "warm": 0.5, "cold": 0.1})
    steered, scaled = found.api.writes
    cost = {"controller.kubernetes.io/pod-deletion-cost": "-91", "ballast.dev/deletion-cost": "-91"}
    assert steered == ("PATCH", "/api/v1/namespaces/shop/pods/p", {"metadata": {"uid": "p", "annotations": cost}})
    assert scaled[1] == f"{API}/scale"
    found.apply(policy("api"), {"api": 1}, emergency=True, loads={"hot": 0.9})
    assert len(found.api.writes) == 3
