"""What is wrong with the API server, the rights, the Lease and other installations is found."""

from datetime import UTC, datetime, timedelta

import pytest

from ballast.doctor.rights import needed
from ballast.settings import load
from tests.unit.doctor.conftest import Patient


def ago(seconds: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat(timespec="microseconds").replace("+00:00", "Z")


def test_an_api_server_that_does_not_answer_is_named_once(patient: Patient) -> None:
    patient.cluster.faults.kube_reset()
    found = patient.examine("kubernetes-reachable", "rbac", "lease", "second-ballast", "metrics-server")
    by_check = {each.check: each for each in found.findings}
    assert by_check["kubernetes-reachable"].status == "fail"
    assert by_check["kubernetes-reachable"].fix[0].startswith("BALLAST_CLUSTER__KUBECONFIG=")
    assert {by_check[name].status for name in ("rbac", "lease", "second-ballast")} == {"skipped"}


def test_refused_credentials_are_found(patient: Patient) -> None:
    patient.cluster.faults.kube_401()
    assert patient.only("kubernetes-reachable").status == "fail"


@pytest.mark.parametrize(
    ("verb", "resource", "settings"),
    [
        ("watch", "nodes", {}),
        ("list", "pods", {}),
        ("patch", "nodes", {"PUBLISHING__MODE": "on"}),
        ("create", "pods/eviction", {"EVICTION__MODE": "on"}),
        ("patch", "pods/status", {"EVICTION__MODE": "on", "EVICTION__NOMINATE": "true"}),
        ("create", "events", {"PUBLISHING__MODE": "on"}),
        ("update", "leases", {}),
        ("get", "configmaps", {}),
        ("list", "poddisruptionbudgets", {}),
        ("patch", "pods", {"BATCH__MODE": "on"}),
    ],
)
def test_a_missing_right_is_found_with_the_line_that_grants_it(
    patient: Patient, verb: str, resource: str, settings: dict[str, str]
) -> None:
    assert patient.only("rbac", **settings).status == "ok"
    patient.cluster.faults.kube_forbidden(verb, resource)
    found = patient.only("rbac", **settings)
    assert found.status == "fail"
    assert verb in found.message
    plural, _, subresource = resource.partition("/")
    assert f"--verb={verb}" in found.fix[0]
    assert f"--resource={plural}" in found.fix[0]
    assert subresource in found.fix[0]
    assert "binding" in found.fix[1]


def test_rights_follow_the_modes() -> None:
    off = load({f"BALLAST_{part}__MODE": "off" for part in ("PUBLISHING", "EVICTION", "POWER", "BATCH")})
    rights = needed(off, (), "ballast")
    assert {right.resource for right in rights} == {"nodes", "pods", "resourceclaims", "resourceslices"}
    assert {verb for right in rights for verb in right.verbs} == {"get", "list", "watch"}


def test_the_holder_of_the_lease_is_told(patient: Patient) -> None:
    assert patient.only("lease").status == "skipped"
    patient.pod()
    assert patient.only("lease").status == "fail"
    patient.lease("ballast-0_aa", ago(2))
    found = patient.only("lease")
    assert (found.status, found.subject) == ("ok", "ballast/ballast")
    assert "ballast-0_aa holds it" in found.message


@pytest.mark.parametrize(("age", "status"), [(3600.0, "fail"), (90.0, "fail"), (-3600.0, "warn")])
def test_a_lease_that_nobody_renews_is_found(patient: Patient, age: float, status: str) -> None:
    patient.lease("ballast-0_aa", ago(age))
    found = patient.only("lease")
    assert found.status == status
    assert found.fix


def test_a_lease_that_was_given_back_is_found_while_pods_run(patient: Patient) -> None:
    patient.pod()
    patient.lease("", ago(1))
    assert patient.only("lease").status == "fail"


def test_a_holder_from_elsewhere_is_a_second_ballast(patient: Patient) -> None:
    patient.pod()
    patient.lease("laptop_aa", ago(1))
    found = patient.only("second-ballast")
    assert found.status == "warn"
    assert "laptop_aa" in found.message


def test_a_live_lease_of_another_namespace_is_a_second_ballast(patient: Patient) -> None:
    patient.lease("other-0_aa", ago(1), "default")
    found = patient.only("second-ballast")
    assert (found.status, found.subject) == ("warn", "default/ballast")
    assert found.fix[0] == "kubectl -n default scale deployment ballast --replicas=0"


def test_an_abandoned_lease_of_another_namespace_is_none(patient: Patient) -> None:
    patient.lease("other-0_aa", ago(1000), "default")
    assert patient.only("second-ballast").status == "ok"


def test_another_deployment_is_a_second_ballast(patient: Patient) -> None:
    labels = {"app.kubernetes.io/name": "ballast"}
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "b", "image": "b"}]}},
    }
    patient.create("Deployment", "load", labels=labels, spec=spec)
    assert patient.only("second-ballast").status == "ok"
    patient.create("Deployment", "load", "default", labels=labels, spec=spec)
    assert patient.only("second-ballast").subject == "default/load"


def test_scores_under_another_prefix_are_a_second_ballast(patient: Patient) -> None:
    assert patient.only("second-ballast", PUBLISHING__PREFIX="mine.example").status == "ok"
    from ballast_lab.simulator.kube.kinds import NODE
    from ballast_lab.simulator.kube.patching import MERGE

    labels = {"metadata": {"labels": {"ballast.dev/score": "3", "ballast.dev/load": "low"}}}
    name = patient.cluster.world.node_names[0]
    patient.cluster.resources.patch(NODE, "", name, MERGE, labels)
    assert patient.only("second-ballast").status == "ok"
    found = patient.only("second-ballast", PUBLISHING__PREFIX="mine.example")
    assert found.status == "warn"
    assert "ballast.dev" in found.message


def test_what_would_take_too_long_is_skipped(patient: Patient) -> None:
    found = patient.examine("lease", "rbac", within=-1.0)
    assert found.summary["skipped"] == 2
    assert found.findings[0].message.endswith("--only rbac")


def test_nothing_is_changed(patient: Patient) -> None:
    patient.examine()
    writes = {what for verb, what in patient.cluster.requests if verb in ("create", "update", "patch", "delete")}
    assert writes == {"selfsubjectaccessreviews"}
