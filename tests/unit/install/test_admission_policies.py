"""What the admission policies leave of the rights that RBAC cannot narrow."""

import json
from typing import Any

import pytest

from tests.worlds.chart import NAMESPACE, POLICIES, Helm, Values, one

pytestmark = pytest.mark.slow

EVICTING: Values = {"settings": {"eviction": {"mode": "on", "surge": True}}}


def expressions(helm: Helm, values: Values, name: str) -> str:
    """All that the policy demands."""
    spec = one(helm.template(values), "ValidatingAdmissionPolicy", f"{name}.{NAMESPACE}")["spec"]
    return "\n".join(each["expression"] for each in spec["validations"])


def matched(helm: Helm, values: Values, name: str) -> set[tuple[str, str]]:
    """(operation, resource) that the policy looks at."""
    spec = one(helm.template(values), "ValidatingAdmissionPolicy", f"{name}.{NAMESPACE}")["spec"]
    rules: list[dict[str, Any]] = spec["matchConstraints"]["resourceRules"]
    return {(verb, resource) for rule in rules for verb in rule["operations"] for resource in rule["resources"]}


def test_no_taint_of_ballast_evicts(helm: Helm) -> None:
    assert "t.effect != 'NoExecute' || t in oldObject.spec" in expressions(helm, {}, "ballast")


def test_taints_of_ballast_only_stop_pods_where_a_setting_says_so(helm: Helm) -> None:
    assert "t.effect in ['PreferNoSchedule'])" in expressions(helm, {}, "ballast")
    hard: Values = {"settings": {"publishing": {"load_taint": "NoSchedule"}}}
    assert "t.key == 'ballast.dev/load' && t.effect in ['PreferNoSchedule','NoSchedule'])" in expressions(
        helm, hard, "ballast"
    )


def test_labels_under_a_prefix_of_their_own_may_be_score_and_load(helm: Helm) -> None:
    guarded: Values = {"settings": {"publishing": {"label_prefix": "x.node-restriction.kubernetes.io"}}}
    theirs = "'x.node-restriction.kubernetes.io/score','x.node-restriction.kubernetes.io/load'"
    named = f"k in [{theirs},'ballast.dev/score','ballast.dev/load','ballast.dev/empty']"
    assert expressions(helm, guarded, "ballast").count(named) == 2
    assert "x.node-restriction.kubernetes.io" not in expressions(helm, guarded, "ballast-pods")
    assert "ballast.node-restriction.kubernetes.io/score" in expressions(helm, {}, "ballast")
    named: Values = {"settings": {"publishing": {"prefix": "load.example"}}}
    assert "node-restriction" not in expressions(helm, named, "ballast"), "who names a prefix gets it"


def test_the_operators_own_words_stay_theirs(helm: Helm) -> None:
    for name in ("ballast", "ballast-pods"):
        said = expressions(helm, EVICTING, name)
        assert said.count("!k.startsWith('ballast.dev/exclude') && !k.startsWith('ballast.dev/evict')") == 2


OPEN = ("ballast.dev/score", "ballast.dev/load")
GUARDED = ("ballast.node-restriction.kubernetes.io/score", "ballast.node-restriction.kubernetes.io/load")


@pytest.mark.parametrize(
    ("policy", "labels", "annotations", "most"),
    [
        ("ballast", [*GUARDED, *OPEN, "ballast.dev/empty"], ["ballast.dev/window"], 4096),
        ("ballast-pods", [], ["controller.kubernetes.io/pod-deletion-cost", "ballast.dev/deletion-cost"], 16),
        ("ballast-autoscalers", [], ["ballast.dev/original-max-replicas", "ballast.dev/power-cap"], 16),
        ("ballast-scaledobjects", [], ["ballast.dev/original-max-replicas", "ballast.dev/power-cap"], 16),
    ],
)
def test_each_key_that_is_written_is_named_and_bounded(
    policy: str, labels: list[str], annotations: list[str], most: int, helm: Helm
) -> None:
    said = expressions(helm, EVICTING, policy)
    for what, keys in (("labels", labels), ("annotations", annotations)):
        named = json.dumps(keys, separators=(",", ":")).replace('"', "'")
        assert f"variables.{what}.all(k, (k in {named} && size(variables.{what}[k]) <= {most})" in said


def test_events_are_in_ballast_s_own_name(helm: Helm) -> None:
    assert matched(helm, EVICTING, "ballast-events") == {("CREATE", "events")}
    assert "reportingComponent.orValue('') == 'ballast'" in expressions(helm, EVICTING, "ballast-events")


def test_of_a_pod_s_status_only_the_nominated_node_is_left(helm: Helm) -> None:
    said = expressions(helm, {}, "ballast-pods")
    for field in ("startTime", "resourceClaimStatuses", "extendedResourceClaimStatus", "qosClass", "hostIP", "phase"):
        assert f"object.?status.?{field} == oldObject.?status.?{field}" in said
    assert "nominatedNodeName" not in said


@pytest.mark.parametrize(("given", "demanded"), [(None, "!object.?deleteOptions"), ("30s", ".orValue(1) > 0")])
def test_a_pod_s_own_grace_period_stays_unless_a_setting_replaces_it(
    helm: Helm, given: str | None, demanded: str
) -> None:
    values = {"settings": {"eviction": {"mode": "on", **({"grace_period": given} if given else {})}}}
    [grace] = [
        each for each in expressions(helm, values, "ballast-evictions").splitlines() if "gracePeriodSeconds" in each
    ]
    assert demanded in grace


def test_any_deployment_is_scaled_by_one_and_targets_of_power_freely(helm: Helm) -> None:
    assert matched(helm, EVICTING, "ballast-replicas") == {("UPDATE", "deployments/scale")}
    said = expressions(helm, EVICTING, "ballast-replicas")
    assert "request.name in [] " in said
    assert "request.namespace != 'kube-system' && variables.replicas > 0" in said
    assert "variables.replicas - variables.replicasBefore in [-1, 1]" in said
    settings = {**EVICTING["settings"], "power": {"mode": "on", "policies": POLICIES}}
    said = expressions(helm, {"settings": settings}, "ballast-replicas")
    assert "request.name in ['batch/reports','shop/api','shop/cart'] " in said


def test_what_is_created_has_ballast_s_own_names(helm: Helm) -> None:
    values = {"fullnameOverride": "other", "settings": {"lease": {"name": "pair"}}}
    assert matched(helm, values, "other-own") == {
        ("CREATE", "configmaps"),
        ("CREATE", "leases"),
        ("CREATE", "endpointslices"),
        ("UPDATE", "endpointslices"),
    }
    said = expressions(helm, values, "other-own")
    assert "['ballast-state', 'ballast-state-1', " in said
    assert "'ballast-state-8']" in said
    assert "['pair'] : ['other-extender']" in said
    assert "labels[?'kubernetes.io/service-name'].orValue('') == 'other-extender'" in said
