"""The policy that has replacements prefer the node that a plan counts on."""

import pytest

from tests.worlds.chart import NAMESPACE, Helm, Values, modes, of_kind

pytestmark = pytest.mark.slow

KINDS = ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding")


def values(mode: str = "on", landing: str = "taint") -> Values:
    found = modes("off", "off", mode)
    found["settings"]["eviction"]["landing"] = landing
    return found


def test_it_reads_the_state_of_the_daemon_where_the_api_server_serves_it(helm: Helm) -> None:
    policy, binding = of_kind(helm.template(values(), "--kube-version", "1.36"), *KINDS)
    assert policy["spec"]["paramKind"] == {"apiVersion": "v1", "kind": "ConfigMap"}
    assert policy["spec"]["failurePolicy"] == "Ignore"
    assert binding["spec"]["paramRef"] == {
        "name": "ballast-state",
        "namespace": NAMESPACE,
        "parameterNotFoundAction": "Allow",
    }
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]


@pytest.mark.parametrize(
    ("given", "version"),
    [
        (values(), "1.35"),
        (values("dry-run"), "1.36"),
        (values(landing="extender"), "1.36"),
        ({**values(), "landingPolicy": {"enabled": False}}, "1.36"),
    ],
    ids=["not-served", "dry-run", "extender", "switched-off"],
)
def test_otherwise_it_is_left_out(helm: Helm, given: Values, version: str) -> None:
    assert of_kind(helm.template(given, "--kube-version", version), *KINDS) == []
