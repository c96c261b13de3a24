"""Which rights the chart asks for, by mode: exactly these, and no others."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from ballast.cluster.state import NAMES
from ballast.doctor.rights import needed
from ballast.jobs.power.build_power import findings
from ballast.settings import load
from tests.worlds.chart import (
    MODES,
    NAMESPACE,
    POWER,
    PUBLISHING,
    Helm,
    Manifest,
    Values,
    environment,
    modes,
    of_kind,
    one,
    pod_templates,
)

pytestmark = pytest.mark.slow

Grant = tuple[str, str, str, str]
"""(namespace or "*", group/resource, name or "*", verb)."""

WATCHING = {"list", "watch"}
READING = {"get", *WATCHING}


def everywhere(verbs: Iterable[str], *resources: str) -> set[Grant]:
    return {("*", resource, "*", verb) for resource in resources for verb in verbs}


CREDENTIALS = {(NAMESPACE, "secrets", "ballast-extender-token", verb) for verb in ("get", "patch")}
READS = (
    CREDENTIALS
    | everywhere(READING, "nodes")
    | everywhere(WATCHING, "pods", "resource.k8s.io/resourceclaims", "resource.k8s.io/resourceslices")
    | everywhere(("list",), "metrics.k8s.io/nodes")
)
POWER_READS = (
    everywhere(
        READING,
        "apps/deployments",
        "apps/statefulsets",
        "argoproj.io/rollouts",
        "autoscaling/horizontalpodautoscalers",
        "keda.sh/scaledobjects",
    )
    | everywhere(WATCHING, "namespaces")
    | everywhere(("get",), "services", "argoproj.io/rollouts/scale")
)
"""For the policies of `POWER`."""
EVICTION_READS = (
    everywhere(
        WATCHING,
        "namespaces",
        "apps/deployments",
        "apps/statefulsets",
        "apps/replicasets",
        "apps/daemonsets",
        "autoscaling/horizontalpodautoscalers",
        "policy/poddisruptionbudgets",
        "events",
        "persistentvolumeclaims",
        "persistentvolumes",
        "resourcequotas",
        "storage.k8s.io/csinodes",
        "storage.k8s.io/storageclasses",
        "karpenter.sh/nodeclaims",
        "autoscaling.k8s.io/verticalpodautoscalers",
    )
    | everywhere(("list",), "metrics.k8s.io/pods")
    | everywhere(("get",), "services", "*/*/scale")
)
PART_READS = {"publishing": set[Grant](), "power": set[Grant](), "eviction": EVICTION_READS}
OWN = {
    (NAMESPACE, "configmaps", "*", "create"),
    *((NAMESPACE, "configmaps", name, verb) for name in NAMES for verb in ("get", "update")),
    (NAMESPACE, "configmaps", "ballast-switches", "get"),
    (NAMESPACE, "configmaps", "ballast-switches", "list"),
    (NAMESPACE, "configmaps", "ballast-switches", "watch"),
    (NAMESPACE, "discovery.k8s.io/endpointslices", "*", "create"),
    (NAMESPACE, "discovery.k8s.io/endpointslices", "ballast-extender", "get"),
    (NAMESPACE, "discovery.k8s.io/endpointslices", "ballast-extender", "patch"),
    (NAMESPACE, "services", "ballast-extender", "get"),
}
LEASE = {
    (NAMESPACE, "coordination.k8s.io/leases", "*", "create"),
    (NAMESPACE, "coordination.k8s.io/leases", "ballast", "get"),
    (NAMESPACE, "coordination.k8s.io/leases", "ballast", "update"),
}
EVENTS = everywhere(("create",), "events")
PUBLISHES = everywhere(("patch",), "nodes") | EVENTS
EVICTS = everywhere(("create",), "pods/eviction", "pods") | EVENTS
SCALES = {
    (namespace, f"{kind}/scale", name, verb)
    for namespace, kind, name in (
        ("shop", "apps/deployments", "api"),
        ("shop", "apps/deployments", "cart"),
        ("shop", "apps/statefulsets", "queue"),
        ("batch", "apps/deployments", "reports"),
        ("batch", "argoproj.io/rollouts", "web"),
    )
    for verb in ("get", "patch")
}
CAPS = {
    (namespace, kind, "*", "patch")
    for namespace in ("shop", "batch")
    for kind in ("autoscaling/horizontalpodautoscalers", "keda.sh/scaledobjects")
}
SEES_WHO_LEADS = {(NAMESPACE, "coordination.k8s.io/leases", "ballast", "get")}
RELEASES = SEES_WHO_LEADS | everywhere(("get", "list", "patch"), "nodes")
RESTORES = SEES_WHO_LEADS | everywhere(
    ("get", "list", "patch"), "autoscaling/horizontalpodautoscalers", "keda.sh/scaledobjects"
)


def granted(manifests: list[Manifest], account: str) -> set[Grant]:
    found: set[Grant] = set()
    for binding in of_kind(manifests, "ClusterRoleBinding", "RoleBinding"):
        if {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE} not in binding["subjects"]:
            continue
        where = binding["metadata"].get("namespace", "*")
        kind, name = binding["roleRef"]["kind"], binding["roleRef"]["name"]
        [role] = [
            each
            for each in of_kind(manifests, kind)
            if (each["metadata"]["name"], each["metadata"].get("namespace", "*")) == (name, where)
        ]
        found.update(grant for rule in role["rules"] for grant in _grants(where, rule))
    return found


def _grants(where: str, rule: Manifest) -> Iterable[Grant]:
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for name in rule.get("resourceNames", ["*"]):
                for verb in rule["verbs"]:
                    yield where, f"{group}/{resource}".lstrip("/"), name, verb


def accounts(manifests: list[Manifest]) -> set[str]:
    return {account["metadata"]["name"] for account in of_kind(manifests, "ServiceAccount")}


def test_with_every_part_off_nothing_but_the_own_token_may_be_written(helm: Helm) -> None:
    manifests = helm.template(modes("off", "off", "off"))
    assert granted(manifests, "ballast") == READS
    assert [role["metadata"]["name"] for role in of_kind(manifests, "Role")] == ["ballast-credentials"]
    tokenless = helm.template({**modes("off", "off", "off"), "extender": {"token": {"create": False}}})
    assert granted(tokenless, "ballast") == READS - CREDENTIALS
    assert not of_kind(tokenless, "Role", "RoleBinding")


@pytest.mark.parametrize("part", ["publishing", "power", "eviction"])
def test_one_part_in_dry_run_adds_the_lease_the_state_and_the_own_pod(helm: Helm, part: str) -> None:
    values = modes(**{"publishing": "off", "power": "off", "eviction": "off", part: "dry-run"})
    assert granted(helm.template(values), "ballast") == READS | OWN | LEASE | PART_READS[part]


def test_batch_alone_may_patch_pods_and_only_where_it_is_on(helm: Helm) -> None:
    values = modes("off", "off", "off")
    values["settings"]["batch"] = {"mode": "dry-run"}
    namespaces = everywhere(WATCHING, "namespaces")
    assert granted(helm.template(values), "ballast") == READS | OWN | LEASE | namespaces
    values["settings"]["batch"]["mode"] = "on"
    manifests = helm.template(values)
    patches = everywhere(("patch",), "pods")
    assert granted(manifests, "ballast") == READS | OWN | LEASE | namespaces | patches | EVENTS
    frees = everywhere(("get", "list", "patch"), "pods") | {(NAMESPACE, "coordination.k8s.io/leases", "ballast", "get")}
    assert granted(manifests, "ballast-watchdog") == frees
    assert granted(manifests, "ballast-cleanup") == frees
    [job] = [each for each in of_kind(manifests, "Job") if each["metadata"]["name"] == "ballast-cleanup"]
    assert job["spec"]["template"]["spec"]["containers"][0]["args"] == ["release", "batch"]
    [cron] = of_kind(manifests, "CronJob")
    args = cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert args == ["release", "batch", "--if-stale", "15m"]


def test_without_a_mode_batch_is_off(helm: Helm) -> None:
    values = modes("off", "off", "off")
    values["settings"]["batch"] = {"mode": None}
    assert granted(helm.template(values), "ballast") == READS


def test_power_may_scale_its_targets_and_move_caps_beside_them_and_nothing_else(helm: Helm) -> None:
    manifests = helm.template(POWER)
    assert granted(manifests, "ballast") == READS | OWN | LEASE | POWER_READS | SCALES | CAPS | EVENTS
    assert granted(manifests, "ballast-cleanup") == RESTORES
    assert accounts(manifests) == {"ballast", "ballast-cleanup"}


def test_power_without_targets_may_see_and_change_nothing_more(helm: Helm) -> None:
    assert granted(helm.template(modes("off", "on", "off")), "ballast") == READS | OWN | LEASE | EVENTS


def test_only_a_policy_that_marks_pods_may_patch_those_beside_its_targets(helm: Helm) -> None:
    site_a, site_b = POWER["settings"]["power"]["policies"]
    settings = {**POWER["settings"], "power": {"mode": "on", "policies": [site_a, {**site_b, "hotPodsFirst": True}]}}
    marks = granted(helm.template({"settings": settings}), "ballast") - granted(helm.template(POWER), "ballast")
    assert marks == {("batch", "pods", "*", "patch")}


def test_policies_in_dry_run_give_no_right_to_write(helm: Helm) -> None:
    values = modes("off", "dry-run", "off")
    values["settings"]["power"]["policies"] = POWER["settings"]["power"]["policies"]
    assert granted(helm.template(values), "ballast") == READS | OWN | LEASE | POWER_READS


def test_eviction_may_evict_and_neither_delete_nor_change_pods(helm: Helm) -> None:
    manifests = helm.template(modes("off", "off", "on"))
    assert granted(manifests, "ballast") == READS | OWN | LEASE | EVICTION_READS | EVICTS
    assert accounts(manifests) == {"ballast"}


def test_only_nominating_asks_for_the_status_of_pods(helm: Helm) -> None:
    values = modes("off", "off", "on")
    values["settings"]["eviction"]["nominate"] = True
    nominating = READS | OWN | LEASE | EVICTION_READS | EVICTS | everywhere(("patch",), "pods/status")
    assert granted(helm.template(values), "ballast") == nominating
    values["settings"]["eviction"]["mode"] = "dry-run"
    assert granted(helm.template(values), "ballast") == READS | OWN | LEASE | EVICTION_READS


@pytest.mark.parametrize(
    ("setting", "added"),
    [
        ({"landing": "taint"}, everywhere(("patch",), "nodes")),
        ({"planners": "relieve,consolidate"}, everywhere(("patch",), "nodes")),
        ({"modes": {"consolidate": "on"}}, everywhere(("patch",), "nodes")),
    ],
)
def test_evictions_change_nodes_only_where_they_mark_them(helm: Helm, setting: Values, added: set[Grant]) -> None:
    values = modes("off", "off", "on")
    values["settings"]["eviction"] |= setting
    manifests = helm.template(values)
    assert granted(manifests, "ballast") == READS | OWN | LEASE | EVICTION_READS | EVICTS | added
    assert accounts(manifests) == {"ballast", "ballast-watchdog", "ballast-cleanup"}
    values["settings"]["eviction"]["mode"] = "dry-run"
    assert granted(helm.template(values), "ballast") == READS | OWN | LEASE | EVICTION_READS


@pytest.mark.parametrize("modes_", [{"consolidate": "dry-run"}, '{"consolidate": "dry-run"}'])
def test_a_planner_in_dry_run_needs_no_writes(helm: Helm, modes_: object) -> None:
    values = modes("off", "off", "on")
    values["settings"]["eviction"] |= {"planners": "relieve,consolidate", "modes": modes_}
    assert granted(helm.template(values), "ballast") == READS | OWN | LEASE | EVICTION_READS | EVICTS


def test_surge_scales_deployments_and_marks_the_pod_that_goes(helm: Helm) -> None:
    values = modes("off", "off", "on")
    values["settings"]["eviction"]["surge"] = True
    more = granted(helm.template(values), "ballast") - (READS | OWN | LEASE | EVICTION_READS | EVICTS)
    scales = everywhere(("get",), "apps/deployments") | everywhere(("get", "patch"), "apps/deployments/scale")
    assert more == scales | everywhere(("patch",), "pods")


def test_single_replicas_are_restarted_only_where_a_policy_narrows_what_may_be_changed(helm: Helm) -> None:
    values = modes("off", "off", "on")
    values["settings"]["eviction"]["single"] = "restart"
    more = granted(helm.template(values), "ballast") - (READS | OWN | LEASE | EVICTION_READS | EVICTS)
    assert more == everywhere(("get", "patch"), "apps/deployments")
    bare = granted(helm.template({**values, "admissionPolicy": {"enabled": False}}), "ballast")
    assert not {grant for grant in bare if grant[1] == "apps/deployments" and grant[3] == "patch"}


def test_publishing_adds_node_patches_and_events(helm: Helm) -> None:
    manifests = helm.template({"settings": {**modes("on", "off", "off")["settings"]}})
    assert granted(manifests, "ballast") == READS | OWN | LEASE | PUBLISHES
    assert granted(manifests, "ballast-watchdog") == RELEASES
    assert granted(manifests, "ballast-cleanup") == RELEASES
    assert accounts(manifests) == {"ballast", "ballast-watchdog", "ballast-cleanup"}


def test_a_single_writer_without_a_lease_has_no_right_to_one(helm: Helm) -> None:
    values: Values = {"replicas": 1, "settings": {**modes(power="off", eviction="off")["settings"]}}
    values["settings"]["lease"] = {"enabled": False}
    assert granted(helm.template(values), "ballast") == READS | OWN


def test_the_lease_may_have_another_name_and_namespace(helm: Helm) -> None:
    values: Values = {"settings": {**PUBLISHING["settings"], "lease": {"name": "other", "namespace": "kube-system"}}}
    manifests = helm.template(values)
    elsewhere = {grant for grant in granted(manifests, "ballast") if grant[0] == "kube-system"}
    assert elsewhere == {
        ("kube-system", resource, name.replace("ballast", "other"), verb) for _, resource, name, verb in LEASE
    }
    assert ("kube-system", "coordination.k8s.io/leases", "other", "get") in granted(manifests, "ballast-watchdog")


@pytest.mark.parametrize("mode", MODES)
def test_some_rights_are_never_asked_for(helm: Helm, mode: str) -> None:
    values = modes(mode, mode, mode)
    values["settings"]["power"]["policies"] = POWER["settings"]["power"]["policies"]
    manifests = helm.template({**values, "cleanup": "always"})
    for account in accounts(manifests):
        for _, resource, name, verb in granted(manifests, account):
            assert "*" not in (resource, verb)
            assert resource != "secrets" or (name, verb in ("get", "patch")) == ("ballast-extender-token", True)
            assert resource not in ("nodes/proxy", "nodes/status", "pods/exec", "pods/status")
            assert verb in READING | {"create", "update", "patch"}
            assert not (resource == "configmaps" and name == "*" and verb != "create")


@pytest.mark.parametrize("mode", MODES)
def test_the_chart_gives_what_the_doctor_asks_for(helm: Helm, mode: str, tmp_path: Path) -> None:
    values = modes(mode, mode, mode)
    values["settings"]["power"]["policies"] = POWER["settings"]["power"]["policies"]
    values["settings"]["batch"] = {"mode": mode}
    values["settings"]["eviction"] |= {"landing": "taint", "surge": True, "single": "restart", "nominate": True}
    values["settings"]["http"] = {"metrics_auth": "kubernetes"}
    values["extender"] = {"token": {"create": False}}  # no pod mounts it here
    manifests = helm.template(values)
    [container] = pod_templates(manifests)["Deployment/ballast"]["spec"]["containers"]
    file = tmp_path / "ballast.yaml"
    file.write_text(one(manifests, "ConfigMap", "ballast-config")["data"]["ballast.yaml"])
    variables = {name: value for name, value in environment(container).items() if value is not None}
    settings = load(variables | {"BALLAST_CONFIG_FILE": str(file)})
    asked = {
        (right.namespace or "*", f"{right.group}/{right.resource}".lstrip("/"), right.name or "*", verb)
        for right in needed(settings, findings(settings).policies, NAMESPACE)
        for verb in right.verbs
    }
    given = granted(manifests, "ballast")
    assert asked <= given
    beside = {"discovery.k8s.io/endpointslices", "services"}
    trial = {("*", "pods", "*", "create")}  # without it, replacements are not tried
    assert {grant for grant in given - asked - trial if grant[1] not in beside} == set()


def test_no_rights_without_rbac_and_no_account_without_asking(helm: Helm) -> None:
    values: Values = {**PUBLISHING, "rbac": {"create": False}, "serviceAccount": {"create": False, "name": "given"}}
    manifests = helm.template(values)
    assert not of_kind(manifests, "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
    [deployment] = of_kind(manifests, "Deployment")
    assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == "given"


@pytest.mark.parametrize("setting", ["metrics_auth", "api_auth"])
def test_only_who_reviews_tokens_may_create_reviews(setting: str, helm: Helm) -> None:
    reviews = everywhere(("create",), "authentication.k8s.io/tokenreviews", "authorization.k8s.io/subjectaccessreviews")
    values = modes("off", "off", "off")
    assert not granted(helm.template(values), "ballast") & reviews
    values["settings"] = {**values["settings"], "http": {setting: "kubernetes"}}
    assert granted(helm.template(values), "ballast") >= reviews
