"""The helm line for this cluster: its Prometheus, its platform, its scheduler; and what was taken for granted."""

import json
from contextlib import suppress
from typing import Any

import pytest
from typer.testing import CliRunner

from ballast.cli.app import app
from ballast_lab.simulator.kube.api_errors import ApiError
from ballast_lab.simulator.kube.kinds import BY_NAME, NODE
from ballast_lab.simulator.kube.patching import MERGE
from tests.unit.doctor.conftest import Patient


def prometheus(
    patient: Patient, name: str = "monitoring-kube-prometheus-prometheus", namespace: str = "monitoring", **more: Any
) -> None:
    with suppress(ApiError):  # it is there already
        patient.cluster.resources.create(BY_NAME["Namespace"], "", {"metadata": {"name": namespace}})
    patient.create("Service", name, namespace, spec={"ports": [{"port": more.pop("port", 9090)}]}, **more)


def line(patient: Patient, **settings: str) -> str:
    return patient.examine("units", **settings).install


def test_the_service_of_prometheus_is_named_and_its_operator_is_not(patient: Patient) -> None:
    prometheus(patient, labels={"release": "monitoring"})
    prometheus(patient, "prometheus-operated")
    prometheus(patient, "monitoring-kube-prometheus-operator", port=443)
    prometheus(patient, "prometheus-node-exporter", port=9100)
    text = line(patient)
    assert text.startswith("helm install ballast charts/ballast --namespace ballast --create-namespace --set ")
    assert "--set settings.prometheus.url=http://monitoring-kube-prometheus-prometheus.monitoring:9090" in text
    assert "operator" not in text


def test_an_address_inside_the_cluster_stays(patient: Patient) -> None:
    prometheus(patient)
    url = "http://prometheus.other.example:9090"
    assert f"--set settings.prometheus.url={url}" in line(patient, PROMETHEUS__URL=url)


def test_without_a_prometheus_metrics_server_is_the_source(patient: Patient) -> None:
    assert "--set settings.telemetry.source=metrics-server" in line(patient)
    patient.cluster.faults.metrics_server_missing()
    report = patient.examine("units")
    assert "http://PROMETHEUS:9090" in report.install
    assert "no Prometheus was found: PROMETHEUS is its address" in report.assumed


@pytest.mark.parametrize(
    ("label", "platform"),
    [
        ("eks.amazonaws.com/nodegroup", "EKS"),
        ("cloud.google.com/gke-nodepool", "GKE"),
        ("node.openshift.io/os_id", "OpenShift"),
    ],
)
def test_managed_control_planes_get_the_second_scheduler(patient: Patient, label: str, platform: str) -> None:
    patient.cluster.resources.patch(
        NODE, "", patient.cluster.world.node_names[0], MERGE, {"metadata": {"labels": {label: "a"}}}
    )
    report = patient.examine("units")
    assert "--set scheduler.enabled=true" in report.install
    assert any(platform in assumption for assumption in report.assumed)
    assert ("podSecurityContext.runAsUser=null" in report.install) == (platform == "OpenShift")


def test_the_image_is_where_it_was_brought_to(patient: Patient) -> None:
    assert "--set image.repository=REGISTRY/ballast" in line(patient)
    name = patient.cluster.world.node_names[0]
    spec = {"spec": {"providerID": f"kind://docker/kind/{name}"}}
    patient.cluster.resources.patch(NODE, "", name, MERGE, spec)
    assert "--set image.repository=ballast" in line(patient)


def test_a_scheduler_of_ones_own_is_not_doubled(patient: Patient) -> None:
    spec = {"containers": [{"name": "kube-scheduler", "image": "kube-scheduler"}]}
    patient.create("Pod", "kube-scheduler-a", "kube-system", labels={"component": "kube-scheduler"}, spec=spec)
    report = patient.examine("units")
    assert "scheduler.enabled" not in report.install
    assert any("ballast profile labels" in assumption for assumption in report.assumed)


def test_an_installation_is_upgraded(patient: Patient) -> None:
    spec = {"selector": {}, "template": {}}
    patient.create("Deployment", "ballast", labels={"app.kubernetes.io/name": "ballast"}, spec=spec)
    assert "helm upgrade ballast charts/ballast --namespace ballast --reset-then-reuse-values" in line(patient)


def test_a_cluster_that_does_not_answer_gets_a_line_with_what_is_assumed(patient: Patient) -> None:
    patient.cluster.faults.kube_reset()
    report = patient.examine("units")
    assert report.install.startswith("helm install ballast")
    assert any("Services were not looked at" in assumption for assumption in report.assumed)


def test_the_fix_for_a_silent_prometheus_names_services_that_exist(patient: Patient) -> None:
    prometheus(patient, "prometheus-server", "metrics", port=80)
    finding = patient.only("prometheus-reachable", PROMETHEUS__URL="http://prometheus-operated.monitoring:9090")
    assert finding.status == "fail"
    assert finding.fix[0] == "BALLAST_PROMETHEUS__URL=http://prometheus-server.metrics:80"
    assert not any("prometheus-operated" in fix for fix in finding.fix)
    inside = "kubectl -n ballast exec deploy/ballast -- ballast doctor"
    assert not any(inside in fix for fix in finding.fix), "nothing is installed there"
    spec = {"selector": {}, "template": {}}
    patient.create("Deployment", "ballast", labels={"app.kubernetes.io/name": "ballast"}, spec=spec)
    finding = patient.only("prometheus-reachable", PROMETHEUS__URL="http://prometheus-operated.monitoring:9090")
    assert any(inside in fix for fix in finding.fix)


def test_checks_of_series_are_not_green_where_there_are_none(patient: Patient) -> None:
    patient.cluster.faults.prometheus_empty()
    report = patient.examine("node-label", "freshness", "units", "clock-skew", "clusters-mixed", "scrape-interval")
    assert {finding.status for finding in report.findings} == {"skipped"}
    assert all("not looked at" in finding.message for finding in report.findings)


def test_text_and_json_end_with_the_line(patient: Patient) -> None:
    run = CliRunner()
    answer = json.loads(run.invoke(app, ["doctor", "--only", "units", "-o", "json"], env=patient.environment).stdout)
    assert answer["install"].startswith("helm install ballast")
    text = run.invoke(app, ["doctor", "--only", "units"], env=patient.environment).stdout
    assert answer["install"] in text
    assert text.rstrip().splitlines()[-1].lstrip()


@pytest.mark.parametrize(("there", "line_of"), [((), "ballast"), (("load",), "load"), (("load", "more"), "ballast")])
def test_without_a_namespace_it_is_where_ballast_is_or_the_one_that_every_page_names(
    patient: Patient, there: tuple[str, ...], line_of: str
) -> None:
    """A kubeconfig without a namespace once led to `default`, and the README's next line to "not found"."""
    del patient.environment["BALLAST_LEASE__NAMESPACE"]
    for name in there:
        patient.cluster.resources.create(BY_NAME["Namespace"], "", {"metadata": {"name": name}})
        labels = {"app.kubernetes.io/name": "ballast"}
        patient.create("Deployment", "ballast", name, labels=labels, spec={"selector": {}, "template": {}})
    assert f" ballast charts/ballast --namespace {line_of} " in line(patient)
