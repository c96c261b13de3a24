"""Where a VerticalPodAutoscaler names its target, pods are planned in the size in which they would come back."""

from typing import Any

import pytest

from ballast.eviction.coming_size import in_coming_size
from ballast.eviction.facts import ClusterObjects
from ballast.model.pod import Owner, Pod
from ballast.model.workload import Recommendation
from tests.unit.cli.planning.conftest import Plan
from tests.worlds.owned import HOT, cluster, deployment, made, ref, replica_sets, stateful
from tests.worlds.printed import Json

NODES = ("n1", "n2", "n3")
GROUP = "autoscaling.k8s.io/v1"


def vpa(cpu: str | None, kind: str = "Deployment", *, mode: str | None = None, **more: Any) -> Json:
    """One for `x` that recommends so much cpu to its only container."""
    rows = [] if cpu is None else [{"containerName": "a", "target": {"cpu": cpu, "memory": "1Gi"}}]
    spec = {"targetRef": {"apiVersion": "apps/v1", "kind": kind, "name": "x"}}
    if mode is not None:
        spec["updatePolicy"] = {"updateMode": mode}
    status = {"recommendation": {"containerRecommendations": rows}}
    return made("VerticalPodAutoscaler", "x", group=GROUP, **{"spec": spec, "status": status, **more})


WEB = deployment({"x-new": NODES})
SET = stateful(dict.fromkeys(NODES, ""))
OTHER = replica_sets(ref("Rollout", "x", "argoproj.io/v1alpha1"), {"x-new": NODES})

STAYS: dict[str, list[Json]] = {
    "a Deployment's": [*WEB, vpa("40")],
    "at once": [*WEB, vpa("40", mode="Recreate")],
    "at their creation only": [*WEB, vpa("40", mode="Initial")],
    "a StatefulSet's": [*SET, vpa("40", "StatefulSet")],
    "a Rollout's": [*OTHER, vpa("40", "Rollout")],
    "just more than a node has left": [*WEB, vpa("16500m")],
}
MOVES: dict[str, list[Json]] = {
    "what fits": [*WEB, vpa("6")],
    "less than it has": [*WEB, vpa("10m")],
    "it only advises": [*WEB, vpa("40", mode="Off")],
    "it has no target yet": [*WEB, vpa(None)],
    "it has no status": [*WEB, vpa("40", status={})],
    "it is of nothing": [*WEB, vpa("40", spec={})],
    "it is of another": [*WEB, vpa("40", "StatefulSet")],
}


@pytest.mark.parametrize("name", STAYS)
def test_a_pod_whose_replacement_would_have_no_room_stays(name: str, plan: Plan) -> None:
    answer = plan("relieve", cluster(STAYS[name]), HOT)
    assert (answer["steps"], answer["refused"]) == ([], {"node-fit": 1})


@pytest.mark.parametrize("name", MOVES)
def test_a_pod_moves_where_its_replacement_fits(name: str, plan: Plan) -> None:
    assert plan("relieve", cluster(MOVES[name]), HOT)["steps"]


def test_a_pod_that_waits_asks_for_no_more_than_it_does() -> None:
    """Its size was set as it was admitted: no room is made for more."""
    owner = Owner("StatefulSet", "db", "u-db", True)
    waits, runs = Pod("shop", "db-1", owner=owner), Pod("shop", "db-0", owner=owner, node="n1")
    wanted = Recommendation("shop", "StatefulSet", "db", {"cpu": 8.0})
    sized = in_coming_size(ClusterObjects(pods=(waits, runs), recommendations=(wanted,)))
    assert [pod.shape.requests.get("cpu", 0.0) for pod in sized] == [0.0, 8.0]
