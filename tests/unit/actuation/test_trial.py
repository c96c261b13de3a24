"""The replacement is tried before a pod is evicted; without the right to, evictions go on."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from ballast.actuation.eviction.trial import UNTRIED, UNTRIED_FOR, ReplacementTrial, created
from ballast.base.errors import ClusterError, Forbidden, Unreachable
from ballast.cluster.api_refusals import refusal
from ballast.cluster.owner_scales import OwnerScales
from ballast.model.pod import Owner, Pod
from tests.worlds.clock import FakeClock
from tests.worlds.evicting import GIB, EvictingApi, Replica

CONTAINER = {"name": "c", "image": "web:1", "resources": {"requests": {"cpu": "1", "memory": "4Gi"}}}
STORED: dict[str, Any] = {
    "metadata": {
        "name": "web-1",
        "namespace": "shop",
        "uid": "u-web-1",
        "resourceVersion": "7",
        "labels": {"app": "web"},
        "ownerReferences": [{"kind": "ReplicaSet", "name": "web-rs", "controller": True, "blockOwnerDeletion": True}],
    },
    "spec": {"nodeName": "n0", "priority": 0, "containers": [CONTAINER]},
    "status": {"phase": "Running"},
}


class TryingApi(EvictingApi):
    """Answers the list of one pod, and dry runs by `judge`, which may raise."""

    def __init__(self) -> None:
        super().__init__()
        self.tried: list[Any] = []
        self.judge: Callable[[], None] = lambda: None
        self.stored: Any = STORED
        self.owners: list[Any] = []
        self.mutate: Callable[[Any], Any] = lambda body: body

    def request(self, method: str, path: str, **more: Any) -> bytes:
        query = more.get("query") or {}
        if "fieldSelector" in query:
            return json.dumps({"items": self.owners if path.startswith("/apis/apps/v1/") else [self.stored]}).encode()
        if query.get("dryRun") == "All":
            self.tried.append(more["body"])
            self.judge()
            return json.dumps(self.mutate(more["body"])).encode()
        return super().request(method, path, **more)


def raising(error: ClusterError) -> Callable[[], None]:
    def judge() -> None:
        raise error

    return judge


@pytest.fixture
def server() -> TryingApi:
    api = TryingApi()
    for node in ("n0", "n1", "n2") * 2:
        api.add(node)
    return api


@pytest.fixture
def replica(server: TryingApi) -> Replica:
    made = Replica(server)
    trial = ReplacementTrial(server, made.writer, server.clock)  # type: ignore[arg-type]
    made.evictor.options = replace(made.evictor.options, trial=trial)
    return made


def test_the_replacement_is_tried_as_its_owner_would_create_it(replica: Replica, server: TryingApi) -> None:
    [attempt] = replica.carry_out(server.pods["shop/web-1"])
    assert attempt.evicted
    [body] = server.tried
    assert body["metadata"] == {
        "name": "web-1-trial",
        "namespace": "shop",
        "labels": {"app": "web"},
        "ownerReferences": [{"kind": "ReplicaSet", "name": "web-rs", "controller": True}],
    }
    assert body["spec"] == {"containers": [CONTAINER]}


@pytest.mark.parametrize(
    "error",
    [
        Forbidden("exceeded quota: small", status=403, admission=True),
        ClusterError("failed calling webhook", status=500),
        ClusterError('admission webhook "w" denied the request', status=400),
        Unreachable("no answer"),
    ],
)
def test_a_pod_whose_replacement_would_be_refused_stays(
    replica: Replica, server: TryingApi, error: ClusterError
) -> None:
    server.judge = raising(error)
    [attempt] = replica.carry_out(server.pods["shop/web-1"])
    assert (attempt.status, attempt.check) == ("refused", "returnable")
    assert str(error) in attempt.why
    assert not server.evicted
    assert replica.evictor.history().backing_off


@pytest.mark.parametrize(
    "error",
    [
        Forbidden("Ballast needs verb `create` on `pods`", status=403),
        ClusterError('admission webhook "w" does not support dry run', status=400),
    ],
)
def test_what_cannot_be_tried_is_evicted(replica: Replica, server: TryingApi, error: ClusterError) -> None:
    server.judge = raising(error)
    [attempt] = replica.carry_out(server.pods["shop/web-1"])
    assert attempt.evicted


def test_a_right_that_was_refused_is_asked_for_again_after_a_while(server: TryingApi) -> None:
    trial = ReplacementTrial(server, Replica(server).writer, server.clock)  # type: ignore[arg-type]
    server.judge = raising(Forbidden("no", status=403))
    pod = server.pods["shop/web-1"]
    assert [trial.replacement(pod, 20) for _ in range(3)] == [UNTRIED] * 3
    assert len(server.tried) == 1
    server.clock.advance(UNTRIED_FOR)
    assert trial.replacement(pod, 20) == UNTRIED
    assert len(server.tried) == 2


def test_another_pod_of_that_name_is_not_tried(server: TryingApi) -> None:
    trial = ReplacementTrial(server, Replica(server).writer, server.clock)  # type: ignore[arg-type]
    assert trial.replacement(msgspec.structs.replace(server.pods["shop/web-1"], uid="another"), 20) == UNTRIED
    assert not server.tried


def test_a_long_name_stays_one() -> None:
    name = "a" * 239 + "." + "b" * 13
    body = created(None, {"metadata": {"name": name, "namespace": "shop"}, "spec": {}})
    assert body["metadata"]["name"] == "a" * 239 + "-trial"


def changed(spec: dict[str, Any], **container: Any) -> Callable[[Any], Any]:
    """A policy that changes new pods."""
    return lambda body: {**body, "spec": {**body["spec"], "containers": [{**CONTAINER, **container}], **spec}}


def asking(**requests: str) -> dict[str, Any]:
    return {"resources": {"requests": {"memory": "4Gi", **requests}}}


CLAIM = {"name": "d", "persistentVolumeClaim": {"claimName": "d-web-1"}}


@pytest.mark.parametrize(
    ("mutate", "why"),
    [
        (changed({}, **asking(cpu="40")), "its replacement would ask for 40 cpu instead of 1 cpu, and n5 has no room"),
        (changed({}, **asking(cpu="1", memory="50Gi")), "would ask for 51,200Mi memory instead of 4,096Mi memory"),
        (changed({}, **asking(cpu="1", **{"example.org/gpu": "1"})), "would ask for 1 example.org/gpu"),
        (changed({"initContainers": [{"name": "s", **asking(cpu="20"), "restartPolicy": "Always"}]}), "ask for 21 cpu"),
        (changed({"nodeSelector": {"disk": "fast"}}), "another selector, affinity or tolerations, which n5"),
        (changed({"volumes": [CLAIM]}), "would mount volumes that it does not have, which n5 does not reach"),
        (changed({}, image="web:2"), "it runs image web:1 and would come back with web:2 (c)"),
        (lambda body: {"spec": []}, "what the API server would create cannot be read"),
    ],
)
def test_what_would_not_fit_its_target_stays(
    replica: Replica, server: TryingApi, mutate: Callable[[Any], Any], why: str
) -> None:
    server.mutate = mutate
    [attempt] = replica.carry_out(server.pods["shop/web-1"])
    assert (attempt.status, attempt.check) == ("refused", "returnable")
    assert why in attempt.why
    assert not server.evicted
    assert replica.evictor.history().backing_off


def test_the_room_that_is_held_is_that_of_the_replacement(replica: Replica, server: TryingApi) -> None:
    server.mutate = changed({}, **asking(cpu="3"))
    [attempt] = replica.carry_out(server.pods["shop/web-1"])
    assert attempt.evicted
    [held] = replica.extender.held.values()
    assert held.shape.requests == {"cpu": 3.0, "memory": 4 * GIB}


TEMPLATE: Any = {"metadata": {"labels": {"app": "web", "team": "a"}, "annotations": {"inject": "yes"}}}
TEMPLATE |= {"spec": {"containers": [{"name": "c", "image": "web:1"}], "volumes": [{"name": "d", "emptyDir": {}}]}}


def owned(kind: str, labels: dict[str, str], **status: str) -> tuple[Any, Any]:
    """An owner of apps/v1 and its pod."""
    spec: dict[str, Any] = {"template": TEMPLATE}
    if kind == "StatefulSet":
        spec |= {"serviceName": "web", "volumeClaimTemplates": [{"metadata": {"name": "d"}}]}
    owner = {"metadata": {"name": "web", "uid": "u-owner"}, "spec": spec, "status": status}
    ref = {"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": "u-owner", "controller": True}
    meta = {**STORED["metadata"], "labels": labels, "ownerReferences": [ref]}
    return owner, {**STORED, "metadata": meta, "spec": {**STORED["spec"], "hostname": "web-1"}}


def tried(server: TryingApi, owner: Any, pod: Any) -> Any:
    server.owners, server.stored = [owner], pod
    trial = ReplacementTrial(server, Replica(server).writer, server.clock)  # type: ignore[arg-type]
    assert trial.replacement(server.pods["shop/web-1"], 20).refusal is None
    return server.tried[-1]


def test_what_a_replica_set_creates_is_its_template(server: TryingApi) -> None:
    body = tried(server, *owned("ReplicaSet", {"pod-template-hash": "h"}))
    assert body["metadata"]["labels"] == {"pod-template-hash": "h", "app": "web", "team": "a"}
    assert body["metadata"]["annotations"] == {"inject": "yes"}
    assert body["spec"] == TEMPLATE["spec"]


def test_what_a_stateful_set_creates_has_its_name_and_claims(server: TryingApi) -> None:
    labels = {"controller-revision-hash": "web-a"}
    body = tried(server, *owned("StatefulSet", labels, updateRevision="web-a"))
    assert body["spec"]["hostname"] == "web-1"
    assert body["spec"]["volumes"] == [CLAIM]
    assert body["metadata"]["labels"]["controller-revision-hash"] == "web-a"


def test_of_another_revision_the_pod_itself_is_tried(server: TryingApi) -> None:
    body = tried(server, *owned("StatefulSet", {"controller-revision-hash": "web-a"}, updateRevision="web-b"))
    assert body["spec"] == {"containers": [CONTAINER], "hostname": "web-1"}


@pytest.mark.parametrize(
    ("details", "admission"), [({"kind": "pods"}, False), ({"kind": "pods", "name": "web-1-trial"}, True), (None, True)]
)
def test_rights_and_admission_are_told_apart(details: object, admission: bool) -> None:
    body = json.dumps({"code": 403, "message": "pods is forbidden", "details": details}).encode()
    error = refusal("POST", "/api/v1/namespaces/shop/pods", {"dryRun": "All"}, 403, {}, body)
    assert error.admission is admission


class ScaleApi:
    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def get(self, path: str) -> bytes:
        self.asked.append(path)
        if path not in self.answers:
            raise ClusterError(f"{path} not found", status=404)
        return json.dumps(self.answers[path]).encode()


def test_owners_of_other_kinds_are_asked_by_their_scale() -> None:
    root = "/apis/apps.kruise.io/v1alpha1"
    kinds = [("clonesets", "CloneSet"), ("clonesets/scale", "Scale"), ("imagepulljobs", "ImagePullJob")]
    answers = {
        root: {"resources": [{"name": name, "kind": kind} for name, kind in kinds]},
        f"{root}/namespaces/shop/clonesets/web/scale": {"spec": {"replicas": 4}},
    }
    api, clock = ScaleApi(answers), FakeClock(1e9)
    scales = OwnerScales(api, clock)  # type: ignore[arg-type]
    version = "apps.kruise.io/v1alpha1"
    for kind, name, group in (
        ("CloneSet", "web", version),
        ("CloneSet", "gone", version),
        ("ImagePullJob", "web", version),
        ("Cluster", "db", "postgresql.cnpg.io/v1"),
        ("CloneSet", "old", ""),
    ):
        scales.ask(Pod("shop", f"{name}-1", owner=Owner(kind, name, "u", True, group)))
    assert scales.known() == {("shop", "CloneSet", "web"): 4}
    assert api.asked.count(root) == 1
    clock.advance(601)
    assert scales.known() == {}
