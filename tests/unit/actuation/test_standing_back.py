"""When a target is left alone: excluded, protected, fought over, or not seen well enough."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from ballast.actuation.protected import Protected
from ballast.actuation.scaling.target_status import ObstacleKind, TargetObstacle
from ballast.cluster.write import Result
from ballast.model.pod import Pod
from ballast.model.workload import Workload
from tests.worlds.clock import FakeClock
from tests.worlds.scaling import APPS, HPAS, Rig, autoscaler, policy, workload

API = f"{APPS}/deployments/api"
HPA = f"{HPAS}/api"
SHOP = "/api/v1/namespaces/shop"
WALL = 1_700_000_000.0


def at(seconds: float) -> str:
    return datetime.fromtimestamp(WALL + seconds, UTC).isoformat()


def said(on_workload: dict[str, str], on_namespace: dict[str, str] | None = None) -> Rig:
    found = Rig({API: workload("api", 5, annotations=on_workload)})
    found.api.objects[SHOP]["metadata"]["annotations"] = on_namespace or {}
    return found


@pytest.fixture
def found() -> Rig:
    return Rig({API: workload("api", 5)})


@pytest.mark.parametrize(
    ("on_workload", "on_namespace", "excluded"),
    [
        ({}, {}, None),
        ({"exclude": "true"}, {}, "Deployment api has ballast.dev/exclude"),
        ({"exclude-power": "true"}, {}, "Deployment api has ballast.dev/exclude-power"),
        ({"exclude-until": at(60)}, {}, "Deployment api is excluded until"),
        ({"exclude-until": at(-60)}, {}, None),
        ({"exclude-until": "soon"}, {}, "no RFC 3339 time"),
        ({"exclude": "yes"}, {}, 'neither "true" nor "false"'),
        ({"exclude-power": ""}, {}, 'neither "true" nor "false"'),
        ({}, {"exclude": "true"}, "namespace shop has ballast.dev/exclude"),
        ({}, {"exclude-power": "true"}, "namespace shop has ballast.dev/exclude-power"),
        ({"exclude": "false"}, {"exclude": "true"}, None),
        ({"exclude-power": "false"}, {"exclude-power": "true"}, None),
        ({"exclude-power": "false"}, {"exclude": "true"}, "namespace shop has ballast.dev/exclude"),
        ({"exclude-until": at(-60)}, {"exclude": "true"}, None),
        ({"evict": "false"}, {}, None),
    ],
)
def test_annotations_exclude_and_the_nearest_wins(
    on_workload: dict[str, str], on_namespace: dict[str, str], excluded: str | None
) -> None:
    found = said(
        *({f"ballast.dev/{key}": value for key, value in each.items()} for each in (on_workload, on_namespace))
    )
    standing = found.standing(policy("api"))
    assert (excluded in (standing.excluded or "")) if excluded else standing.excluded is None
    assert standing.usable is (excluded is None)
    (outcome,) = found.apply(policy("api"), {"api": 1})
    assert outcome.result is (Result.REFUSED if excluded else Result.DONE)


def test_an_annotation_that_cannot_be_read_is_told_once() -> None:
    found = said({"ballast.dev/exclude-until": "soon"})
    for _ in range(3):
        found.observe(policy("api"))
    (outcome,) = found.reported
    assert (outcome.write.event, "no RFC 3339 time" in outcome.reason) == ("ExcludeFromPower", True)
    assert outcome.write.target.name == "api"


def test_ballast_what_it_reads_from_and_metrics_server_are_left_alone() -> None:
    found = Rig(
        {f"{APPS}/deployments/{name}": workload(name, 2) for name in ("ballast", "metrics", "prom", "feed", "api")},
        guarded=True,
    )
    found.api._store(f"{SHOP}/services/prometheus", {"spec": {"selector": {"app": "prom"}}})
    found.api.objects[f"{APPS}/deployments/metrics"]["spec"]["template"]["metadata"]["labels"] = {
        "k8s-app": "metrics-server"
    }
    found.pods = (Pod("shop", "ballast-0", labels={"app": "ballast"}, phase="Running"),)
    seen = {
        name: each.excluded for name, each in found.observe(policy("ballast", "metrics", "prom", "feed", "api")).items()
    }
    assert seen == {
        "shop/ballast": "it is Ballast itself",
        "shop/metrics": "it is metrics-server",
        "shop/prom": "Ballast reads from it (Service shop/prometheus)",
        "shop/feed": "Ballast reads from it (Service shop/feed)",
        "shop/api": None,
    }
    asked = [path for _, path, _ in found.api.requests]
    found.observe(policy("api"))
    assert [path for _, path, _ in found.api.requests] == asked


def fight(found: Rig, times: int, manager: str = "argocd-controller") -> None:
    for _ in range(times):
        found.observe(policy("api"))
        found.apply(policy("api"), {"api": 3})
        found.edit(API, manager, replicas=5)


def test_who_writes_back_three_times_has_won_for_a_while(found: Rig) -> None:
    fight(found, 2)
    assert found.standing(policy("api")).problem is None
    fight(found, 1)
    standing = found.standing(policy("api"))
    assert not standing.usable
    assert "contended: Argo CD (field manager argocd-controller) has written back" in (standing.problem or "")
    (outcome,) = found.apply(policy("api"), {"api": 3})
    assert outcome.result is Result.REFUSED
    assert found.spec(API)["replicas"] == 5
    found.clock.advance(601)
    assert found.standing(policy("api")).usable


def test_three_times_in_a_long_while_are_no_fight(found: Rig) -> None:
    for _ in range(5):
        fight(found, 1)
        found.clock.advance(400)
    assert found.standing(policy("api")).problem is None


def test_another_number_is_someones_wish_and_no_fight(found: Rig) -> None:
    for count in range(6, 12):
        found.apply(policy("api"), {"api": 3})
        found.edit(API, replicas=count)
        assert found.standing(policy("api")).problem is None


def test_caps_are_fought_over_too() -> None:
    found = Rig({API: workload("api", 9), HPA: autoscaler("api", 20)})
    for _ in range(3):
        found.apply(policy("api"), {"api": 3})
        found.edit(HPA, "kustomize-controller", maxReplicas=20)
    assert "contended: Flux" in (found.standing(policy("api")).problem or "")


def test_without_managed_fields_it_is_someone(found: Rig) -> None:
    fight(found, 3, manager="")
    assert "contended: someone has" in (found.standing(policy("api")).problem or "")


def test_nothing_is_done_on_what_the_watches_do_not_show(found: Rig) -> None:
    found.cache.unlisted = {"scaledobjects"}
    found.cache.problems = {"scaledobjects": "add list of scaledobjects"}
    assert "scaledobjects have not been listed yet: add list" in (found.standing(policy("api")).problem or "")
    found.cache.unlisted, found.cache.ages = set(), {"horizontalpodautoscalers": 200.0}
    assert "horizontalpodautoscalers were last seen 200 s ago" in (found.standing(policy("api")).problem or "")
    found.cache.ages, found.cache.kinds = {}, ("deployments",)
    assert "are not watched" in (found.standing(policy("api")).problem or "")


def test_daemon_sets_have_no_replicas() -> None:
    found = Rig({f"{APPS}/daemonsets/agent": workload("agent", 0)})
    assert "a DaemonSet has no replicas" in (found.standing(policy("agent", kind="daemonsets.apps/")).problem or "")


def test_what_has_not_changed_is_not_looked_at_again_and_what_has_is() -> None:
    found = Rig({API: workload("api", 5), HPA: autoscaler("api", 9, target="other")})
    wanted = policy("api")
    first = found.standing(wanted)
    assert found.standing(wanted, fresh=False) is first
    found.api.objects[SHOP]["metadata"]["annotations"] = {"ballast.dev/exclude-until": at(60)}
    assert found.standing(wanted).excluded
    found.clock.advance(61)
    assert found.standing(wanted).usable
    found.edit(HPA, scaleTargetRef={"apiVersion": "apps/v1", "kind": "Deployment", "name": "api"})
    assert (first.actuator, found.standing(wanted).actuator) == ("scale", "hpa-cap")


def test_while_pods_are_not_known_nothing_rises_that_is_not_complete(found: Rig) -> None:
    found.pods_problem = "the pods have not been listed yet"
    standing = found.standing(policy("api"))
    assert (standing.maximum, standing.pending) == (5, 5)
    assert found.apply(policy("api"), {"api": 6})[0].result is Result.REFUSED


def test_until_pods_are_listed_anything_beside_ballast_may_be_ballast() -> None:
    found = Rig({API: workload("api", 5)}, guarded=True)
    assert "it may be Ballast itself" in (found.standing(policy("api")).excluded or "")
    found.pods = (Pod(namespace="shop", name="ballast-0", uid="1", labels={"app": "ballast"}),)
    assert found.standing(policy("api")).usable


def test_what_is_not_there_runs_no_replicas_and_what_is_not_seen_nobody_knows_how_many() -> None:
    found = Rig({})
    assert found.standing(policy("api")).replicas == 0
    found.cache.unlisted.add("deployments")
    assert found.standing(policy("api")).replicas is None


def test_our_own_write_is_forgotten_when_the_watch_never_shows_it(found: Rig) -> None:
    assert found.apply(policy("api"), {"api": 3})[0].done
    assert found.standing(policy("api"), fresh=False).count == 3
    found.clock.advance(101)
    assert found.standing(policy("api"), fresh=False).count == 5


def test_the_text_of_a_condition_does_not_change_while_a_target_is_contended(found: Rig) -> None:
    fight(found, 3)
    before = found.standing(policy("api")).obstacle
    found.clock.advance(60)
    after = found.standing(policy("api")).obstacle
    assert before is not None
    assert after is not None
    assert (before.kind, before.lasting) == (ObstacleKind.CONTENDED, after.lasting)
    assert before.text != after.text


@pytest.mark.parametrize(
    ("home", "key", "left_alone"),
    [
        ("shop", "", True),
        ("shop", "ballast.dev/exclude-power", False),
        ("kube-system", "ballast.dev/exclude-power", True),
        ("ballast", "ballast.dev/exclude-power", True),
    ],
)
def test_no_tenant_leaves_the_budget_as_metrics_server(home: str, key: str, left_alone: bool) -> None:
    protected = Protected(
        cast(Any, None),
        FakeClock(),
        tuple,
        namespace="ballast",
        own=None,
        urls=[],
        operator_only=frozenset({key} - {""}),
    )
    labelled = Workload("Deployment", home, "api", "u", pod_labels={"app.kubernetes.io/name": "metrics-server"})
    assert (protected.reason(labelled) is not None) is left_alone


def test_what_has_an_obstacle_is_not_written(found: Rig) -> None:
    standing = found.standing(policy("api"))
    kept = replace(standing, obstacle=TargetObstacle(ObstacleKind.PROBLEM, "it is fought over"))
    (outcome,) = found.actuators.apply({"shop/api": kept}, {"shop/api": 2}, reason="x")
    assert (outcome.result, outcome.reason) == (Result.REFUSED, "it is fought over")
    assert found.api.writes == []
