"""Replicas and caps of a power budget's targets, changed on a real control plane."""

from pathlib import Path

import pytest

from ballast.actuation.scaling.target_status import Actuator
from ballast.base.clock import SystemClock
from ballast.base.metrics import Metrics
from ballast.cluster.cache import Cache
from ballast.cluster.write import Result
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.waiting import eventually
from tests.contract.objects import client, kube_api
from tests.contract.test_power_actuators import Bench, bench, only
from tests.worlds import keda

__all__ = ["bench", "client", "kube_api"]
MANY = 60


@pytest.fixture
def kubeconfig(plane: ControlPlane) -> Path:
    return plane.admin_kubeconfig


def test_one_policy_over_all_kinds_of_targets(bench: Bench) -> None:
    paths = {
        "web": bench.workload("web", 6),
        "db": bench.workload("db", 4, "statefulsets"),
        "api": bench.workload("api", 8),
        "jobs": bench.workload("jobs", 5),
    }
    hpa, scaled_object = bench.autoscaler("api", 20, least=2), bench.scaled_object("jobs", 30)
    policy = bench.policy("web", "statefulsets.apps/db", "api", "jobs")
    actuators = bench.actuators(policy)
    namespace = bench.client.namespace
    standings = actuators.read(policy)
    assert {name.partition("/")[2]: (each.actuator, each.count) for name, each in standings.items()} == {
        "web": (Actuator.SCALE, 6),
        "db": (Actuator.SCALE, 4),
        "api": (Actuator.HPA_CAP, 8),
        "jobs": (Actuator.SCALED_OBJECT_CAP, 5),
    }
    outcomes = actuators.apply(standings, bench.counts(web=3, db=2, api=4, jobs=2), reason="power falls")
    assert [outcome.result for outcome in outcomes] == [Result.DONE] * 4
    assert {name: bench.spec(path)["replicas"] for name, path in paths.items()} | {"api": 0} == {
        "web": 3,
        "db": 2,
        "api": 0,
        "jobs": 5,
    }
    assert (bench.spec(hpa)["maxReplicas"], bench.spec(scaled_object)["maxReplicaCount"]) == (4, 2)
    eventually("the autoscaler controller lowers the replicas", lambda: bench.spec(paths["api"])["replicas"] == 4)
    eventually(
        "the cap counts, whatever the demand",
        lambda: (found := actuators.read(policy)[f"{namespace}/api"]).replicas == found.count == 4,
    )
    assert actuators.apply(actuators.read(policy), bench.counts(web=3, db=2, api=4, jobs=2), reason="again") == []
    written = [item["manager"] for item in bench.client.get(hpa)["metadata"]["managedFields"]]
    assert "ballast" in written
    assert all(outcome.done for outcome in actuators.restore(reason="released"))
    assert (bench.spec(hpa)["maxReplicas"], bench.spec(scaled_object)["maxReplicaCount"]) == (20, 30)
    assert not bench.notes(hpa)
    assert not bench.notes(scaled_object)


def test_increases_wait_for_pods_that_nobody_has_placed(bench: Bench) -> None:
    """There is no scheduler here, so that every pod stays Pending."""
    path = bench.workload("web", 1)
    policy = bench.policy("web")
    pods = Cache(bench.client.api, SystemClock(), Metrics(), pods=True)
    pods.start()
    try:
        actuators = bench.actuators(policy, pods.pods)
        eventually("the pod waits", lambda: only(actuators.read(policy)).pending == 1)
        (outcome,) = actuators.apply(actuators.read(policy), bench.counts(web=3), reason="power rises")
        assert (outcome.result, "still Pending" in outcome.reason) == (Result.REFUSED, True)
        assert bench.spec(path)["replicas"] == 1
    finally:
        pods.stop()


def test_anything_with_a_scale(bench: Bench) -> None:
    widgets = f"/apis/example.com/v1/namespaces/{bench.client.namespace}/widgets"
    keda.install(bench.client, keda.WIDGETS)
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 5}}
    bench.client.create(widgets, body)
    policy = bench.policy("widgets.example.com/w")
    actuators = bench.actuators(policy)
    standing = only(actuators.read(policy))
    assert (standing.actuator, standing.count, standing.kind) == (Actuator.SCALE, 5, "Widget")
    assert actuators.apply(actuators.read(policy), bench.counts(w=2), reason="power falls")[0].done
    assert bench.client.get(f"{widgets}/w")["spec"]["size"] == 2
    assert only(actuators.read(policy)).count == 2
    stale = actuators.read(policy)
    bench.client.patch(f"{widgets}/w", {"spec": {"size": 7}})
    (outcome,) = actuators.apply(stale, bench.counts(w=1), reason="power falls")
    assert outcome.result is Result.CONFLICT


def test_in_an_emergency_many_are_reduced_while_others_write_to_them(bench: Bench) -> None:
    names = [f"d{number:03}" for number in range(MANY)]
    paths = [bench.workload(name, 1 + number % 3, paused=True) for number, name in enumerate(names)]
    policy = bench.policy(*names)
    actuators = bench.actuators(policy)
    standings = actuators.read(policy)
    for path in paths[::3]:
        bench.client.patch(path, {"metadata": {"annotations": {"team": "blue"}}})
    bench.client.patch(f"{paths[1]}/scale", {"spec": {"replicas": 9}})
    outcomes = actuators.apply(standings, bench.counts(**dict.fromkeys(names, 0)), reason="blackout", emergency=True)
    assert [outcome.write.target.name for outcome in outcomes] == names, "in the order in which they are given"
    assert [outcome.write.target.name for outcome in outcomes if not outcome.done] == ["d001"]
    assert [bench.spec(path)["replicas"] for path in paths] == [9 if path == paths[1] else 0 for path in paths]
