"""The second kube-scheduler, its certificate, and what is mounted where."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ballast.publishing.scheduler_profiles import extender_profile, labels_profile
from tests.worlds.chart import (
    EVERYTHING,
    MONITORING,
    NAMESPACE,
    SCHEDULER,
    Helm,
    Manifest,
    RenderFailed,
    Values,
    environment,
    of_kind,
    one,
    pod_templates,
)

pytestmark = pytest.mark.slow

TLS_URL = f"https://ballast-extender.{NAMESPACE}.svc:2020"
NEW = ("--kube-version", "1.36.3")


def configuration(manifests: list[Manifest]) -> dict[str, Any]:
    found = yaml.safe_load(one(manifests, "ConfigMap", "ballast-scheduler")["data"]["config.yaml"])
    assert isinstance(found, dict)
    return found


def with_scheduler(**more: object) -> Values:
    return {"scheduler": {"enabled": True, **more}}


def test_there_is_no_second_scheduler_unless_it_is_asked_for(helm: Helm) -> None:
    assert "Deployment/ballast-scheduler" not in pod_templates(helm.template())


def test_its_profile_is_the_one_that_ballast_profile_prints(helm: Helm) -> None:
    printed = yaml.safe_load(extender_profile(TLS_URL, "ballast"))
    printed["extenders"][0]["tlsConfig"] = {"caFile": "/etc/ballast/tls/ca.crt"}
    printed["extenders"][0]["urlPrefix"] += "/EXTENDER-TOKEN"
    lease = {"leaderElect": True, "resourceName": "ballast-scheduler", "resourceNamespace": NAMESPACE}
    found = configuration(helm.template(SCHEDULER, *NEW))
    assert found == {**printed, "leaderElection": lease}
    by_labels = {**with_scheduler(pairing="labels", name="loaded"), "settings": {"publishing": {"prefix": "x.org"}}}
    assert configuration(helm.template(by_labels)) == {
        **yaml.safe_load(labels_profile("x.org", "loaded")),
        "leaderElection": lease,
    }
    by_labels["settings"]["publishing"]["label_prefix"] = "y.org"
    assert configuration(helm.template(by_labels)) == {
        **yaml.safe_load(labels_profile("y.org", "loaded")),
        "leaderElection": lease,
    }


def test_its_lease_is_not_the_daemons(helm: Helm) -> None:
    manifests = helm.template(with_scheduler())
    names = [rule.get("resourceNames") for rule in one(manifests, "Role", "ballast-scheduler")["rules"]]
    assert names == [None, ["ballast-scheduler"]]


@pytest.mark.parametrize(
    ("cluster", "version"),
    [("v1.36.3", "v1.36.3"), ("v1.33.5-eks-3025e55", "v1.33.5"), ("v1.35.1-gke.1396000", "v1.35.1"),
     ("v1.34.2+k3s1", "v1.34.2")],
)  # fmt: skip
def test_its_version_is_the_clusters(helm: Helm, cluster: str, version: str) -> None:
    pod = pod_templates(helm.template(with_scheduler(), "--kube-version", cluster))["Deployment/ballast-scheduler"]
    assert pod["spec"]["containers"][0]["image"] == f"registry.k8s.io/kube-scheduler:{version}"


def test_its_image_may_come_from_elsewhere(helm: Helm) -> None:
    own = {"registry": "quay.io", "repository": "x/kube-scheduler"}
    manifests = helm.template(with_scheduler(version="v1.35.4", image=own, pairing="trimaran"))
    images = {name: pod["spec"]["containers"][0]["image"] for name, pod in pod_templates(manifests).items()}
    assert images["Deployment/ballast-scheduler"] == "quay.io/x/kube-scheduler:v1.35.4"
    mirrored = {**with_scheduler(version="v1.35.4"), "global": {"imageRegistry": "mirror.example.org/"}}
    pods = pod_templates(helm.template(mirrored))
    images = {name: pod["spec"]["containers"][0]["image"] for name, pod in pods.items()}
    assert images["Deployment/ballast-scheduler"] == "mirror.example.org/kube-scheduler:v1.35.4"
    assert images["Deployment/ballast"].startswith("mirror.example.org/ballast:")
    named = helm.template({"image": {"registry": "ghcr.io/example", "tag": "1"}})
    assert one(named, "Deployment", "ballast")["spec"]["template"]["spec"]["containers"][0]["image"] == (
        "ghcr.io/example/ballast:1"
    )


def test_the_extender_is_asked_over_tls_with_the_charts_own_authority(helm: Helm) -> None:
    manifests = helm.template(with_scheduler(), *NEW)
    assert "data" not in one(manifests, "Secret", "ballast-serving"), "the first pod fills it"
    daemon, scheduler = (
        pod_templates(manifests)[f"Deployment/{name}"]["spec"] for name in ("ballast", "ballast-scheduler")
    )
    given = environment(daemon["containers"][0])
    assert given["BALLAST_HTTP__TLS_CERT_FILE"] == "/etc/ballast/tls/tls.crt"
    mount = {"name": "made", "mountPath": "/etc/ballast/tls", "readOnly": True}
    assert mount in daemon["containers"][0]["volumeMounts"]
    [making] = daemon["initContainers"]
    assert "--certificate=ballast-serving" in making["args"]
    assert f"--host=ballast-extender.{NAMESPACE}.svc" in making["args"]
    [volume] = [each for each in scheduler["volumes"] if each["name"] == "tls"]
    assert volume["secret"]["items"] == [{"key": "ca.crt", "path": "ca.crt"}], "the key stays with the daemon"


def test_labels_need_no_certificate(helm: Helm) -> None:
    manifests = helm.template(with_scheduler(pairing="labels"))
    assert _names(manifests, "Secret") == ["ballast-extender-token"]
    assert "BALLAST_HTTP__TLS_CERT_FILE" not in environment(
        one(manifests, "Deployment", "ballast")["spec"]["template"]["spec"]["containers"][0]
    )


@pytest.mark.parametrize("asked", [True, {"enabled": True}, {"enabled": True, "issuerRef": {"name": "corp"}}])
def test_cert_manager_makes_the_certificate_where_it_is_asked(helm: Helm, asked: object) -> None:
    manifests = helm.template({**with_scheduler(), "tls": {"certManager": asked}})
    assert "ballast-tls" not in _names(manifests, "Secret")
    certificate = one(manifests, "Certificate", "ballast-tls")["spec"]
    assert certificate["secretName"] == "ballast-tls"
    assert f"ballast-extender.{NAMESPACE}.svc" in certificate["dnsNames"]
    named = isinstance(asked, dict) and "issuerRef" in asked
    assert certificate["issuerRef"]["name"] == ("corp" if named else "ballast")
    assert len(of_kind(manifests, "Issuer")) == (0 if named else 2)


def test_a_certificate_that_exists_is_used(helm: Helm) -> None:
    manifests = helm.template({**with_scheduler(), "tls": {"existingSecret": "mine"}})
    assert not of_kind(manifests, "Certificate")
    assert "ballast-tls" not in _names(manifests, "Secret")
    for name in ("ballast", "ballast-scheduler"):
        volumes = pod_templates(manifests)[f"Deployment/{name}"]["spec"]["volumes"]
        assert [each["secret"]["secretName"] for each in volumes if each["name"] == "tls"] == ["mine"]


def test_monitors_believe_the_charts_authority(helm: Helm) -> None:
    for kind, key in (("serviceMonitor", "endpoints"), ("podMonitor", "podMetricsEndpoints")):
        monitor = {"enabled": True, "relabelings": [{"action": "labeldrop", "regex": "pod"}], "sampleLimit": 9}
        manifests = helm.template({"tls": {"enabled": True}, kind: monitor}, *MONITORING)
        spec = one(manifests, kind[0].upper() + kind[1:], "ballast")["spec"]
        [endpoint] = spec[key]
        assert endpoint["scheme"] == "https"
        assert endpoint["tlsConfig"]["ca"] == {"secret": {"name": "ballast-serving", "key": "ca.crt"}}
        assert endpoint["relabelings"] == monitor["relabelings"]
        assert spec["sampleLimit"] == 9


def test_the_grafana_operator_gets_objects_of_its_own(helm: Helm) -> None:
    values: Values = {"dashboard": {"enabled": True, "grafanaOperator": {"enabled": True, "folder": "Ballast"}}}
    manifests = helm.template(values)
    assert {each["spec"]["folder"] for each in of_kind(manifests, "GrafanaDashboard")} == {"Ballast"}
    assert not [each for each in of_kind(manifests, "ConfigMap") if each["metadata"]["name"] == "ballast-dashboards"]


def test_pods_get_the_scheduler_by_namespace(helm: Helm) -> None:
    [policy] = of_kind(helm.template(SCHEDULER, *NEW), "MutatingAdmissionPolicy")
    constraints = policy["spec"]["matchConstraints"]
    assert constraints["namespaceSelector"] == {"matchLabels": {"ballast.dev/schedule": "true"}}
    assert '"ballast"' in policy["spec"]["mutations"][0]["jsonPatch"]["expression"]
    with pytest.raises(RenderFailed, match="needs an API server that serves MutatingAdmissionPolicy"):
        helm.template(SCHEDULER, "--kube-version", "1.33.0")
    beta = (
        "--kube-version",
        "1.35.0",
        "--api-versions",
        "admissionregistration.k8s.io/v1beta1/MutatingAdmissionPolicy",
    )
    [policy] = of_kind(helm.template(SCHEDULER, *beta), "MutatingAdmissionPolicy")
    assert policy["apiVersion"] == "admissionregistration.k8s.io/v1beta1"


def test_null_drops_a_field_of_a_security_context(helm: Helm) -> None:
    dropped = {"runAsUser": None, "runAsGroup": None, "fsGroup": None}
    values: Values = {**SCHEDULER, "podSecurityContext": dropped, "securityContext": {"runAsNonRoot": None}}
    for pod in pod_templates(helm.template(values, *NEW)).values():
        assert pod["spec"]["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
        assert all("runAsNonRoot" not in box["securityContext"] for box in pod["spec"]["containers"])
    for pod in pod_templates(helm.template({"podSecurityContext": None, "securityContext": None})).values():
        assert pod["spec"]["securityContext"] == {}


def test_the_configuration_is_checked_before_anything_is_installed(helm: Helm) -> None:
    manifests = helm.template(EVERYTHING)
    job = one(manifests, "Job", "ballast-config-check")
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    spec = job["spec"]["template"]["spec"]
    [box] = spec["containers"]
    assert box["args"] == ["config", "check"]
    daemon = one(manifests, "Deployment", "ballast")["spec"]["template"]["spec"]["containers"][0]
    # The chart's token is not there yet.
    assert {**environment(box), "BALLAST_EXTENDER__TOKEN_FILE": "/etc/ballast/extender/token"} == environment(daemon)
    assert not spec["automountServiceAccountToken"]
    assert {"name": "config", "configMap": {"name": "ballast-config-check"}} in spec["volumes"]
    config = one(manifests, "ConfigMap", "ballast-config-check")
    assert config["data"] == one(manifests, "ConfigMap", "ballast-config")["data"]
    assert int(config["metadata"]["annotations"]["helm.sh/hook-weight"]) < 0
    assert not of_kind(helm.template({"configCheck": {"enabled": False}}), "Job")


def test_there_is_a_token_that_the_daemon_makes_and_its_scheduler_shows(helm: Helm, tmp_path: Path) -> None:
    manifests = helm.template(SCHEDULER, *NEW)
    assert "data" not in one(manifests, "Secret", "ballast-extender-token"), "the first pod fills it"
    config = configuration(manifests)
    assert config["extenders"][0]["urlPrefix"] == f"{TLS_URL}/scheduler/EXTENDER-TOKEN"
    pods = pod_templates(manifests)
    scheduler, daemon = (pods[f"Deployment/{name}"]["spec"] for name in ("ballast-scheduler", "ballast"))
    [volume] = [each for each in scheduler["volumes"] if each["name"] == "token"]
    named = {"secretName": "ballast-extender-token", "defaultMode": 0o440, "items": [{"key": "token", "path": "token"}]}
    assert volume["secret"] == named, "without the key the pod waits"
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    (tmp_path / "token").write_text("abc-123\n")
    [filling] = scheduler["initContainers"]
    arguments = [*filling["command"][1:-3], *(str(tmp_path / name) for name in ("config.yaml", "token", "shown.yaml"))]
    subprocess.run([sys.executable, *arguments], check=True)
    shown = yaml.safe_load((tmp_path / "shown.yaml").read_text())
    assert shown["extenders"][0]["urlPrefix"] == f"{TLS_URL}/scheduler/abc-123"
    assert environment(daemon["containers"][0])["BALLAST_EXTENDER__TOKEN_FILE"] == "/etc/ballast/extender/token"
    mount = {"name": "made", "mountPath": "/etc/ballast/extender", "readOnly": True}
    assert mount in daemon["containers"][0]["volumeMounts"]
    assert "--token=ballast-extender-token" in daemon["initContainers"][0]["args"]
    check = pods["Job/ballast-config-check"]["spec"]["containers"][0]
    assert "BALLAST_EXTENDER__TOKEN_FILE" not in environment(check), "it runs before the token is there"


@pytest.mark.parametrize(
    "values",
    [
        {"extender": {"token": {"create": False}}},
        {"settings": {"extender": {"token_file": "/token"}}},
        {"existingSecrets": {"extender": {"token_file": {"name": "mine", "key": "token"}}}},
        {"settings": {"http": {"client_ca_file": "/ca"}}},
        {"extraEnv": [{"name": "BALLAST_EXTENDER__CLIENT_CA_FILE", "value": "/ca"}]},
        with_scheduler(config="apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration"),
    ],
    ids=["unset", "a file", "a secret", "certificates", "a variable", "a configuration"],
)
def test_no_token_is_made_beside_what_callers_show_already(helm: Helm, values: Values) -> None:
    assert "extender-token" not in yaml.safe_dump_all(helm.template(values, *NEW))


def test_an_upgrade_renders_what_an_installation_does(helm: Helm) -> None:
    for values in (SCHEDULER, with_scheduler(pairing="labels"), EVERYTHING):
        assert helm.template(values, *NEW, "--is-upgrade") == helm.template(values, *NEW)


def _names(manifests: list[Manifest], kind: str) -> list[str]:
    return [item["metadata"]["name"] for item in of_kind(manifests, kind)]
