"""What the chart renders is valid, restricted, and the same for Helm 3 and 4."""

import json
import re
from functools import cache
from typing import Any

import kubernetes_validate
import pytest

from tests.unit.install.test_version import SEMANTIC
from tests.worlds.chart import (
    CHART,
    EVERYTHING,
    MONITORING,
    NAMESPACE,
    NEIGHBOURS,
    POWER,
    PUBLISHING,
    SCHEDULER,
    Helm,
    Values,
    of_kind,
    one,
    pod_templates,
    with_source,
)

pytestmark = pytest.mark.slow

VALUE_SETS: dict[str, Values] = {"default": {}, "publishing": PUBLISHING, "power": POWER, "everything": EVERYTHING}
VALUE_SETS |= {"scheduler": SCHEDULER, "neighbours": NEIGHBOURS}
CUSTOM = ("ServiceMonitor", "PodMonitor", "PrometheusRule", "Certificate", "Issuer", "GrafanaDashboard")
CUSTOM_VERSIONS = {"monitoring.coreos.com/v1", "cert-manager.io/v1", "grafana.integreatly.org/v1beta1"}


@pytest.fixture(params=VALUE_SETS)
def values(request: pytest.FixtureRequest) -> Values:
    return VALUE_SETS[request.param]


@cache
def accept(manifest: str, kubernetes: str) -> None:
    """Each manifest as JSON once: most are the same whatever the values, and each reads all schemas again."""
    kubernetes_validate.validate(json.loads(manifest), kubernetes, strict=True)


@pytest.mark.parametrize("kubernetes", ["1.30", "1.34", "1.35", "1.36", "1.37"])
def test_every_manifest_is_what_kubernetes_accepts(helm: Helm, values: Values, kubernetes: str) -> None:
    if kubernetes < "1.36":
        values = {**values, "scheduler": {**values.get("scheduler", {}), "optIn": {"namespaceSelector": None}}}
    manifests = helm.template(values, *MONITORING, "--kube-version", kubernetes)
    for manifest in manifests:
        if manifest["kind"] not in CUSTOM:
            accept(json.dumps(manifest), kubernetes)
    assert {manifest["apiVersion"] for manifest in of_kind(manifests, *CUSTOM)} <= CUSTOM_VERSIONS


def test_annotations_of_pods_reach_every_pod(helm: Helm) -> None:
    given = {"podAnnotations": {"sidecar.istio.io/inject": "false", "note": "yes: no"}, "cleanup": "always"}
    pods = pod_templates(helm.template({**EVERYTHING, "watchdog": {"enabled": True}, **given}))
    assert {name.partition("/")[0] for name in pods} == {"Deployment", "CronJob", "Job", "Pod"}
    assert len(pods) >= 5
    for name, pod in pods.items():
        assert given["podAnnotations"].items() <= pod["metadata"].get("annotations", {}).items(), name
    bare = pod_templates(helm.template({**EVERYTHING, "podAnnotations": {}}))
    assert {name for name, pod in bare.items() if "annotations" in pod["metadata"]} <= {
        "Deployment/ballast",
        "Pod/ballast-test",
    }


def test_helm_lints_the_chart_without_a_warning(helm: Helm, values: Values) -> None:
    said = helm.run("lint", CHART, "--strict", "--kube-version", "1.36", values=with_source(values))
    assert "WARNING" not in said
    assert "0 chart(s) failed" in said


def test_objects_are_unique_and_live_in_the_release_namespace(helm: Helm, values: Values) -> None:
    manifests = helm.template(values, *MONITORING, "--kube-version", "1.36")
    names = [(each["kind"], each["metadata"]["name"], each["metadata"].get("namespace")) for each in manifests]
    assert len(set(names)) == len(names)
    cluster_wide = (
        "ClusterRole",
        "ClusterRoleBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
    )
    for kind, name, namespace in names:
        if (kind, namespace) == ("RoleBinding", "kube-system"):
            assert name == f"ballast-scheduler.{NAMESPACE}"
            continue
        if kind in cluster_wide:
            assert namespace is None
            assert name.endswith(f".{NAMESPACE}"), "a second Ballast in another namespace would fight over it"
        elif namespace in ("shop", "batch"):
            assert (kind, name) in (("Role", f"ballast.{NAMESPACE}"), ("RoleBinding", f"ballast.{NAMESPACE}"))
        else:
            assert namespace == NAMESPACE


def test_the_application_version_is_that_of_the_package(helm: Helm) -> None:
    chart = helm.run("show", "chart", CHART)
    assert re.search(rf"^appVersion: {re.escape(SEMANTIC)}$", chart, re.MULTILINE)
    deployment = one(helm.template(), "Deployment", "ballast")
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == f"ballast:{SEMANTIC}"


def test_an_image_digest_wins_over_the_tag(helm: Helm) -> None:
    digest = f"sha256:{'a' * 64}"
    for pod in pod_templates(helm.template({**PUBLISHING, "image": {"tag": "x", "digest": digest}})).values():
        assert pod["spec"]["containers"][0]["image"] == f"ballast@{digest}"


POD_RULES: dict[str, Any] = {
    "not root": lambda spec: spec["securityContext"]["runAsNonRoot"] is True,
    "a fixed user": lambda spec: spec["securityContext"]["runAsUser"] > 0 and spec["securityContext"]["runAsGroup"] > 0,
    "the runtime's seccomp profile": lambda spec: (
        spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    ),
    "nothing of the host": lambda spec: not any(spec.get(key) for key in ("hostNetwork", "hostPID", "hostIPC")),
    "no host paths": lambda spec: all("hostPath" not in volume for volume in spec.get("volumes", [])),
    "no injected Service variables": lambda spec: spec["enableServiceLinks"] is False,
    "an explicit token mount": lambda spec: isinstance(spec["automountServiceAccountToken"], bool),
}
CONTAINER_RULES: dict[str, Any] = {
    "no privilege escalation": lambda box: box["securityContext"]["allowPrivilegeEscalation"] is False,
    "no capabilities": lambda box: box["securityContext"]["capabilities"] == {"drop": ["ALL"]},
    "a read-only root": lambda box: box["securityContext"]["readOnlyRootFilesystem"] is True,
    "not privileged": lambda box: not box["securityContext"].get("privileged"),
    "a memory limit": lambda box: "memory" in box["resources"]["limits"],
    "requests": lambda box: {"cpu", "memory"} <= set(box["resources"]["requests"]),
    "no host port": lambda box: all("hostPort" not in port for port in box.get("ports", [])),
}


@pytest.mark.parametrize("rule", [*POD_RULES, *CONTAINER_RULES])
def test_every_pod_is_restricted(helm: Helm, values: Values, rule: str) -> None:
    pods = pod_templates(helm.template(values, "--kube-version", "1.36"))
    assert "Deployment/ballast" in pods
    for pod in pods.values():
        if rule in POD_RULES:
            assert POD_RULES[rule](pod["spec"])
        else:
            assert all(CONTAINER_RULES[rule](box) for box in pod["spec"]["containers"])


def test_the_daemon_writes_only_to_a_temporary_folder(helm: Helm) -> None:
    spec = one(helm.template(EVERYTHING), "Deployment", "ballast")["spec"]["template"]["spec"]
    writable = [mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"] if not mount.get("readOnly")]
    assert writable == ["/tmp"]
    assert {"name": "tmp", "emptyDir": {}} in spec["volumes"]


def test_probes_ask_for_life_and_readiness_apart(helm: Helm) -> None:
    box = one(helm.template(), "Deployment", "ballast")["spec"]["template"]["spec"]["containers"][0]
    paths = {probe: box[f"{probe}Probe"]["httpGet"]["path"] for probe in ("startup", "liveness", "readiness")}
    assert paths == {"startup": "/livez", "liveness": "/livez", "readiness": "/readyz"}


def test_two_replicas_are_kept_apart_and_one_at_a_time_may_go(helm: Helm) -> None:
    manifests = helm.template()
    spec = one(manifests, "Deployment", "ballast")["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["replicas"] == 2
    assert spec["template"]["spec"]["topologySpreadConstraints"][0]["topologyKey"] == "kubernetes.io/hostname"
    budget = one(manifests, "PodDisruptionBudget", "ballast")["spec"]
    assert budget["maxUnavailable"] == 1
    assert budget["selector"]["matchLabels"].items() <= labels.items()
    assert spec["selector"]["matchLabels"].items() <= labels.items()


def test_a_single_replica_has_no_disruption_budget_that_would_do_nothing(helm: Helm) -> None:
    assert not of_kind(helm.template({"replicas": 1}), "PodDisruptionBudget")


def test_one_service_finds_all_replicas_and_the_other_the_leader(helm: Helm, values: Values) -> None:
    manifests = helm.template(values, "--kube-version", "1.36")
    pods = pod_templates(manifests)
    daemon = pods.pop("Deployment/ballast")["metadata"]["labels"]
    everybody = one(manifests, "Service", "ballast")["spec"]["selector"]
    assert everybody.items() <= daemon.items()
    leader = one(manifests, "Service", "ballast-extender")["spec"]
    assert "selector" not in leader, "the leader writes its EndpointSlice"
    assert [port["name"] for port in leader["ports"]] == ["http"]
    for other in pods.values():
        assert not everybody.items() <= other["metadata"]["labels"].items()


def test_services_lead_to_the_port_that_is_set(helm: Helm) -> None:
    manifests = helm.template({"settings": {"http": {"port": 8080}}, "service": {"port": 80}})
    box = one(manifests, "Deployment", "ballast")["spec"]["template"]["spec"]["containers"][0]
    assert box["ports"] == [{"name": "http", "containerPort": 8080}, {"name": "health", "containerPort": 2021}]
    for service in of_kind(manifests, "Service"):
        assert service["spec"]["ports"] == [{"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}]


def test_the_service_monitor_scrapes_each_replica_once(helm: Helm) -> None:
    manifests = helm.template(EVERYTHING, *MONITORING)
    wanted = one(manifests, "ServiceMonitor", "ballast")["spec"]["selector"]["matchLabels"]
    chosen = [
        s["metadata"]["name"]
        for s in of_kind(manifests, "Service")
        if wanted.items() <= s["metadata"]["labels"].items()
    ]
    assert chosen == ["ballast"]


def test_monitoring_objects_wait_for_a_cluster_that_knows_them(helm4: Helm) -> None:
    assert not of_kind(helm4.template(EVERYTHING), *CUSTOM)
    assert "ServiceMonitor and PrometheusRule were left out" in helm4.notes(EVERYTHING)


def test_optional_objects_are_off_by_default(helm: Helm) -> None:
    kinds = {manifest["kind"] for manifest in helm.template({}, *MONITORING)}
    assert kinds == {
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
        "Secret",
        "Service",
        "Deployment",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "Pod",
        "Job",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }


def test_both_helms_render_the_same(binaries: Any) -> None:
    values = {**EVERYTHING, "extender": {"token": {"create": False}}}  # the token is random
    three, four = (
        sorted(map(str, Helm(binaries / version / "helm").template(values, *MONITORING))) for version in ("3", "4")
    )
    assert three == four


def test_by_default_strangers_reach_the_probes_alone(helm: Helm) -> None:
    policy = one(helm.template({}), "NetworkPolicy", "ballast")["spec"]
    probes, rest = policy["ingress"]
    assert probes == {"ports": [{"port": "health", "protocol": "TCP"}]}
    assert rest["ports"] == [{"port": "http", "protocol": "TCP"}]
    namespaces = [
        each["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
        for each in rest["from"]
        if "namespaceSelector" in each
    ]
    assert namespaces == ["kube-system", "monitoring"]
    assert {"podSelector": {}} in rest["from"]
    assert policy["egress"] == [{}]


def test_an_extender_with_a_port_of_its_own_is_let_through(helm: Helm) -> None:
    values = {"settings": {"http": {"extender_bind": "[::]:2022"}}}
    probes, rest = one(helm.template(values), "NetworkPolicy", "ballast")["spec"]["ingress"]
    assert [each["port"] for each in probes["ports"]] == ["health"]
    assert [each["port"] for each in rest["ports"]] == ["http", 2022]


def test_another_name_of_the_release_names_the_extender_s_service(helm: Helm) -> None:
    def service(values: Values) -> list[str]:
        [box] = one(helm.template(values), "Deployment", values.get("fullnameOverride", "ballast"))["spec"]["template"][
            "spec"
        ]["containers"]
        return [each["value"] for each in box["env"] if each["name"] == "BALLAST_EXTENDER__SERVICE"]

    assert service({}) == []
    assert service({"fullnameOverride": "other"}) == ["other-extender"]
