"""The replacement is tried before a pod is evicted; without the right to, evictions go on."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from ballast.actuation.eviction.trial import UNTRIED_FOR, ReplacementTrial, replacement_of
from ballast.base.errors import ClusterError, Forbidden, Unreachable
from ballast.cluster.api_refusals import refusal
from ballast.cluster.owner_scales import OwnerScales
from ballast.model.pod import Owner, Pod
from tests.worlds.clock import FakeClock
from tests.worlds.evicting import EvictingApi, Replica

STORED = {
    "metadata": {
        "name": "web-1",
        "namespace": "shop",
        "uid": "u-web-1",
        "resourceVersion": "7",
        "labels": {"app": "web"},
        "ownerReferences": [{"kind": "ReplicaSet", "name": "web-rs", "controller": True, "blockOwnerDeletion": True}],
    },
    "spec": {"nodeName": "n0", "priority": 0, "containers": [{"name": "c", "image": "web:1"}]},
    "status": {"phase": "Running"},
}


class TryingApi(EvictingApi):
    """Answers the list of one pod, and dry runs by `judge`, which may raise."""

    def __init__(self) -> None:
        super().__init__()
        self.tried: list[Any] = []
        self.judge: Callable[[], None] = lambda: None

    def request(self, method: str, path: str, **more: Any) -> bytes:
        query = more.get("query") or {}
        if "fieldSelector" in query:
            return json.dumps({"items": [STORED]}).encode()
        if query.get("dryRun") == "All":
            self.tried.append(more["body"])
            self.judge()
            return b"{}"
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
    assert body["spec"] == {"containers": [{"name": "c", "image": "web:1"}]}


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
    assert [trial.refusal(pod, 20) for _ in range(3)] == [None] * 3
    assert len(server.tried) == 1
    server.clock.advance(UNTRIED_FOR)
    assert trial.refusal(pod, 20) is None
    assert len(server.tried) == 2


def test_another_pod_of_that_name_is_not_tried(server: TryingApi) -> None:
    trial = ReplacementTrial(server, Replica(server).writer, server.clock)  # type: ignore[arg-type]
    assert trial.refusal(msgspec.structs.replace(server.pods["shop/web-1"], uid="another"), 20) is None
    assert not server.tried


def test_a_long_name_stays_one() -> None:
    name = "a" * 239 + "." + "b" * 13
    body = replacement_of({"metadata": {"name": name, "namespace": "shop"}, "spec": {}})
    assert body["metadata"]["name"] == "a" * 239 + "-trial"


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
