"""What schedulers are told wrongly of Ballast is found, as far as their configuration can be read."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from ballast.publishing.scheduler_profiles import crane_profile, extender_profile, labels_profile, trimaran_profile
from ballast_lab.simulator.kube.kinds import NODE
from ballast_lab.simulator.kube.patching import MERGE
from tests.unit.doctor.conftest import Patient

ON = {"PUBLISHING__MODE": "on"}
CRANE = {**ON, "PUBLISHING__CRANE": "true"}
EXTENDER = "http://ballast-extender.ballast:2020"
WATCHER = "http://ballast.ballast:2020"


def scheduler(patient: Patient, text: str, name: str = "scheduler") -> None:
    patient.create("ConfigMap", name, "kube-system", data={"config.yaml": text})


def service(patient: Patient, name: str, port: int = 2020) -> None:
    patient.create("Service", name, spec={"ports": [{"port": port}]})


def scored(patient: Patient, prefix: str = "ballast.dev") -> None:
    labels = {"metadata": {"labels": {f"{prefix}/score": "3", f"{prefix}/load": "low"}}}
    for name in patient.cluster.world.node_names:
        patient.cluster.resources.patch(NODE, "", name, MERGE, labels)


def test_printed_profiles_are_well(patient: Patient) -> None:
    scored(patient)
    service(patient, "ballast-extender")
    service(patient, "ballast")
    scheduler(patient, labels_profile("ballast.dev", "by-labels"), "one")
    scheduler(patient, extender_profile(EXTENDER, "by-extender"), "two")
    scheduler(patient, trimaran_profile(WATCHER, "by-trimaran"), "three")
    scheduler(patient, crane_profile("by-crane", "UTC"), "four")
    names = [f"pairing-{name}" for name in ("labels", "extender", "trimaran", "crane")]
    found = patient.examine(*names, **CRANE)
    assert found.summary == {"fail": 0, "warn": 0, "skipped": 0, "ok": 4}, found.findings


def test_nothing_is_said_of_schedulers_that_cannot_be_seen(patient: Patient) -> None:
    patient.cluster.faults.kube_forbidden("list", "configmaps")
    for name in ("labels", "extender", "trimaran", "crane"):
        found = patient.only(f"pairing-{name}")
        assert found.status == "skipped"
        assert "ConfigMaps" in found.message


def test_labels_that_nobody_writes_are_found(patient: Patient) -> None:
    scheduler(patient, labels_profile("ballast.dev", "by-labels"))
    found = patient.only("pairing-labels")
    assert (found.status, found.fix) == ("fail", ("BALLAST_PUBLISHING__MODE=on",))


def test_labels_of_another_prefix_are_found(patient: Patient) -> None:
    scored(patient)
    scheduler(patient, labels_profile("load.example", "by-labels"))
    found = patient.only("pairing-labels", **ON)
    assert found.status == "fail"
    assert found.fix[0] == "BALLAST_PUBLISHING__LABEL_PREFIX=load.example"


def test_the_fix_is_the_setting_that_says_where_labels_are(patient: Patient) -> None:
    scored(patient, "labels.example")
    scheduler(patient, labels_profile("ballast.dev", "by-labels"))
    found = patient.only("pairing-labels", **ON, PUBLISHING__LABEL_PREFIX="labels.example")
    assert found.status == "fail"
    assert found.fix[0] == "BALLAST_PUBLISHING__LABEL_PREFIX=ballast.dev"


def test_a_prefix_that_no_kubelet_may_write_is_recommended_until_it_is_set(patient: Patient) -> None:
    guarded = "ballast.node-restriction.kubernetes.io"
    scored(patient)
    scheduler(patient, labels_profile("ballast.dev", "by-labels"))
    found = patient.only("pairing-labels", **ON)
    assert (found.status, found.fix) == ("ok", (f"BALLAST_PUBLISHING__LABEL_PREFIX={guarded}",))
    scored(patient, guarded)
    scheduler(patient, labels_profile(guarded, "by-labels"), "two")
    found = patient.only("pairing-labels", **ON, PUBLISHING__LABEL_PREFIX=guarded)
    assert "kubelet" not in found.message


def test_nodes_without_any_score_are_found(patient: Patient) -> None:
    assert patient.only("pairing-labels", **ON).status == "fail"


def test_no_finding_shows_the_token_of_the_extender(patient: Patient) -> None:
    document = yaml.safe_load(extender_profile(EXTENDER, "by-extender"))
    document["extenders"][0]["urlPrefix"] = (
        "https://user:Pa55word@ballast-extender.ballast:2020/scheduler/T0kenOfCallers"
    )
    scheduler(patient, yaml.safe_dump(document))
    finding = patient.only("pairing-extender")
    assert "https://********@ballast-extender.ballast:2020/scheduler/********" in finding.message
    assert "Pa55word" not in repr(finding)
    assert "T0kenOfCallers" not in repr(finding)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"urlPrefix": f"{EXTENDER}/"}, "/scheduler"),
        ({"urlPrefix": "http://ballast-extender.ballast:2021/scheduler"}, "port 2021"),
        ({"urlPrefix": "https://ballast-extender.ballast:2020/scheduler"}, "https"),
        ({"urlPrefix": "http://ballast-extender.elsewhere.svc:2020/scheduler"}, "no Service"),
        ({"nodeCacheCapable": False}, "nodeCacheCapable"),
        ({"ignorable": None}, "ignorable"),
        ({"prioritizeVerb": ""}, "prioritizeVerb"),
        ({"prioritizeVerb": "score"}, "prioritizeVerb"),
        ({"filterVerb": "predicates"}, "filterVerb predicates"),
        ({"bindVerb": "bind"}, "bindVerb bind"),
        ({"preemptVerb": "preempt"}, "preemptVerb preempt"),
        ({"weight": None}, "weight"),
        ({"weight": 0}, "weight 0"),
        ({"weight": "10"}, "weight '10'"),
        ({"managedResources": [{"name": "nvidia.com/gpu"}]}, "request nvidia.com/gpu alone"),
        ({"httpTimeout": "50ms"}, "httpTimeout 50ms"),
        ({"httpTimeout": 250}, "no duration"),
        ({"httpTimeout": "soon"}, "no duration"),
        ({"nodecachecapable": True}, "knows no nodecachecapable"),
    ],
)
def test_an_extender_that_is_asked_wrongly_is_found(patient: Patient, changes: dict[str, Any], said: str) -> None:
    service(patient, "ballast-extender")
    document = yaml.safe_load(extender_profile(EXTENDER, "by-extender"))
    document["extenders"][0].update(changes)
    scheduler(patient, yaml.safe_dump(document))
    found = patient.only("pairing-extender")
    assert found.status == "fail"
    assert said in found.message
    assert found.fix


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"apiVersion": "kubescheduler.config.k8s.io/v1beta3"}, "v1beta3 is gone since Kubernetes 1.29"),
        ({"apiVersion": "kubescheduler.config.k8s.io/v1alpha1"}, "v1alpha1"),
        ({"apiVersion": None}, "missing"),
        ({"profiles": [{"schedulerName": "a"}, {"schedulerName": "a"}]}, "one schedulerName"),
        ({"extenders": [{"urlPrefix": EXTENDER, "bindVerb": "bind"}, {"bindVerb": "bind"}]}, "several extenders"),
    ],
)
def test_a_file_with_which_kube_scheduler_does_not_start_is_found(
    patient: Patient, changes: dict[str, Any], said: str
) -> None:
    service(patient, "ballast-extender")
    scheduler(patient, yaml.safe_dump(yaml.safe_load(extender_profile(EXTENDER, "by-extender")) | changes))
    found = patient.only("pairing-extender")
    assert found.status == "fail"
    assert said in found.message
    assert found.fix


@pytest.mark.parametrize("written", [None, "5s", "0s", "1m"])
def test_a_long_timeout_is_a_warning(patient: Patient, written: str | None) -> None:
    service(patient, "ballast-extender")
    document = yaml.safe_load(extender_profile(EXTENDER, "by-extender"))
    document["extenders"][0]["httpTimeout"] = written
    scheduler(patient, yaml.safe_dump(document))
    found = patient.only("pairing-extender")
    assert (found.status, found.fix) == ("warn", ("httpTimeout: 250ms",))


def test_https_without_a_ca_is_a_warning(patient: Patient, tmp_path: Path) -> None:
    patient.create("Service", "ballast-extender", spec={"ports": [{"port": 2020}]})
    for name in ("cert", "key"):
        (tmp_path / name).write_text("x")
    serving = {"HTTP__TLS_CERT_FILE": str(tmp_path / "cert"), "HTTP__TLS_KEY_FILE": str(tmp_path / "key")}
    document = yaml.safe_load(extender_profile(EXTENDER.replace("http", "https"), "by-extender"))
    document["extenders"][0].pop("enableHTTPS", None)
    scheduler(patient, yaml.safe_dump(document))
    found = patient.only("pairing-extender", **serving)
    assert (found.status, found.fix) == ("warn", ("tlsConfig: {caFile: ...}",))
    document["extenders"][0]["tlsConfig"] = {"caFile": "/ca.crt"}
    scheduler(patient, yaml.safe_dump(document), "two")
    assert len([each for each in patient.examine("pairing-extender", **serving).findings if each.fix]) == 1


VOLUMES = {
    "configMap": [{"name": "config", "configMap": {"name": "profile"}}],
    "projected": [{"name": "config", "projected": {"sources": [{"configMap": {"name": "profile"}}]}}],
}


@pytest.mark.parametrize("volume", VOLUMES)
@pytest.mark.parametrize("many", [False, True])
def test_schedulers_are_found_wherever_they_run(
    patient: Patient, volume: str, many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient.create("Namespace", "scheduler-plugins", "")
    spec = {
        "containers": [{"name": "c", "image": "registry.k8s.io/scheduler-plugins/kube-scheduler:v0.32.7"}],
        "volumes": VOLUMES[volume],
    }
    if many:
        monkeypatch.setattr("ballast.doctor.scheduler_files.MOST_PODS", -1)
        template = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
        whole = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
        patient.create("Deployment", "trimaran", "scheduler-plugins", spec=whole)
    else:
        patient.create("Pod", "trimaran-x", "scheduler-plugins", spec=spec, status={"phase": "Running"})
    text = trimaran_profile("http://ballast.elsewhere:2021", "by-trimaran")
    patient.create("ConfigMap", "profile", "scheduler-plugins", data={"scheduler-config.yaml": text})
    patient.create("ConfigMap", "unused", "scheduler-plugins", data={"config.yaml": text})
    found = patient.examine("pairing-trimaran").findings
    assert [(each.status, each.subject) for each in found] == [("fail", "scheduler-plugins/profile")]
    assert found[0].fix == ("watcherAddress: http://ballast.ballast:2020",)


def test_it_says_where_it_looked(patient: Patient) -> None:
    container = {"name": "kube-scheduler", "image": "c"}
    mounting = {"containers": [container], "volumes": VOLUMES["configMap"]}
    patient.create("Namespace", "crane-system", "")
    patient.create("Pod", "crane-x", "crane-system", spec=mounting, status={"phase": "Running"})
    static = {"containers": [container], "volumes": [{"name": "c", "hostPath": {"path": "/etc/kubernetes"}}]}
    patient.create("Pod", "kube-scheduler-a", "kube-system", spec=static, status={"phase": "Running"})
    for name in ("labels", "extender", "trimaran", "crane"):
        found = patient.only(f"pairing-{name}")
        assert found.status == "skipped"
        for words in ("kube-system and", "crane-system/crane-x", "kube-system/kube-scheduler-a mount none"):
            assert words in found.message


def test_pods_that_wait_for_a_scheduler_that_does_not_run_are_found(patient: Patient) -> None:
    service(patient, "ballast-extender")
    scheduler(patient, extender_profile(EXTENDER, "by-extender"))
    assert patient.only("pairing-extender").status == "ok"
    container = {"name": "c", "image": "c"}
    spec = {"schedulerName": "by-extender", "containers": [container]}
    patient.create("Pod", "waiting", "default", spec=spec, status={"phase": "Pending"})
    found = patient.only("pairing-extender")
    assert (found.status, found.subject) == ("fail", "default/waiting")


def test_an_extender_of_somebody_else_is_left_alone(patient: Patient) -> None:
    scheduler(patient, extender_profile("http://127.0.0.1:10262", "other"))
    assert patient.only("pairing-extender").status == "skipped"


@pytest.mark.parametrize("address", ["http://ballast.ballast:9090", "https://ballast.ballast:2020", ""])
def test_a_wrong_watcher_address_is_found(patient: Patient, address: str) -> None:
    service(patient, "ballast")
    scheduler(patient, trimaran_profile(address, "by-trimaran"))
    found = patient.only("pairing-trimaran")
    assert (found.status, found.fix) == ("fail", ("watcherAddress: http://ballast.ballast:2020",))


def test_several_plugins_of_trimaran_are_found(patient: Patient) -> None:
    service(patient, "ballast")
    text = trimaran_profile(WATCHER, "by-trimaran")
    scheduler(patient, text.replace("      enabled:\n", "      enabled:\n      - name: TargetLoadPacking\n", 1))
    assert patient.only("pairing-trimaran").status == "warn"


def test_annotations_that_nobody_writes_are_found(patient: Patient) -> None:
    scheduler(patient, crane_profile("by-crane", "UTC"))
    found = patient.only("pairing-crane", **ON)
    assert (found.status, found.fix[0]) == ("fail", "BALLAST_PUBLISHING__CRANE=true")


def deployment(patient: Patient, name: str, namespace: str, **container: Any) -> None:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "c", **container}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    patient.create("Deployment", name, namespace, spec=spec)


def test_cranes_own_controller_beside_ballast_is_found(patient: Patient) -> None:
    assert patient.only("pairing-crane", **CRANE).status == "ok"
    deployment(patient, "crane-scheduler-controller", "kube-system")
    assert patient.only("pairing-crane", **CRANE).status == "fail"


BALANCE = "--balance-similar-node-groups"
SCORE, LOAD = (f"--balancing-ignore-label=ballast.dev/{name}" for name in ("score", "load"))


@pytest.mark.parametrize(
    ("container", "status"),
    [
        ({"command": ["./cluster-autoscaler", BALANCE]}, "fail"),
        ({"command": ["./cluster-autoscaler"], "args": [f"{BALANCE}=true", SCORE]}, "fail"),
        ({"args": [BALANCE, SCORE, LOAD]}, "ok"),
        ({"args": [BALANCE, "--balancing-label=pool"]}, "ok"),
        ({"args": [f"{BALANCE}=false"]}, "ok"),
        ({"args": ["--v=4"]}, "ok"),
    ],
)
def test_labels_that_make_node_groups_differ_are_found(
    patient: Patient, container: dict[str, Any], status: str
) -> None:
    deployment(patient, "cluster-autoscaler", "kube-system", **container)
    found = patient.only("autoscaler-labels", **ON)
    assert found.status == status
    if status == "fail":
        assert found.subject == "kube-system/cluster-autoscaler"
        assert LOAD in found.fix[0]
        assert (SCORE in found.fix[0]) is (SCORE not in container.get("args", ()))
