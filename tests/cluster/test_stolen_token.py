"""What whoever holds the daemon's token may do: each request on a real API server, in each mode."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from ballast_lab.harness.api import Api
from ballast_lab.harness.objects import PODS, pod
from ballast_lab.harness.release import Release
from ballast_lab.harness.waiting import eventually

MODES = {
    "dry-run": "settings.publishing.mode=dry-run",
    "labels": "settings.publishing.mode=on",
    "all": (
        "settings.publishing.mode=on,settings.eviction.mode=on,settings.eviction.surge=true,"
        "settings.eviction.single=restart,"
        "settings.eviction.landing=taint,settings.eviction.nominate=true,settings.batch.mode=on"
    ),
}
NODE = "/api/v1/nodes/busy"
SYSTEM = "/api/v1/namespaces/kube-system"
WEB = "/apis/apps/v1/namespaces/default/deployments/web"
ONE = "/apis/apps/v1/namespaces/default/deployments/one"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
JSON_PATCH, APPLY = "application/json-patch+json", "application/apply-patch+yaml"
OURS = {"key": "ballast.dev/overloaded", "effect": "PreferNoSchedule"}
IMAGE = {"spec": {"containers": [{"name": "main", "image": "evil"}]}}
LABELLED = {"metadata": {"labels": {"zone": "b"}}}


class Request(NamedTuple):
    """`why` it is let through, in the modes `modes`; elsewhere it is refused. `dry`: without effect."""

    verb: str
    path: str
    body: Any = None
    kind: str = ""
    modes: tuple[str, ...] = ()
    why: str = ""
    dry: bool = True


def marks(**taint: str) -> dict[str, Any]:
    return {"spec": {"taints": [{**OURS, **taint}]}}


def eviction(name: str, namespace: str = "default", **options: object) -> Request:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
    return Request("POST", path, body | ({"deleteOptions": options} if options else {}))


def scaled(replicas: int) -> Request:
    return Request("PATCH", f"{WEB}/scale", {"spec": {"replicas": replicas}})


def restarted(uid: str, path: str = ONE, metadata: Mapping[str, object] | None = None, **more: object) -> Request:
    template = {"metadata": {"annotations": {"ballast.dev/restarted-for": uid}, **(metadata or {})}, **more}
    return Request("PATCH", path, {"spec": {"template": template}}, STRATEGIC)


def requests(uid: str, own: str) -> dict[str, Request]:
    """By what they do. `uid` is that of the pod `victim`, `own` the namespace of the installation."""
    configmap = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}}
    event = {
        "metadata": {"generateName": "busy."},
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": "busy"},
        "reason": "Tested",
        "type": "Normal",
        "reportingInstance": "one",
    }
    kubelets = {"source": {"component": "kubelet"}, "reportingComponent": "kubelet"}
    ballasts = {"source": {"component": "ballast"}, "reportingComponent": "ballast"}
    acts, evicts = ("labels", "all"), ("all",)
    return {
        "read a Secret": Request("GET", f"{SYSTEM}/secrets"),
        "read its own namespace's Secrets": Request("GET", f"/api/v1/namespaces/{own}/secrets"),
        "create a pod": Request("POST", PODS, pod("") | {"metadata": {"generateName": "new-"}}, dry=False),
        "try whether a pod could be created": Request(
            "POST", PODS, pod("new"), modes=evicts, why="an eviction asks before whether its replacement is let in"
        ),
        "run a command in a pod": Request("POST", f"{PODS}/victim/exec?command=sh"),
        "delete a pod": Request("DELETE", f"{PODS}/victim"),
        "delete a node": Request("DELETE", NODE),
        "delete a Deployment": Request("DELETE", WEB),
        "change a pod's image": Request("PATCH", f"{PODS}/victim", IMAGE, STRATEGIC),
        "change a Deployment": Request("PATCH", WEB, {"spec": {"paused": True}}),
        "label a pod": Request("PATCH", f"{PODS}/victim", LABELLED),
        "free a pod from exclude": Request(
            "PATCH", f"{PODS}/victim", {"metadata": {"annotations": {"ballast.dev/exclude": "false"}}}
        ),
        "let a pod be evicted": Request(
            "PATCH", f"{PODS}/victim", {"metadata": {"annotations": {"ballast.dev/evict": "true"}}}
        ),
        "tell a pod's phase": Request("PATCH", f"{PODS}/victim/status", {"status": {"phase": "Failed"}}),
        "nominate a node": Request(
            "PATCH",
            f"{PODS}/victim/status",
            {"status": {"nominatedNodeName": "idle"}},
            modes=evicts,
            why="room is made for a pod there",
        ),
        "evict by uid": eviction("victim", preconditions={"uid": uid})._replace(
            modes=evicts, why="that is what evictions are; disruption budgets hold"
        ),
        "evict whatever has the name": eviction("victim"),
        "evict without grace": eviction("victim", preconditions={"uid": uid}, gracePeriodSeconds=0),
        "evict from kube-system": eviction("system", "kube-system", preconditions={"uid": uid}),
        "write a score": Request(
            "PATCH",
            NODE,
            {"metadata": {"labels": {"ballast.node-restriction.kubernetes.io/score": "7"}}},
            modes=acts,
            why="that is what publishing writes",
        ),
        "fill etcd by a window of a node": Request(
            "PATCH", NODE, {"metadata": {"annotations": {"ballast.dev/window": "x" * 200_000}}}
        ),
        "annotate a node with what we never write": Request(
            "PATCH", NODE, {"metadata": {"annotations": {"ballast.dev/x": "x"}}}
        ),
        "label a node with what we never write": Request(
            "PATCH", NODE, {"metadata": {"labels": {"ballast.dev/x": "x"}}}
        ),
        "fill etcd by a pod's deletion cost": Request(
            "PATCH", f"{PODS}/victim", {"metadata": {"annotations": {"ballast.dev/deletion-cost": "1" * 200_000}}}
        ),
        "annotate a pod with what we never write": Request(
            "PATCH", f"{PODS}/victim", {"metadata": {"annotations": {"ballast.dev/window": "x"}}}
        ),
        "label a pod under our prefix": Request(
            "PATCH", f"{PODS}/victim", {"metadata": {"labels": {"ballast.dev/score": "7"}}}
        ),
        "label a node by merge": Request("PATCH", NODE, LABELLED),
        "label a node by strategic merge": Request("PATCH", NODE, LABELLED, STRATEGIC),
        "label a node by JSON patch": Request(
            "PATCH", NODE, [{"op": "add", "path": "/metadata/labels/zone", "value": "b"}], JSON_PATCH
        ),
        "label a node by apply": Request(
            "PATCH", f"{NODE}?fieldManager=x&force=true", {"apiVersion": "v1", "kind": "Node", **LABELLED}, APPLY
        ),
        "make a node a control plane": Request(
            "PATCH", NODE, {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}
        ),
        "take a node out by exclude": Request(
            "PATCH", NODE, {"metadata": {"annotations": {"ballast.dev/exclude": "true"}}}
        ),
        "set our soft taint": Request("PATCH", NODE, marks(), modes=acts, why="that is what publishing writes"),
        "stop pods by a taint of ours": Request("PATCH", NODE, marks(effect="NoSchedule")),
        "drive pods away by a taint of ours": Request("PATCH", NODE, marks(effect="NoExecute")),
        "set a taint that we never set": Request("PATCH", NODE, marks(key="ballast.dev/x")),
        "set another's taint": Request("PATCH", NODE, marks(key="example.org/x")),
        "cordon a node": Request("PATCH", NODE, {"spec": {"unschedulable": True}}),
        "tell a node's capacity": Request("PATCH", f"{NODE}/status", {"status": {"capacity": {"cpu": "1k"}}}),
        "keep a node by a finalizer": Request("PATCH", NODE, {"metadata": {"finalizers": ["example.org/keep"]}}),
        "add one replica": scaled(4)._replace(modes=evicts, why="a surge adds one; CEL cannot see whether one is open"),
        "take one replica": scaled(2)._replace(modes=evicts, why="a surge takes one back; likewise"),
        "add two replicas": scaled(5),
        "restart a single replica": restarted(uid)._replace(modes=evicts, why="that is how single replicas move"),
        "restart a Deployment of three": restarted(uid, WEB),
        "restart a Deployment with another image": restarted(uid, **IMAGE),
        "keep pods by a finalizer of their template": restarted(uid, metadata={"finalizers": ["example.org/keep"]}),
        "change the replicas of a Deployment itself": Request("PATCH", WEB, {"spec": {"replicas": 9}}),
        "annotate a template": Request(
            "PATCH", WEB, {"spec": {"template": {"metadata": {"annotations": {"example.org/x": "y"}}}}}
        ),
        "exclude a Deployment": Request("PATCH", WEB, {"metadata": {"annotations": {"ballast.dev/exclude": "true"}}}),
        "scale to none": scaled(0),
        "write another ConfigMap": Request("POST", f"/api/v1/namespaces/{own}/configmaps", configmap),
        "change another ConfigMap": Request("PATCH", f"{SYSTEM}/configmaps/kube-root-ca.crt", {"data": {"ca.crt": ""}}),
        "take another Lease": Request(
            "PATCH", f"{SYSTEM}/leases/kube-controller-manager", {"spec": {"holderIdentity": "x"}}
        )._replace(path="/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager"),
        "tell an Event as kubelet": Request("POST", "/api/v1/namespaces/default/events", event | kubelets),
        "tell an Event as ballast": Request(
            "POST", "/api/v1/namespaces/default/events", event | ballasts, modes=acts, why="it tells what it does"
        ),
        "give itself rights": Request(
            "POST",
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            {
                "metadata": {"name": "x"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [{"kind": "ServiceAccount", "name": "ballast", "namespace": own}],
            },
        ),
        "make a token": Request(
            "POST", f"{SYSTEM}/serviceaccounts/default/token", {"apiVersion": "authentication.k8s.io/v1"}
        ),
        "switch the policy off": Request(
            "DELETE", f"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/ballast.{own}"
        ),
    }


@contextmanager
def objects(api: Api) -> Iterator[str]:
    """A pod `victim`, a Deployment `web` of three replicas and one `one` of one; gives the pod's uid."""
    uid = api.post(PODS, pod("victim"))["metadata"]["uid"]
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": pod("web", schedulerName="nobody")["spec"]}
    spec = {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}
    deployments = WEB.removesuffix("/web")
    api.post(deployments, {"metadata": {"name": "web"}, "spec": spec})
    labels, single = {"app": "one"}, {**template, "metadata": {"labels": {"app": "one"}}}
    one = {"replicas": 1, "selector": {"matchLabels": labels}, "template": single}
    api.post(deployments, {"metadata": {"name": "one"}, "spec": one})
    try:
        yield uid
    finally:
        api.delete(WEB, {"gracePeriodSeconds": 0})
        api.delete(ONE, {"gracePeriodSeconds": 0})
        api.delete(PODS, {"gracePeriodSeconds": 0})


@pytest.mark.parametrize("mode", MODES)
def test_a_stolen_token_does_what_the_mode_needs_and_nothing_else(release: Release, mode: str) -> None:
    release.install("--set", f"admissionPolicy.enabled=true,{MODES[mode]}")
    api = release.cluster.api
    with (
        objects(api) as uid,
        release.cluster.as_token(release.cluster.account_token(release.namespace, "ballast")) as it,
    ):
        table = requests(uid, release.namespace)

        def as_expected() -> bool:
            wrong = [f"{what}: {answer}" for what, answer in differing(it, table, mode)]
            assert not wrong, "\n".join(wrong)
            return True

        eventually("the policies, which come one after the other, are in force", as_expected)


def differing(it: Api, table: dict[str, Request], mode: str) -> Iterator[tuple[str, str]]:
    """What is let through and should not be, or the other way round, and the answer."""
    for what, request in table.items():
        path = request.path
        if request.dry and request.verb != "GET":
            path += "&dryRun=All" if "?" in path else "?dryRun=All"
        kind = request.kind or (MERGE if request.verb == "PATCH" else "application/json")
        answer = it.raw(request.verb, path, request.body, kind=kind)
        if not (answer.ok if mode in request.modes else answer.status_code == 403):
            yield what, f"{answer.status_code} {answer.text[:300]}"


def test_whatever_is_let_through_has_a_reason() -> None:
    for what, request in requests("uid", "own").items():
        assert bool(request.modes) == bool(request.why), what
