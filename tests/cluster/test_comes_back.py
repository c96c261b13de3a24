"""What is evicted comes back as what it was: drawn owners with pending rollouts and policies, a real control plane."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import pytest

from ballast_lab.harness.api import Api, Json
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.evicting import Actor, deployment, is_ready
from ballast_lab.harness.objects import add_nodes, node
from ballast_lab.harness.waiting import eventually
from tests.cluster.test_returnable import APPS, HERE, NAMESPACE, RULES, shop  # noqa: F401

POLICIES = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolic"
NUMBER = 200
MORE_NODES = 8
CPU = {"none": "10m", "more": "20m", "huge": "40"}
"""What new pods ask for by the label `grow` of their template, once the policy is there; no node has 40 cores."""


@dataclass(frozen=True)
class Drawn:
    """One owner. `pending`: its template has changed, and its pods have not followed."""

    name: str
    kind: str
    pending: bool
    grow: str
    partition: int | None = None

    @property
    def stays(self) -> bool:
        """Of its pod 1, whether it would come back as something else, or not at all."""
        kept = self.partition is not None and self.partition > 1
        return self.grow == "huge" or (self.pending and not kept)

    @property
    def collection(self) -> str:
        return f"{APPS}/{self.kind.lower()}s"

    def body(self) -> Json:
        made = deployment(self.name, 2, cpu="10m", memory="8Mi")
        made["kind"] = self.kind
        made["spec"]["template"]["metadata"]["labels"]["grow"] = self.grow
        if self.kind == "StatefulSet":
            made["spec"] |= {"serviceName": self.name, "podManagementPolicy": "Parallel"}
            rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": self.partition}}
            made["spec"]["updateStrategy"] = {"type": "OnDelete"} if self.partition is None else rolling
        return made

    def change(self, api: Api) -> None:
        """Another image, of which nothing may roll out by itself."""
        paused = {"paused": True} if self.kind == "Deployment" else {}
        containers = [{**self.body()["spec"]["template"]["spec"]["containers"][0], "image": "newer"}]
        spec = {**paused, "template": {"spec": {"containers": containers}}}
        api.patch(f"{self.collection}/{self.name}", {"spec": spec})


def draw(random: Random, number: int) -> Drawn:
    kind = random.choice(("Deployment", "ReplicaSet", "StatefulSet", "StatefulSet"))
    partition = random.choice((None, 2)) if kind == "StatefulSet" else None
    grow = random.choice(("none", "none", "more", "huge"))
    return Drawn(f"x{number}", kind, random.random() < 0.5, grow, partition)


@pytest.fixture
def policy(shop: ControlPlane) -> Iterator[Api]:  # noqa: F811
    """`begin` it by the first label that asks for it: what new pods ask for follows from a label."""
    api = shop.api
    add_nodes(api, [node(f"m{number}", cpu="32", memory="64Gi") for number in range(MORE_NODES)])
    yield api
    for name in ("ies", "ybindings"):
        api.raw("DELETE", f"{POLICIES}{name}/grow")
    api.delete(f"{APPS}/replicasets", {"propagationPolicy": "Background"})


def begin(api: Api) -> None:
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
    value = " : ".join(f"object.metadata.labels.grow == '{label}' ? '{cpu}'" for label, cpu in CPU.items()) + " : '10m'"
    path = "/spec/containers/0/resources/requests/cpu"
    change = f"[JSONPatch{{op: 'replace', path: '{path}', value: {value}}}]"
    mutations = [{"patchType": "JSONPatch", "jsonPatch": {"expression": change}}]
    spec = {"failurePolicy": "Fail", "reinvocationPolicy": "Never", "matchConstraints": {"resourceRules": rules}}
    api.raw("POST", f"{POLICIES}ies", {"metadata": {"name": "grow"}, "spec": {**spec, "mutations": mutations}})
    where = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}}}
    binding = {"policyName": "grow", "matchResources": where}
    api.raw("POST", f"{POLICIES}ybindings", {"metadata": {"name": "grow"}, "spec": binding})
    probe = {"metadata": {"name": "probe", "labels": {"grow": "huge"}}}
    probe["spec"] = {"containers": [{"name": "a", "image": "x", "resources": {"requests": {"cpu": "1"}}}]}
    eventually("it is in force", lambda: asks(api.post(f"{HERE}/pods?dryRun=All", probe)) == "40", every=0.5)


def asks(pod: Json) -> str:
    return str(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])


def image(pod: Json) -> str:
    return str(pod["spec"]["containers"][0]["image"])


def pods(api: Api) -> dict[str, list[Json]]:
    """By the label of their owner, those that stay."""
    found: dict[str, list[Json]] = {}
    for pod in api.items(f"{HERE}/pods"):
        if "deletionTimestamp" not in pod["metadata"]:
            found.setdefault(pod["metadata"]["labels"]["app"], []).append(pod)
    return found


def all_ready(api: Api, drawn: list[Drawn]) -> bool:
    there = pods(api)
    return all(sum(map(is_ready, there.get(each.name, ()))) == 2 for each in drawn)


def second(there: list[Json]) -> Json:
    """Pod 1 of a StatefulSet, any of the others."""
    return max(there, key=lambda pod: str(pod["metadata"]["name"]))


@pytest.mark.timeout(900)
def test_nothing_comes_back_in_another_revision_or_in_a_size_that_does_not_fit(
    shop: ControlPlane,  # noqa: F811
    policy: Api,
) -> None:
    api, random = policy, Random(48)
    drawn = [draw(random, number) for number in range(NUMBER)]
    for each in drawn:
        api.post(each.collection, each.body())
    eventually("all are Ready", lambda: all_ready(api, drawn), every=1)
    for each in drawn:
        if each.pending:
            each.change(api)
    begin(api)
    before, outcomes = pods(api), {}
    with Actor(shop.admin_kubeconfig, rules=RULES) as actor:
        for each in drawn:
            name = f"{NAMESPACE}/{second(before[each.name])['metadata']['name']}"
            pod = eventually("it is seen", lambda name=name: actor.find(name), every=0.1)
            [attempt] = actor.carry_out(pod)
            outcomes[each] = attempt.status if attempt.evicted else f"{attempt.check}: {attempt.why}"
    moved = [each for each in drawn if outcomes[each] == "evicted"]
    eventually("all are Ready again", lambda: all_ready(api, drawn), every=1)
    after = pods(api)
    for each in moved:
        new = [pod for pod in after[each.name] if pod["metadata"]["uid"] not in
               {old["metadata"]["uid"] for old in before[each.name]}]  # fmt: skip
        assert [image(pod) for pod in new] == ["none"], each
        assert [asks(pod) for pod in new] == [CPU[each.grow]], each
    told = {each: outcomes[each] for each in drawn if (outcomes[each] == "evicted") == each.stays}
    assert not told, told
    assert {each.kind for each in moved} == {"Deployment", "ReplicaSet", "StatefulSet"}
