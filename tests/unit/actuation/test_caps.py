"""What an autoscaler scales is bounded by a cap, and the cap is given back."""

from typing import Any

import pytest

from ballast.actuation.scaling.cap import HPA as HPA_FORM
from ballast.actuation.scaling.target_status import Actuator
from ballast.base.errors import ClusterError
from ballast.cluster.write import Result
from ballast.power.policy import PowerPolicy
from tests.worlds.scaling import APPS, HPAS, KEDA, Rig, autoscaler, meta, policy, scaled_object, workload

API = f"{APPS}/deployments/api"
HPA = f"{HPAS}/api"
SO = f"{KEDA}/api"
ORIGINAL, NOTED = "ballast.dev/original-max-replicas", "ballast.dev/power-cap"
OWNED = [{"kind": "ScaledObject", "name": "api", "uid": "uid-api", "controller": True}]


def under_hpa(replicas: int = 10, most: int = 20, least: int = 2, **more: Any) -> Rig:
    return Rig({API: workload("api", replicas), HPA: autoscaler("api", most, least)}, **more)


def under_keda(replicas: int = 10, most: int | None = 20, least: int | None = None, **more: Any) -> Rig:
    found = autoscaler("keda-hpa-api", most or 100, target="api", ownerReferences=OWNED)
    objects = {API: workload("api", replicas), SO: scaled_object("api", most, least, **more)}
    return Rig({**objects, f"{HPAS}/keda-hpa-api": found})


@pytest.fixture
def found() -> Rig:
    return under_hpa()


def test_the_replicas_of_what_an_hpa_scales_are_never_written(found: Rig) -> None:
    standing = found.standing(policy("api"))
    assert (standing.actuator, standing.count, standing.capped) == (Actuator.HPA_CAP, 10, False)
    assert (standing.minimum, standing.maximum, standing.original) == (2, 10, 20)
    assert found.apply(policy("api"), {"api": 4})[0].done
    ((_, path, body),) = found.api.writes
    assert path == HPA
    assert body == {
        "metadata": {"resourceVersion": standing.version, "annotations": {ORIGINAL: "20", NOTED: "4"}},
        "spec": {"maxReplicas": 4},
    }
    assert found.spec(API)["replicas"] == 10


@pytest.mark.parametrize("fresh", [True, False])
def test_a_cap_that_is_ours_is_what_counts(found: Rig, fresh: bool) -> None:
    found.apply(policy("api"), {"api": 4})
    found.edit(API, replicas=3)
    standing = found.standing(policy("api"), fresh=fresh)
    assert (standing.count, standing.capped, standing.original, standing.maximum) == (4, True, 20, 20)
    assert standing.replicas == (3 if fresh else 10)
    assert found.apply(policy("api"), {"api": 4}, fresh=fresh) == []
    assert found.apply(policy("api"), {"api": 7}, fresh=fresh)[0].done
    assert found.notes(HPA) == {ORIGINAL: "20", NOTED: "7"}


def test_without_a_cap_there_is_nothing_to_raise(found: Rig) -> None:
    assert found.apply(policy("api"), {"api": 15}) == []


def test_the_original_is_the_most_and_stays_noted() -> None:
    """So that what counts stays the cap: fewer replicas are demand, also once the watts are back."""
    found = under_hpa()
    found.apply(policy("api"), {"api": 4})
    found.apply(policy("api"), {"api": 25})
    assert found.spec(HPA)["maxReplicas"] == 20
    assert found.notes(HPA) == {ORIGINAL: "20", NOTED: "20"}
    found.edit(API, replicas=6)
    standing = found.standing(policy("api"))
    assert (standing.capped, standing.count, standing.replicas) == (True, 20, 6)
    assert found.apply(policy("api"), {"api": 25}) == []
    found.cache.observe()
    assert found.actuators.restore(reason="released")[0].done
    assert found.notes(HPA) == {}


def test_an_original_that_became_unreadable_meanwhile_is_not_overwritten(found: Rig) -> None:
    standings = found.observe(policy("api"))
    found.api.objects[HPA]["metadata"]["annotations"] = {ORIGINAL: "many"}
    found.edit(HPA, minReplicas=3)
    (outcome,) = found.actuators.apply(standings, {"shop/api": 4}, reason="x")
    assert (outcome.result, "'many'" in outcome.reason) == (Result.CONFLICT, True)
    assert found.spec(HPA)["maxReplicas"] == 20


def test_a_cap_is_never_below_what_the_autoscaler_keeps() -> None:
    found = under_hpa(least=3)
    found.apply(policy("api"), {"api": 0})
    assert found.spec(HPA)["maxReplicas"] == 3
    found = under_keda(least=0)
    found.apply(policy("api"), {"api": 0})
    assert found.spec(SO)["maxReplicaCount"] == 1


def test_a_conflict_is_read_again_and_a_foreign_cap_is_not_overwritten(found: Rig) -> None:
    standings = found.observe(policy("api"))
    found.edit(HPA, minReplicas=5)
    assert found.actuators.apply(standings, {"shop/api": 4}, reason="x")[0].done
    assert found.spec(HPA)["maxReplicas"] == 5
    standings = found.observe(policy("api"))
    found.edit(HPA, maxReplicas=12)
    (outcome,) = found.actuators.apply(standings, {"shop/api": 7}, reason="x")
    assert (outcome.result, "from 5 to 12" in outcome.reason) == (Result.CONFLICT, True)
    assert found.spec(HPA)["maxReplicas"] == 12


def test_the_cap_of_someone_else_is_the_next_original(found: Rig) -> None:
    found.apply(policy("api"), {"api": 4})
    found.edit(HPA, maxReplicas=12)
    standing = found.standing(policy("api"))
    assert (standing.capped, standing.count, standing.original) == (False, 10, 12)
    found.apply(policy("api"), {"api": 6})
    assert found.notes(HPA) == {ORIGINAL: "12", NOTED: "6"}


def test_an_original_that_cannot_be_read_is_no_reason_to_guess(found: Rig) -> None:
    found.api.objects[HPA]["metadata"]["annotations"] = {ORIGINAL: "many"}
    standing = found.standing(policy("api"))
    assert (standing.count, standing.usable) == (None, False)
    assert "'many', expected a decimal number" in (standing.problem or "")
    (outcome,) = found.actuators.restore(reason="released")
    assert (outcome.result, "Set the cap by hand" in outcome.reason) == (Result.FAILED, True)


def test_zero_by_hand_stops_an_hpa_and_is_left_alone() -> None:
    found = under_hpa(replicas=0)
    assert "set to 0 replicas" in (found.standing(policy("api")).excluded or "")
    assert under_keda(replicas=0).standing(policy("api")).excluded is None


def test_with_keda_the_scaled_object_is_capped_and_its_hpa_never() -> None:
    found = under_keda()
    standing = found.standing(policy("api"))
    assert (standing.actuator, standing.count, standing.minimum) == (Actuator.SCALED_OBJECT_CAP, 10, 1)
    found.apply(policy("api"), {"api": 4})
    ((_, path, body),) = found.api.writes
    assert (path, body["spec"]) == (SO, {"maxReplicaCount": 4})
    assert found.notes(SO) == {ORIGINAL: "20", NOTED: "4"}


def test_what_a_scaled_object_leaves_out_is_a_hundred() -> None:
    found = under_keda(most=None)
    found.apply(policy("api"), {"api": 4})
    assert found.notes(SO)[ORIGINAL] == "100"


@pytest.mark.parametrize(
    "annotations", [{"autoscaling.keda.sh/paused": "true"}, {"autoscaling.keda.sh/paused-replicas": "3"}]
)
def test_while_keda_is_paused_nothing_is_capped(annotations: dict[str, str]) -> None:
    found = under_keda(annotations=annotations)
    assert "is paused" in (found.standing(policy("api")).problem or "")
    assert not under_keda(annotations={"autoscaling.keda.sh/paused": "false"}).standing(policy("api")).problem


def test_the_hpa_of_a_scaled_object_that_cannot_be_seen_is_left_alone() -> None:
    found = under_keda()
    del found.api.objects[SO]
    standing = found.standing(policy("api"))
    assert (standing.actuator, standing.usable) == (Actuator.OBSERVE, False)
    assert "belongs to ScaledObject api, which cannot be seen" in (standing.problem or "")
    (outcome,) = found.apply(policy("api"), {"api": 1})
    assert outcome.result is Result.REFUSED
    assert found.api.writes == []


@pytest.mark.parametrize(
    ("actuation", "problem"), [("direct", "would undo every change"), ("cap", None), ("auto", None)]
)
def test_the_policy_may_name_the_way(actuation: str, problem: str | None) -> None:
    found = under_hpa().standing(policy("api", actuation=actuation)).problem
    assert (problem in (found or "")) if problem else found is None


def test_a_cap_needs_an_autoscaler() -> None:
    found = Rig({API: workload("api", 3)})
    assert "no autoscaler scales it" in (found.standing(policy("api", actuation="cap")).problem or "")


def test_two_autoscalers_are_one_too_many(found: Rig) -> None:
    found.api._store(f"{HPAS}/other", autoscaler("other", 9, target="api"))
    assert "api and HorizontalPodAutoscaler other both scale it" in (found.standing(policy("api")).problem or "")


def test_autoscalers_of_another_group_or_namespace_do_not_count() -> None:
    found = Rig({API: workload("api", 3)})
    foreign = autoscaler("api", 9)
    foreign["spec"]["scaleTargetRef"]["apiVersion"] = "other.io/v1"
    elsewhere = autoscaler("api", 9)
    elsewhere["metadata"]["namespace"] = "home"
    found.api._store(f"{HPAS}/api", foreign)
    found.api._store("/apis/autoscaling/v2/namespaces/home/horizontalpodautoscalers/api", elsewhere)
    assert found.standing(policy("api")).actuator is Actuator.SCALE


def test_what_belongs_to_a_controller_is_scaled_by_it() -> None:
    owner = [{"kind": "Widget", "name": "w", "uid": "w", "controller": True}]
    found = Rig({API: workload("api", 3, ownerReferences=owner)})
    assert "belongs to Widget w" in (found.standing(policy("api")).problem or "")
    assert found.standing(policy("api", actuation="direct")).actuator is Actuator.SCALE


def test_caps_of_some_targets_are_given_back(found: Rig) -> None:
    for name in ("web", "db"):
        found.api._store(f"{APPS}/deployments/{name}", workload(name, 10))
        found.api._store(f"{HPAS}/{name}", autoscaler(name, 30))
    wanted = policy("api", "web", "db")
    found.apply(wanted, {"api": 4, "web": 5, "db": 6})
    assert len(found.actuators.restore({"shop/api", "shop/db"}, reason="no policy names them")) == 2
    assert [found.spec(f"{HPAS}/{name}")["maxReplicas"] for name in ("api", "web", "db")] == [20, 5, 30]
    assert found.standing(policy("api"), fresh=False).capped is False
    found.cache.observe()
    assert found.actuators.restore({"shop/api", "shop/db"}, reason="no policy names them") == []
    found.cache.unlisted.add("horizontalpodautoscalers")
    with pytest.raises(ClusterError, match="have not been listed"):
        found.actuators.restore({"shop/web"}, reason="no policy names it")


def test_only_a_cap_that_is_still_ours_is_given_back(found: Rig) -> None:
    found.apply(policy("api"), {"api": 4})
    found.edit(HPA, maxReplicas=12)
    found.cache.observe()
    assert found.actuators.restore(reason="released")[0].done
    assert found.spec(HPA)["maxReplicas"] == 12
    assert found.notes(HPA) == {}


def test_the_original_alone_tells_a_cap_too() -> None:
    found = under_hpa(most=4)
    found.api.objects[HPA]["metadata"]["annotations"] = {ORIGINAL: "20"}
    assert found.standing(policy("api")).capped
    assert found.actuators.restore(reason="released")[0].done
    assert found.spec(HPA)["maxReplicas"] == 20


def test_what_keda_copied_to_its_hpa_is_not_given_back() -> None:
    found = under_keda()
    found.apply(policy("api"), {"api": 4})
    copied = {"annotations": dict(found.notes(SO)), "ownerReferences": OWNED}
    found.api._store(f"{HPAS}/keda-hpa-api", {"metadata": meta("keda-hpa-api", **copied), "spec": {"maxReplicas": 4}})
    found.cache.observe()
    (outcome,) = found.actuators.restore(reason="released")
    assert outcome.write.path == SO
    assert found.spec(SO)["maxReplicaCount"] == 20


def test_a_conflict_while_giving_back_is_decided_again(found: Rig) -> None:
    found.apply(policy("api"), {"api": 4})
    found.cache.observe()
    found.edit(HPA, minReplicas=3)
    assert found.actuators.restore(reason="released")[0].done
    assert found.spec(HPA) | {"scaleTargetRef": None} == {"maxReplicas": 20, "minReplicas": 3, "scaleTargetRef": None}


def test_giving_back_ends_where_the_writer_refuses(found: Rig) -> None:
    found.apply(policy("api"), {"api": 4})
    found.cache.observe()
    found.pauses["power"] = "paused by key paused.power"
    (outcome,) = found.actuators.restore(reason="released")
    assert outcome.reason == found.pauses["power"]


def test_an_absolute_budget_counts_the_cap_in_force_and_sets_one_above_what_runs(found: Rig) -> None:
    members = [{"ref": "shop/api", "min": 1, "max": 50, "wattsPerReplica": 10}]
    one = PowerPolicy.model_validate({"independents": members})
    standing = found.standing(one)
    assert (standing.count, standing.maximum, standing.replicas, standing.original) == (20, 20, 10, 20)
    assert found.apply(one, {"api": 15})[0].done
    assert found.api.objects[f"{HPAS}/api"]["spec"]["maxReplicas"] == 15
    standing = found.standing(one)
    assert (standing.count, standing.maximum, standing.original) == (15, 20, 20)
    assert found.apply(one, {"api": 20})[0].done
    assert found.standing(one).count == 20


def test_a_cap_is_written_at_most_as_the_original(found: Rig) -> None:
    found.apply(policy("api"), {"api": 4})
    found.cache.observe()
    (seen,) = found.cache.autoscalers()
    body = HPA_FORM.write(seen, "ballast.dev", 50, "more watts").body
    assert body is not None
    assert body["spec"] == {"maxReplicas": 20}
    assert body["metadata"]["annotations"] == {ORIGINAL: "20", NOTED: "20"}
