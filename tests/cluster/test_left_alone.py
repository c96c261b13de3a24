"""Pods that cannot go elsewhere, or must not, on a node that is too loaded: none is evicted, and nothing gets stuck."""

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ballast_lab.harness.acting import NODES, acting
from ballast_lab.harness.api import Json
from ballast_lab.harness.control_plane import RUNS, ControlPlane
from ballast_lab.harness.evicting import DEPLOYMENTS, deployment, is_ready
from ballast_lab.harness.objects import PODS, pod
from ballast_lab.harness.waiting import eventually
from tests.worlds.http_handler import AnsweringHandler

JOBS = "/apis/batch/v1/namespaces/default/jobs"
SETS = "/apis/apps/v1/namespaces/default/statefulsets"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
REFUSED = {"stern": 429, "grim": 403}
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def test_what_cannot_or_must_not_move_stays_and_the_rest_is_relieved(cluster: ControlPlane, tmp_path: Path) -> None:
    api = cluster.api
    with acting(cluster, tmp_path, "relieve", without_pdb="allow") as (daemon, machines, _), _refusing(cluster):
        try:
            with _alone(cluster, "n0"):
                _stand(cluster)
                before = eventually("all are there", lambda: _running(cluster, 17), every=0.5)
            since = cluster.audit.here()
            machines["n0"].memory = 0.95
            eventually("an ordinary pod was moved", lambda: _gone(cluster, before, "plain"), every=0.5)
            for app, code in REFUSED.items():
                eventually(f"{app} was refused", lambda: code in _answers(cluster, since, app), every=0.5)  # noqa: B023
            left = {app for app in before if _gone(cluster, before, app)}
            assert left == {"plain"}
            # Ballast's own pods are no part of this: the daemon runs outside, and does not know them as its own.
            asked = {call.name.split("-")[0] for call in _evictions(cluster, since)} - {"ballast"}
            assert asked == {"plain", *REFUSED}
            for app in REFUSED:
                assert len(_answers(cluster, since, app)) <= 4, "a workload rests after a refusal"
            machines["n0"].memory = 0.3
            eventually("nothing waits", lambda: not _waiting(cluster), every=0.5)
            failed = api.get(f"{JOBS}/train")["status"].get("failed", 0)
            assert failed == 0
            assert _halted(daemon) is None
        finally:
            _clear(cluster)


def test_a_pod_that_preempts_needs_no_eviction(cluster: ControlPlane, tmp_path: Path) -> None:
    api = cluster.api
    with acting(cluster, tmp_path, "redistribute") as (_, _machines, installed):
        try:
            api.post(CLASSES, {"metadata": {"name": "high"}, "value": 1000})
            with _alone(cluster, "n0"):
                low = pod("low", cpu="8", memory="1Gi", terminationGracePeriodSeconds=0)
                low["metadata"]["finalizers"] = ["example.com/stays"]
                api.post(PODS, low)
                api.post(DEPLOYMENTS, deployment("mover", 2, cpu="3500m", memory="1Gi", priorityClassName="high"))
                eventually("they run", lambda: len(_ready(cluster)) == 3, every=0.2)
                since = cluster.audit.here()
                vip = pod("vip", cpu="4", memory="1Gi", priorityClassName="high", nodeSelector={HOST: "n0"})
                api.post(PODS, vip)
                eventually("it preempts", lambda: _nominated(cluster) == "n0", every=0.2)
            cycles = _cycles(cluster, installed.user)
            eventually("Ballast has looked", lambda: _cycles(cluster, installed.user) > cycles + 5, every=0.5)
            assert _evictions(cluster, since, installed.user) == []
            api.patch(f"{PODS}/low", {"metadata": {"finalizers": None}})
            eventually("it starts", lambda: "vip" in _ready(cluster), every=0.2)
            assert _evictions(cluster, since, installed.user) == []
        finally:
            _clear(cluster)


def _stand(cluster: ControlPlane) -> None:
    """On n0: what may not move, what a webhook keeps, and two ordinary pods."""
    api = cluster.api
    once = {"restartPolicy": "Never", "containers": _containers()}
    api.post(
        JOBS,
        {
            "metadata": {"name": "train"},
            "spec": {
                "completions": 2,
                "parallelism": 2,
                "completionMode": "Indexed",
                "backoffLimit": 0,
                "template": {"metadata": {"labels": {"app": "train"}, "annotations": {RUNS: "true"}}, "spec": once},
            },
        },
    )
    gang = deployment("gang", 2, memory="1Gi")
    gang["spec"]["template"]["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] = "gang"
    api.post(DEPLOYMENTS, gang)
    for name, key, mode in (("local", HOST, "ReadWriteOnce"), ("zonal", ZONE, "ReadWriteOnce")):
        _volume(cluster, name, key, mode)
        api.post(DEPLOYMENTS, deployment(name, 2, memory="1Gi", volumes=[_claimed(name)]))
    _volume(cluster, "only", HOST, "ReadWriteOncePod")
    api.post(DEPLOYMENTS, deployment("only", 1, memory="1Gi", volumes=[_claimed("only")]))
    pinned = {"disk": "here"}
    api.patch("/api/v1/nodes/n0", {"metadata": {"labels": pinned}})
    api.post(DEPLOYMENTS, deployment("pinned", 2, memory="1Gi", nodeSelector=pinned))
    for name in REFUSED:
        api.post(DEPLOYMENTS, deployment(name, 2, memory="3Gi"))
    api.post(DEPLOYMENTS, deployment("plain", 2, memory="1Gi"))


def _containers() -> list[Json]:
    return [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}}]


def _claimed(name: str) -> Json:
    return {"name": "data", "persistentVolumeClaim": {"claimName": name}}


def _volume(cluster: ControlPlane, name: str, key: str, mode: str) -> None:
    """A volume of n0, or of its zone, and the claim that it is bound to."""
    value = "n0" if key == HOST else "east"
    if key == ZONE:
        cluster.api.patch("/api/v1/nodes/n0", {"metadata": {"labels": {ZONE: value}}})
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    common = {"accessModes": [mode], "storageClassName": ""}
    spec: Json = {**common, "capacity": {"storage": "1Gi"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}
    spec |= {"csi": {"driver": "disk.example.com", "volumeHandle": name}} if key == ZONE else {"local": {"path": "/d"}}
    cluster.api.post(VOLUMES, {"metadata": {"name": name}, "spec": spec})
    asked = {**common, "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}
    cluster.api.post(CLAIMS, {"metadata": {"name": name}, "spec": asked})
    eventually("the claim is bound", lambda: cluster.api.get(f"{CLAIMS}/{name}")["status"]["phase"] == "Bound")


@contextmanager
def _alone(cluster: ControlPlane, name: str) -> Iterator[None]:
    """No other node takes pods meanwhile."""
    others = [each for each in NODES if each != name]
    for other in others:
        cluster.api.patch(f"/api/v1/nodes/{other}", {"spec": {"unschedulable": True}})
    yield
    for other in others:
        cluster.api.patch(f"/api/v1/nodes/{other}", {"spec": {"unschedulable": None}})


@contextmanager
def _refusing(cluster: ControlPlane) -> Iterator[None]:
    """A webhook that denies evictions as KubeVirt does (429), and as a policy does (403)."""

    class Answer(AnsweringHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
            code = REFUSED.get(review["name"].split("-")[0])
            answer: dict[str, Any] = {"uid": review["uid"], "allowed": code is None}
            if code is not None:
                answer["status"] = {"code": code, "message": "Eviction triggered evacuation of a machine"}
            kind = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
            body = json.dumps({**kind, "response": answer}).encode()
            self.answer(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cluster.certificates.server, cluster.certificates.server_key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    authority = base64.b64encode(cluster.certificates.ca.read_bytes()).decode()
    hook = {
        "name": "machines.example.com",
        "clientConfig": {"url": f"https://127.0.0.1:{server.server_address[1]}/", "caBundle": authority},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/eviction"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    cluster.api.post(WEBHOOKS, {"metadata": {"name": "machines"}, "webhooks": [hook]})
    try:
        yield
    finally:
        cluster.api.raw("DELETE", f"{WEBHOOKS}/machines")
        server.shutdown()
        thread.join()
        server.server_close()


def _app(found: Json) -> str:
    return str((found["metadata"].get("labels") or {}).get("app", found["metadata"]["name"]))


def _running(cluster: ControlPlane, count: int) -> dict[str, set[str]]:
    """{app: UIDs of its pods on n0} once so many pods are Ready."""
    found: dict[str, set[str]] = {}
    for each in cluster.api.items(PODS):
        if is_ready(each) and each["spec"]["nodeName"] == "n0":
            found.setdefault(_app(each), set()).add(each["metadata"]["uid"])
    return found if sum(map(len, found.values())) == count else {}


def _gone(cluster: ControlPlane, before: dict[str, set[str]], app: str) -> bool:
    """Whether a pod of the app that was there is not there any more."""
    there = {each["metadata"]["uid"] for each in cluster.api.items(PODS) if "deletionTimestamp" not in each["metadata"]}
    return not before[app] <= there


def _ready(cluster: ControlPlane) -> list[str]:
    return [_app(each) for each in cluster.api.items(PODS) if is_ready(each)]


def _waiting(cluster: ControlPlane) -> list[str]:
    return [_app(each) for each in cluster.api.items(PODS) if not each["spec"].get("nodeName")]


def _nominated(cluster: ControlPlane) -> str:
    return str(cluster.api.get(f"{PODS}/vip")["status"].get("nominatedNodeName", ""))


def _evictions(cluster: ControlPlane, since: int, user: str | None = None) -> list[Any]:
    return [call for call in cluster.audit.calls(user=user, since=since) if call.resource == "pods/eviction"]


def _answers(cluster: ControlPlane, since: int, app: str) -> list[int]:
    return [call.code for call in _evictions(cluster, since) if call.name.startswith(f"{app}-")]


def _cycles(cluster: ControlPlane, user: str) -> int:
    """How often the leader has renewed its Lease: about every two seconds."""
    calls = cluster.audit.calls(user=user)
    return sum(call.resource == "leases" and call.verb == "update" for call in calls)


def _halted(daemon: Any) -> Any:
    return daemon.get("/api/v1/evictions").json().get("breaker")


def _clear(cluster: ControlPlane) -> None:
    for each in cluster.api.items(PODS):
        if each["metadata"].get("finalizers"):
            cluster.api.patch(f"{PODS}/{each['metadata']['name']}", {"metadata": {"finalizers": None}})
    for path in (JOBS, DEPLOYMENTS, SETS):
        cluster.api.delete(path, {"propagationPolicy": "Background"})
    cluster.api.delete(PODS, {"gracePeriodSeconds": 0})
    for path in (CLAIMS, VOLUMES):
        cluster.api.delete(path, {"gracePeriodSeconds": 0})
    cluster.api.raw("DELETE", f"{CLASSES}/high")
