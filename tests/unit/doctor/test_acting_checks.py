"""What keeps power and evictions from acting as planned is found, and an extender that is open to strangers."""

import json
from typing import Any

import pytest

from ballast.doctor.checks import CHECKS
from ballast.doctor.eviction_needs import unsatisfiable
from ballast.publishing.scheduler_profiles import extender_profile
from tests.unit.doctor.conftest import Patient, wrong

POWER = ("power-feed", "power-consumption", "power-targets", "power-autoscalers")
QUERY = {"query": "ballast_power_available_watts"}


def target(patient: Patient, *, scaled: bool = False) -> str:
    scaling = {(each.namespace, each.name) for each in patient.cluster.world.workloads if each.autoscaled}
    return next(
        f"{each.namespace}/{each.name}"
        for each in patient.cluster.world.workloads
        if each.kind == "Deployment" and ((each.namespace, each.name) in scaling) is scaled
    )


def power(patient: Patient, ref: str | None = None, **policy: Any) -> dict[str, str]:
    member = {"ref": ref or target(patient), "min": 1, "max": 50, **policy.pop("member", {})}
    found = {
        "name": "site",
        "feed": {"url": patient.cluster.power_url, "jsonPath": "$.watts", "timePath": "$.time"},
        "independents": [member],
        **policy,
    }
    return {"POWER__POLICIES": json.dumps([found]), "POWER__MODE": "dry-run"}


def test_a_healthy_policy_is_well(patient: Patient) -> None:
    feed = {"url": patient.cluster.power_url, "jsonPath": "$.watts", "timePath": "$.time"}
    found = patient.examine(*POWER, **power(patient, consumption=feed))
    assert found.summary == {"fail": 0, "warn": 0, "skipped": 0, "ok": 4}, wrong(found)


def test_without_a_policy_nothing_is_said(patient: Patient) -> None:
    assert patient.examine(*POWER).summary["skipped"] == 4
    assert patient.examine(*POWER, POWER__MODE="off").summary["skipped"] == 4


def test_a_policy_that_cannot_be_used_is_found(patient: Patient) -> None:
    found = patient.examine(*POWER, **power(patient, feed={"query": "a", "csv": "b"}))
    assert set(wrong(found)) == {"power-feed"}


@pytest.mark.parametrize("fault", ["power_silent", "power_frozen"])
def test_a_feed_without_a_usable_sample_is_found(patient: Patient, fault: str) -> None:
    settings = power(patient, feed={"url": patient.cluster.power_url, "jsonPath": "$.watts", "timePath": "$.nothing"})
    if fault == "power_silent":
        patient.cluster.faults.power_silent()
        settings = power(patient)
    found = patient.only("power-feed", **settings)
    assert found.status == "fail"
    assert found.fix


def test_a_feed_that_cannot_be_reached_is_found(patient: Patient) -> None:
    found = patient.only("power-feed", **power(patient, feed={"url": "http://127.0.0.1:9/watts"}))
    assert found.status == "fail"


def test_watts_that_can_hardly_be_right_are_found(patient: Patient) -> None:
    member = {"wattsPerReplica": 1e9}
    found = patient.only("power-feed", **power(patient, member=member))
    assert (found.status, "check its unit" in found.message) == ("warn", True)
    schedule = {"url": "http://127.0.0.1:9/rows", "unit": "kW"}
    found = patient.only("power-feed", **power(patient, schedule=schedule))
    assert (found.status, "the schedule cannot be read" in found.message) == ("fail", True)


@pytest.mark.parametrize("key", ["feed", "consumption"])
def test_no_finding_shows_the_credentials_of_a_feed(patient: Patient, key: str) -> None:
    secret = {"url": "http://user:Pa55word@127.0.0.1:9/watts?api_key=S3cretKey", "jsonPath": "$.watts"}
    findings = patient.examine(*POWER, **power(patient, **{key: secret})).findings
    [finding] = [finding for finding in findings if finding.check == f"power-{key}"]
    assert finding.status == "fail"
    assert finding.fix[0] == "curl -sS 'http://********@127.0.0.1:9/watts?********'"
    assert finding.fix[1].startswith(f"{key}: {{url: 'http://********@127.0.0.1:9/watts?********', jsonPath:")
    assert not [text for text in ("Pa55word", "S3cretKey", "user:") if text in repr(findings)]


def test_a_consumption_that_cannot_be_read_is_found(patient: Patient) -> None:
    found = patient.examine(*POWER, **power(patient, consumption={"url": "http://127.0.0.1:9/watts"}))
    assert set(wrong(found)) == {"power-consumption"}


@pytest.mark.parametrize("ref", ["prod/nobody", "rollouts.argoproj.io/prod/api"])
def test_a_target_that_does_not_exist_is_found(patient: Patient, ref: str) -> None:
    found = patient.only("power-targets", **power(patient, ref))
    assert found.status == "fail"
    assert found.fix[0].startswith("kubectl -n prod get ")


def test_a_target_whose_claims_a_fall_would_delete_is_found(patient: Patient) -> None:
    patient.create("Namespace", "prod", "")
    kept = {"whenDeleted": "Retain", "whenScaled": "Delete"}
    spec = {"replicas": 3, "volumeClaimTemplates": [{"metadata": {"name": "data"}}]}
    patient.create("StatefulSet", "db", "prod", spec={**spec, "persistentVolumeClaimRetentionPolicy": kept})
    found = patient.only("power-targets", **power(patient, "statefulsets.apps/prod/db"))
    assert found.status == "fail"
    assert "would delete volume claims" in found.message
    assert found.fix[0].startswith("kubectl -n prod patch statefulsets.apps db ")
    assert found.fix[1] == "deleteClaims: true"
    said = power(patient, "statefulsets.apps/prod/db", member={"deleteClaims": True})
    assert patient.only("power-targets", **said).status == "ok"
    patient.create("StatefulSet", "cache", "prod", spec=spec)
    assert patient.only("power-targets", **power(patient, "statefulsets.apps/prod/cache")).status == "ok"


def autoscaler(patient: Patient, name: str, ref: str, least: int = 1) -> None:
    namespace, _, of = ref.partition("/")
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": of}
    spec = {"scaleTargetRef": target, "minReplicas": least, "maxReplicas": 60}
    patient.create("HorizontalPodAutoscaler", name, namespace, spec=spec)


def test_two_autoscalers_of_one_target_are_found(patient: Patient) -> None:
    ref = target(patient)
    autoscaler(patient, "one", ref)
    assert patient.only("power-autoscalers", **power(patient)).status == "ok"
    autoscaler(patient, "two", ref)
    found = patient.only("power-autoscalers", **power(patient))
    assert found.status == "fail"
    assert "one" in found.message
    assert "two" in found.message


def test_an_autoscaler_that_leaves_no_room_is_found(patient: Patient) -> None:
    autoscaler(patient, "one", target(patient), least=55)
    assert patient.only("power-autoscalers", **power(patient)).status == "fail"


def test_a_paused_scaled_object_is_found(patient: Patient) -> None:
    namespace, _, name = target(patient).partition("/")
    notes = {"autoscaling.keda.sh/paused": "true"}
    spec = {"scaleTargetRef": {"name": name}, "maxReplicaCount": 60}
    patient.create("ScaledObject", "paused", namespace, annotations=notes, spec=spec)
    found = patient.only("power-autoscalers", **power(patient))
    assert found.status == "fail"
    assert "autoscaling.keda.sh/paused-" in found.fix[0]


@pytest.mark.parametrize(
    ("spec", "expected", "never"),
    [
        ({"maxUnavailable": 0}, 3, True),
        ({"maxUnavailable": "0%"}, 3, True),
        ({"maxUnavailable": 1}, 3, False),
        ({"maxUnavailable": "1%"}, 3, False),
        ({"minAvailable": "100%"}, 0, True),
        ({"minAvailable": 3}, 3, True),
        ({"minAvailable": 2}, 3, False),
        ({"minAvailable": "50%"}, 1, True),
        ({"minAvailable": "50%"}, 2, False),
        ({"minAvailable": 2}, 0, False),
        ({}, 3, False),
    ],
)
def test_budgets_that_never_allow_anything(spec: dict[str, Any], expected: int, never: bool) -> None:
    assert (unsatisfiable({"spec": spec, "status": {"expectedPods": expected}}) is not None) is never


def test_a_budget_that_never_allows_anything_is_found(patient: Patient) -> None:
    assert patient.only("budgets-unsatisfiable").status == "ok"
    patient.create(
        "PodDisruptionBudget", "all", "default", spec={"maxUnavailable": 0, "selector": {"matchLabels": {"a": "b"}}}
    )
    found = patient.only("budgets-unsatisfiable")
    assert (found.status, found.subject) == ("warn", "default/all")
    assert patient.only("budgets-unsatisfiable", EVICTION__MODE="off").status == "skipped"


def test_evictions_whose_pods_land_anywhere_are_found(patient: Patient) -> None:
    on = {"EVICTION__MODE": "on"}
    assert patient.only("eviction-landing").status == "skipped"
    assert patient.only("eviction-landing", **on).status == "warn"
    text = extender_profile("http://ballast-extender.ballast:2020", "by-extender")
    patient.create("ConfigMap", "scheduler", "kube-system", data={"config.yaml": text})
    assert patient.only("eviction-landing", **on).status == "ok"


def test_an_extender_that_is_open_to_strangers_is_found(patient: Patient) -> None:
    assert patient.only("extender-open").status == "skipped"
    assert patient.only("extender-open", HTTP__HOST="0.0.0.0").status == "warn"
    assert patient.only("extender-open", HTTP__HOST="127.0.0.1").status == "ok"
    patient.pod()
    found = patient.only("extender-open")
    assert found.status == "warn"
    assert found.fix[0].startswith("BALLAST_HTTP__CLIENT_CA_FILE=")


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        ({"ingress": [{"ports": [{"port": "http"}], "from": [{"podSelector": {}}]}]}, "ok"),
        ({"ingress": [{"ports": [{"port": 2021}]}]}, "ok"),
        ({"ingress": [{"ports": [{"port": "http"}]}]}, "warn"),
        ({"ingress": [{"ports": [{"port": 2000, "endPort": 2100}]}]}, "warn"),
        ({"ingress": [{}]}, "warn"),
        ({"policyTypes": ["Ingress"]}, "ok"),
        ({"policyTypes": ["Egress"]}, "warn"),
        ({"podSelector": {"matchLabels": {"app": "other"}}}, "warn"),
    ],
)
def test_a_network_policy_says_who_may_call(patient: Patient, spec: dict[str, Any], status: str) -> None:
    patient.pod()
    patient.create("NetworkPolicy", "ballast", spec={"podSelector": {}, **spec})
    assert patient.only("extender-open").status == status


def test_every_check_of_the_interface_is_there() -> None:
    assert len(CHECKS) == 35
