"""A target whose claims a fall would delete is only observed, and the others take what they can."""

from typing import Any

import pytest

from ballast.actuation.scaling.target_status import ObstacleKind
from ballast.jobs.power.participants import find_participants
from ballast.power.policy import PowerPolicy
from tests.worlds.scaling import APPS, HPAS, ROLLOUTS, Rig, autoscaler, workload

DB, API, RING = f"{APPS}/statefulsets/db", f"{APPS}/deployments/api", f"{ROLLOUTS}/ring"
STATEFUL = "statefulsets.apps/shop/db"


def database(said: str | None = "Delete", *, templates: bool = True, name: str = "db", **more: Any) -> dict[str, Any]:
    made = workload(name, 4, **more)
    if said is not None:
        made["spec"]["persistentVolumeClaimRetentionPolicy"] = {"whenScaled": said}
    if templates:
        made["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}}]
    return made


def budget(ref: str = STATEFUL, **member: Any) -> PowerPolicy:
    members = [{"ref": ref, "max": 9, "wattsPerReplica": 50, **member}, {"ref": "shop/api", "max": 9}]
    members[1]["wattsPerReplica"] = 50
    return PowerPolicy.model_validate({"independents": members})


@pytest.mark.parametrize("absolute", [True, False])
def test_a_fall_is_left_to_the_other_members(absolute: bool) -> None:
    rig, policy = Rig({DB: database(), API: workload("api", 6)}), budget()
    policy = policy if absolute else policy.model_copy(update={"budget": "anchor"})
    statuses = rig.observe(policy)
    obstacle = statuses["shop/db"].obstacle
    assert obstacle is not None
    assert obstacle.kind is ObstacleKind.PROBLEM
    assert "StatefulSet db has persistentVolumeClaimRetentionPolicy whenScaled: Delete" in obstacle.text
    assert "deleteClaims: true" in obstacle.text
    taking_part = find_participants(policy, statuses, emergency=True)
    assert taking_part.changeable == {"shop/api"}
    assert taking_part.bounds.get("shop/db", (4, 4)) == (4, 4)
    assert rig.apply(policy, {"db": 1})[0].result == "refused"
    assert rig.spec(DB)["replicas"] == 4


def test_a_member_that_says_so_is_scaled() -> None:
    rig, policy = Rig({DB: database(), API: workload("api", 6)}), budget(deleteClaims=True)
    assert rig.observe(policy)["shop/db"].usable
    assert rig.apply(policy, {"db": 1})[0].done


@pytest.mark.parametrize("kept", [database("Retain"), database(None), database(templates=False)])
def test_claims_that_stay_hold_nothing_back(kept: dict[str, Any]) -> None:
    assert Rig({DB: kept, API: workload("api", 6)}).observe(budget())["shop/db"].usable


def test_a_cap_of_its_autoscaler_would_delete_them_too() -> None:
    hpa = autoscaler("db", 20)
    hpa["spec"]["scaleTargetRef"]["kind"] = "StatefulSet"
    rig = Rig({DB: database(), f"{HPAS}/db": hpa, API: workload("api", 6)})
    assert not rig.observe(budget())["shop/db"].usable


def ring(**spec: Any) -> dict[str, Any]:
    return {
        **workload("ring", 4),
        "kind": "Ring",
        "apiVersion": "argoproj.io/v1alpha1",
        "spec": {"replicas": 4, **spec},
    }


OWNED = {"ownerReferences": [{"kind": "Ring", "name": "ring", "uid": "uid-ring", "controller": True}]}


@pytest.mark.parametrize(
    ("target", "below", "usable"),
    [
        (ring(), None, True),
        (ring(volumeClaimTemplates=[{"spec": {}}]), None, False),
        (ring(volumeClaimTemplates=[{"spec": {}}]), database("Retain", name="ring-0", **OWNED), True),
        (ring(), database(name="ring-0", **OWNED), False),
        (ring(), database(name="other"), True),
    ],
)
def test_of_other_kinds_the_stateful_sets_that_they_made_decide(target: Any, below: Any, usable: bool) -> None:
    objects = {RING: target, API: workload("api", 6)} | ({f"{APPS}/statefulsets/below": below} if below else {})
    rig, policy = Rig(objects), budget("rollouts.argoproj.io/shop/ring")
    assert rig.observe(policy)["shop/ring"].usable is usable
    if below:
        # A change of what is below is seen though the target stays as it is.
        below["spec"]["persistentVolumeClaimRetentionPolicy"] = {"whenScaled": "Delete"}
        rig.api.objects[f"{APPS}/statefulsets/below"] = below
        owned = bool(below["metadata"].get("ownerReferences"))
        assert rig.observe(policy)["shop/ring"].usable is not owned


def test_the_key_takes_true_and_false_alone() -> None:
    with pytest.raises(ValueError, match="expected true or false"):
        budget(deleteClaims="yes")
