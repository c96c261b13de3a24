"""Which rights the chart asks for, by mode: exactly these, and no others."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.unit.install.chart import MODES, NAMESPACE, PUBLISHING, Helm, Manifest, Values, modes, of_kind

Grant = tuple[str, str, str, str]
"""(namespace or "*", group/resource, name or "*", verb)."""

READS = {
    ("*", "nodes", "*", "get"),
    ("*", "nodes", "*", "list"),
    ("*", "nodes", "*", "watch"),
    ("*", "pods", "*", "get"),
    ("*", "pods", "*", "list"),
    ("*", "pods", "*", "watch"),
    ("*", "metrics.k8s.io/nodes", "*", "get"),
    ("*", "metrics.k8s.io/nodes", "*", "list"),
}
OWN = {
    (NAMESPACE, "configmaps", "*", "create"),
    (NAMESPACE, "configmaps", "ballast-state", "get"),
    (NAMESPACE, "configmaps", "ballast-state", "update"),
    (NAMESPACE, "configmaps", "ballast-switches", "get"),
    (NAMESPACE, "configmaps", "ballast-switches", "list"),
    (NAMESPACE, "configmaps", "ballast-switches", "watch"),
    (NAMESPACE, "pods", "*", "patch"),
}
LEASE = {
    (NAMESPACE, "coordination.k8s.io/leases", "*", "create"),
    (NAMESPACE, "coordination.k8s.io/leases", "ballast", "get"),
    (NAMESPACE, "coordination.k8s.io/leases", "ballast", "update"),
}
PUBLISHES = {("*", "nodes", "*", "patch"), ("*", "events", "*", "create")}
RELEASES = {("*", "nodes", "*", "get"), ("*", "nodes", "*", "list"), ("*", "nodes", "*", "patch")}
READING = {"get", "list", "watch"}


def granted(manifests: list[Manifest], account: str) -> set[Grant]:
    found: set[Grant] = set()
    for binding in of_kind(manifests, "ClusterRoleBinding", "RoleBinding"):
        if {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE} not in binding["subjects"]:
            continue
        where = binding["metadata"].get("namespace", "*")
        kind, name = binding["roleRef"]["kind"], binding["roleRef"]["name"]
        [role] = [each for each in of_kind(manifests, kind) if each["metadata"]["name"] == name]
        assert role["metadata"].get("namespace", "*") == where
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


def test_with_every_part_off_nothing_may_be_written(helm: Helm) -> None:
    manifests = helm.template(modes("off", "off", "off"))
    assert granted(manifests, "ballast") == READS
    assert not of_kind(manifests, "Role", "RoleBinding")


@pytest.mark.parametrize("part", ["publishing", "power", "eviction"])
def test_one_part_in_dry_run_adds_the_lease_the_state_and_the_own_pod(helm: Helm, part: str) -> None:
    values = modes(**{"publishing": "off", "power": "off", "eviction": "off", part: "dry-run"})
    assert granted(helm.template(values), "ballast") == READS | OWN | LEASE


def test_publishing_adds_node_patches_and_events(helm: Helm) -> None:
    manifests = helm.template(PUBLISHING)
    assert granted(manifests, "ballast") == READS | OWN | LEASE | PUBLISHES
    assert granted(manifests, "ballast-watchdog") == RELEASES | {
        (NAMESPACE, "coordination.k8s.io/leases", "ballast", "get")
    }
    assert granted(manifests, "ballast-cleanup") == RELEASES
    assert accounts(manifests) == {"ballast", "ballast-watchdog", "ballast-cleanup"}


def test_a_single_writer_without_a_lease_has_no_right_to_one(helm: Helm) -> None:
    values: Values = {"replicas": 1, "settings": {"lease": {"enabled": False}}}
    assert granted(helm.template(values), "ballast") == READS | OWN


def test_the_lease_may_have_another_name_and_namespace(helm: Helm) -> None:
    values: Values = {"settings": {**PUBLISHING["settings"], "lease": {"name": "other", "namespace": "kube-system"}}}
    manifests = helm.template(values)
    elsewhere = {grant for grant in granted(manifests, "ballast") if grant[0] == "kube-system"}
    assert elsewhere == {
        ("kube-system", resource, name.replace("ballast", "other"), verb) for _, resource, name, verb in LEASE
    }
    assert ("kube-system", "coordination.k8s.io/leases", "other", "get") in granted(manifests, "ballast-watchdog")


@pytest.mark.parametrize("publishing", MODES)
def test_some_rights_are_never_asked_for(helm: Helm, publishing: str) -> None:
    manifests = helm.template({**modes(publishing), "cleanup": "always"})
    for account in accounts(manifests):
        for _, resource, name, verb in granted(manifests, account):
            assert "*" not in (resource, verb)
            assert resource not in ("secrets", "nodes/proxy", "nodes/status", "pods/exec")
            assert verb in READING | {"create", "update", "patch"}
            assert not (resource == "configmaps" and name == "*" and verb != "create")


def test_no_rights_without_rbac_and_no_account_without_asking(helm: Helm) -> None:
    values: Values = {**PUBLISHING, "rbac": {"create": False}, "serviceAccount": {"create": False, "name": "given"}}
    manifests = helm.template(values)
    assert not of_kind(manifests, "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
    [deployment] = of_kind(manifests, "Deployment")
    assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == "given"
