"""One more replica first: what the count of a Deployment goes through, also where the process is killed."""

from typing import Any

import msgspec
import pytest

from ballast.actuation.eviction.records import Running, StepRecord, StepStatus
from ballast.actuation.eviction.surge import Surges, give_back_replicas, objection
from ballast.base.errors import ClusterError
from ballast.cluster.state import StateStore
from ballast.model.pod import Owner, Pod
from ballast.model.workload import Workload
from tests.worlds.clock import FakeClock
from tests.worlds.evicting import Crash, EvictingApi, Replica
from tests.worlds.kube_api import FakeApi
from tests.worlds.writing import writer_on

DEPLOYMENT = "/apis/apps/v1/namespaces/shop/deployments/web"
POD = "/api/v1/namespaces/shop/pods/web-a"
WEB = Workload("Deployment", "shop", "web", "u-d", replicas=1, api_version="apps/v1")


class Town:
    """A Deployment of one pod on n1; `crash_at` kills at that write, before it is served or (`late`) after."""

    def __init__(self, **metadata: Any) -> None:
        self.clock = FakeClock(1_700_000_000.0)
        self.api = FakeApi(
            {
                DEPLOYMENT: {"metadata": {"name": "web", **metadata}},
                f"{DEPLOYMENT}/scale": {"metadata": {"name": "web"}, "spec": {"replicas": 1}},
                POD: {"metadata": {"name": "web-a", "uid": "u-a"}},
            }
        )
        self.paused: str | None = None
        self.crash_at: int | None = None
        self.late = False
        self.count = 0
        self.api.before = self._before
        self.api.after = self._after
        self.followed: list[Running] = []
        self.surges = self.process()

    def process(self) -> Surges:
        self.writer = writer_on(self.api, self.clock, modes={"eviction": "on"}, paused=lambda part: self.paused)
        state = StateStore(self.api, self.writer, "ballast")  # type: ignore[arg-type]
        return Surges(self.api, self.writer, state, self.clock)  # type: ignore[arg-type]

    def _before(self, method: str, path: str, body: Any) -> None:
        self.count += method != "GET"
        if method != "GET" and self.count == self.crash_at and not self.late:
            raise Crash

    def _after(self, method: str, path: str, body: Any) -> None:
        if self.count == self.crash_at and self.late:
            raise Crash

    @property
    def replicas(self) -> int:
        return int(self.api.objects[f"{DEPLOYMENT}/scale"]["spec"]["replicas"])

    @property
    def cost(self) -> str | None:
        found = self.api.objects[POD]["metadata"].get("annotations", {})
        cost: str | None = found.get("controller.kubernetes.io/pod-deletion-cost")
        return cost

    @property
    def written(self) -> bool:
        state = self.api.objects.get("/api/v1/namespaces/ballast/configmaps/ballast-state", {"data": {}})
        return "eviction.surge" in state["data"]

    def begin(self) -> str | None:
        step = StepRecord(
            "shop/web-a",
            "u-a",
            "n1",
            self.clock.wall(),
            target="n2",
            workload=("shop", "Deployment", "web"),
            owner="u-rs",
        )
        return self.surges.begin(Running("p", "rebalance", self.clock.wall()), step, WEB)

    def advance(self, *pods: Pod) -> list[str]:
        return self.surges.advance([a_pod("web-a"), *pods], self.followed.append)


def a_pod(name: str, **more: Any) -> Pod:
    given: dict[str, Any] = {
        "uid": f"u-{name.removeprefix('web-')}",
        "node": "n1",
        "phase": "Running",
        "ready": True,
        "owner": Owner("ReplicaSet", "web-1", "u-rs", True),
        "created": 1.0,
    }
    return Pod("shop", name, **(given | more))


@pytest.fixture
def town() -> Town:
    return Town()


def test_a_single_replica_moves_without_a_gap(town: Town) -> None:
    assert town.begin() is None
    assert (town.replicas, town.written) == (2, True)
    assert town.surges.workloads == {("shop", "Deployment", "web")}
    fresh = a_pod("web-b", node="n2", created=town.clock.wall(), ready=False)
    assert town.advance(fresh) == []
    assert (town.replicas, town.cost) == (2, None)
    told = town.advance(msgspec.structs.replace(fresh, ready=True))
    assert told == ["rebalance: shop/web-a goes, its replacement is Ready"]
    assert (town.replicas, town.cost, town.written) == (1, "-2147483648", False)
    [plan] = town.followed
    assert plan.steps[0].status is StepStatus.EVICTED


def test_a_count_that_is_not_as_it_was_seen_is_not_raised(town: Town) -> None:
    town.api.objects[f"{DEPLOYMENT}/scale"]["spec"]["replicas"] = 2
    assert town.begin() == "Deployment web is being scaled"
    assert (town.replicas, town.written) == (2, False)


def test_no_replica_is_started_that_could_not_be_written_down(town: Town) -> None:
    def refuse(method: str, path: str, body: Any) -> None:
        if method != "GET" and "configmaps" in path:
            raise ClusterError("no", status=500)

    town.api.before = refuse
    assert (town.begin() or "").startswith("it could not be written down first")
    assert (town.replicas, town.surges.workloads) == (1, frozenset())


def test_one_that_does_not_become_ready_is_taken_back(town: Town) -> None:
    town.begin()
    town.clock.advance(301)
    assert "not Ready within 300 s" in town.advance()[0]
    assert (town.replicas, town.written, town.cost) == (1, False, None)


def test_a_pause_takes_it_back_at_once(town: Town) -> None:
    town.begin()
    town.paused = "evictions are paused"
    town.surges.give_back()
    assert (town.replicas, town.written) == (1, False)


def test_a_count_that_somebody_else_changed_is_left_alone(town: Town) -> None:
    town.begin()
    town.api.objects[f"{DEPLOYMENT}/scale"]["spec"]["replicas"] = 5
    town.clock.advance(301)
    town.advance()
    assert (town.replicas, town.written) == (5, False)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("at", range(1, 8))
def test_a_killed_process_never_leaves_the_count_raised(town: Town, at: int, late: bool) -> None:
    town.crash_at, town.late = at, late
    fresh = a_pod("web-b", node="n2", created=town.clock.wall())
    try:
        town.begin()
        town.advance(fresh)
    except Crash:
        pass
    assert town.replicas == 1 or town.written
    town.crash_at = None
    town.surges = town.process()
    town.clock.advance(400)
    town.advance()
    assert (town.replicas, town.written) == (1, False)


def test_release_takes_back_what_a_daemon_that_is_no_more_has_added(town: Town) -> None:
    town.begin()
    state = StateStore(town.api, town.writer, "ballast")  # type: ignore[arg-type]
    assert give_back_replicas(town.api, town.writer, state, town.clock) == (1, 0)  # type: ignore[arg-type]
    assert (town.replicas, town.written) == (1, False)


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        ({"labels": {"kustomize.toolkit.fluxcd.io/name": "apps"}}, "declared elsewhere"),
        ({"annotations": {"argocd.argoproj.io/tracking-id": "a"}}, "declared elsewhere"),
        ({"ownerReferences": [{"kind": "Rollout", "name": "web", "controller": True}]}, "Rollout web sets"),
        (
            {"managedFields": [{"manager": "argocd-controller", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]},
            "argocd-controller sets",
        ),
    ],
)
def test_what_is_declared_elsewhere_is_not_touched(metadata: dict[str, Any], why: str) -> None:
    town = Town(**metadata)
    assert why in (town.begin() or "")
    assert (town.replicas, town.written) == (1, False)


def test_kubectl_and_helm_are_no_objection() -> None:
    fields = [{"manager": "helm", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]
    labels = {"app.kubernetes.io/managed-by": "Helm"}
    assert objection(msgspec.json.encode({"metadata": {"managedFields": fields, "labels": labels}})) is None
    assert objection(b"[]") == "it cannot be read"


def test_two_pods_of_one_plan_that_are_replaced_apart_are_both_followed() -> None:
    replica = Replica(EvictingApi())
    for uid in ("a", "b", "a"):
        step = StepRecord(f"shop/{uid}", uid, "n0", 5.0, status=StepStatus.EVICTED)
        replica.evictor.recorder.take_up(Running("relieve-1", "relieve", 5.0, steps=(step,)))
    [plan] = replica.evictor.recorder.plans
    assert sorted(step.uid for step in plan.steps) == ["a", "b"]
