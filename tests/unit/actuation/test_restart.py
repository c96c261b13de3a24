"""The only pod of a Deployment moves by a rollout: written down first, followed, and rolled back where it stalls."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from ballast.actuation.eviction.evictor import Attempt
from ballast.actuation.eviction.plan_follower import PlanFollower
from ballast.actuation.eviction.restart import Restarts
from ballast.base.errors import ClusterError
from ballast.eviction.gate import Gate
from ballast.model.marks import RESTARTED_FOR
from ballast.model.pod import Owner, Pod, move_of
from tests.worlds.evicting import FREE, Crash, EvictingApi, Replica, plan, plans
from tests.worlds.writing import writer_on

WEB = "/apis/apps/v1/namespaces/shop/deployments/web"
RULES = replace(FREE, restart=True)


class Town:
    """A Deployment of one pod on n0, that is to go to n5."""

    def __init__(self, mark: str | None = None, **metadata: Any) -> None:
        self.server = EvictingApi()
        self.pod = self.server.add("n0")
        annotations = {"kubectl.kubernetes.io/restartedAt": "once", **({RESTARTED_FOR: mark} if mark else {})}
        self.server._store(
            WEB,
            {
                "metadata": {"name": "web", "uid": "u-web", "generation": 3, **metadata},
                "spec": {"replicas": 1, "template": {"metadata": {"annotations": annotations}}},
                "status": {"observedGeneration": 3, "replicas": 1, "updatedReplicas": 1},
            },
        )
        self.before = mark
        self.replica = self.process()

    def process(self) -> Replica:
        replica = Replica(self.server, rules=RULES)
        api: Any = self.server
        writer = writer_on(api, self.server.clock, modes={"eviction": "on"}, paused=lambda part: replica.paused)
        options = replace(replica.evictor.options, restarts=Restarts(api, writer))
        replica.evictor.options = options
        replica.follower = PlanFollower(replica.evictor, replica.replacements, self.server.clock, replica._used)
        return replica

    def gate(self, pod: Pod | None = None) -> Gate:
        judge = self.replica.gate(pod)
        workloads = judge.facts._workloads
        for key, workload in workloads.items():
            workloads[key] = msgspec.structs.replace(workload, gapless=workload.kind == "Deployment", replicas=1)  # type: ignore[index]
        return judge

    def restart(self) -> list[Attempt]:
        step = plan(self.pod)
        return self.replica.evictor.carry_out(step, self.gate, self.server.pods.get, self.replica.snapshot())

    @property
    def mark(self) -> str | None:
        found: str | None = self.server.objects[WEB]["spec"]["template"]["metadata"]["annotations"].get(RESTARTED_FOR)
        return found

    def comes(self, node: str = "n5", *, ready: bool = True) -> Pod:
        """What the controller, the scheduler and the kubelet do about the new template."""
        made = self.server.add(node, created=self.server.clock.wall(), ready=ready)
        owner = Owner("ReplicaSet", "web-rs2", "u-web-rs2", True)
        made = msgspec.structs.replace(made, owner=owner, annotations={RESTARTED_FOR: self.mark})
        self.server.pods[f"shop/{made.name}"] = made
        return made

    def status(self) -> str:
        [row] = self.replica.recent()
        return str(row["status"])


@pytest.fixture
def town() -> Town:
    return Town()


def test_it_is_written_down_and_room_is_held_before_the_template_changes(town: Town) -> None:
    seen: list[Any] = []

    def look(method: str, path: str, body: Any) -> None:
        if path == WEB and method == "PATCH":
            [running] = plans(town.server)
            seen.extend(
                (running["steps"][0]["rollout"], held.node, held.holder) for held in town.replica.extender.active()
            )

    town.server.before = look
    [attempt] = town.restart()
    assert attempt.evicted
    assert seen == [("u-web", "n5", move_of("shop", town.pod.uid))]
    assert town.mark == town.pod.uid
    assert town.server.evicted == {}, "the controller takes the pod, nobody evicts it"


def test_its_pod_is_followed_until_it_is_ready_and_judged(town: Town) -> None:
    town.restart()
    assert town.replica.follow() is None
    assert town.status() == "evicted"
    new = town.comes(ready=False)
    town.replica.follow()
    assert town.status() == "landed"
    assert not town.replica.extender.held
    town.server.pods[f"shop/{new.name}"] = msgspec.structs.replace(new, ready=True)
    town.replica.follow()
    assert town.status() == "ready"
    assert town.mark == town.pod.uid
    del town.server.pods[f"shop/{town.pod.name}"]
    for _ in range(40):
        town.replica.follow(60.0)
    assert town.replica.recent()[0]["measured"]["share"] == pytest.approx(1.0)


@pytest.mark.parametrize("mark", [None, "u-earlier"])
@pytest.mark.parametrize("comes", [True, False])
def test_a_rollout_that_stalls_is_rolled_back_to_the_template_of_before(mark: str | None, comes: bool) -> None:
    town = Town(mark)
    town.restart()
    if comes:
        town.comes(ready=False)
    for _ in range(12):
        town.replica.paused = "paused by somebody"
        town.replica.follow()
    assert town.mark == mark
    assert town.status() == "stopped"
    assert town.replica.recent()[0]["why"].endswith(
        "within 300 s, so its rollout was rolled back" if comes else "300 s"
    )
    assert not town.replica.extender.held


def test_a_template_that_somebody_else_has_changed_is_left_alone(town: Town) -> None:
    town.restart()
    found = town.server.objects[WEB]
    found["spec"]["template"]["metadata"]["annotations"][RESTARTED_FOR] = "u-other"
    town.replica.follow(400.0)
    assert (town.mark, town.status()) == ("u-other", "stopped")


@pytest.mark.parametrize(
    "change", [{"replicas": 5}, {"replicas": 0}, {"strategy": {"type": "Recreate"}}, {"strategy": {"type": "Other"}}]
)
def test_a_rollback_restarts_no_more_than_one_pod_and_takes_none_first(town: Town, change: dict[str, Any]) -> None:
    town.restart()
    town.comes(ready=False)
    town.server.objects[WEB]["spec"] |= change
    town.replica.follow(400.0)
    assert (town.mark, town.status()) == (town.pod.uid, "stopped")


def test_a_step_ends_whose_rollback_is_refused_for_an_hour(town: Town) -> None:
    town.restart()
    town.comes(ready=False)

    def refuse(method: str, path: str, body: Any) -> None:
        if path == WEB and method == "PATCH":
            raise ClusterError("not yours any more", status=403)

    town.server.before = refuse
    town.replica.follow(400.0)
    assert town.status() == "landed"
    town.replica.follow(3600.0)
    assert town.status() == "stopped"
    assert town.replica.recent()[0]["why"].endswith("within 300 s, and its rollout could not be rolled back")
    assert town.replica.evictor.history().replacements == 0, "nothing waits for it"


def test_a_daemon_that_may_restart_nothing_claims_no_rollback(town: Town) -> None:
    town.restart()
    town.comes(ready=False)
    options = replace(town.replica.evictor.options, restarts=None)
    town.replica.evictor.options = options
    town.replica.follower = PlanFollower(town.replica.evictor, town.replica.replacements, town.server.clock)
    town.replica.follow(4100.0)
    assert town.replica.recent()[0]["why"].endswith("could not be rolled back")


def test_a_rollback_is_tried_until_it_is_done(town: Town) -> None:
    town.restart()

    def refuse(method: str, path: str, body: Any) -> None:
        if path == WEB:
            raise ClusterError("no", status=503)

    town.server.before = refuse
    town.replica.follow(400.0)
    assert (town.mark, town.status()) == (town.pod.uid, "evicted")
    town.server.before = lambda *_: None
    town.replica.follow()
    assert (town.mark, town.status()) == (None, "stopped")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"metadata": {"ownerReferences": [{"kind": "Shop", "name": "a", "controller": True}]}}, "Shop a may undo it"),
        ({"metadata": {"generation": 4}}, "is being changed"),
        ({"metadata": {"uid": "u-new"}}, "is being changed"),
        ({"spec": {"replicas": 2}}, "is being changed"),
        ({"spec": {"paused": True}}, "is being changed"),
        ({"spec": {"strategy": {"type": "Recreate"}}}, "is being changed"),
        ({"status": {"replicas": 2}}, "is being changed"),
        ({"status": {"updatedReplicas": 0}}, "is being changed"),
        (None, "cannot be restarted"),
    ],
)
def test_what_may_not_be_restarted_stays(town: Town, change: dict[str, Any] | None, why: str) -> None:
    for part, values in (change or {}).items():
        town.server.objects[WEB][part] |= values
    if change is None:
        del town.server.objects[WEB]
    [attempt] = town.restart()
    assert (attempt.status, attempt.check) == ("refused", "returnable")
    assert why in attempt.why
    assert plans(town.server) == []


def test_a_deployment_that_changes_meanwhile_is_left_as_it_is(town: Town) -> None:
    def change(method: str, path: str, body: Any) -> None:
        if path == WEB and method == "PATCH":
            town.server._store(WEB, {**town.server.objects[WEB]})

    town.server.before = change
    [attempt] = town.restart()
    assert (attempt.status, town.mark) == ("failed", None)
    assert plans(town.server) == []


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("at", range(1, 6))
def test_a_killed_process_leaves_no_rollout_that_nobody_follows(town: Town, at: int, late: bool) -> None:
    town.server.crash_at, town.server.late = at, late
    try:
        town.restart()
        town.comes(ready=False)
        town.replica.follow(400.0)
    except Crash:
        pass
    assert town.mark is None or plans(town.server), "what was begun is written down"
    town.server.crash_at = None
    town.replica = town.process()
    town.replica.evictor.recorder.resume()
    for _ in range(30):
        town.replica.follow()
    assert town.mark is None
    assert not any(step["status"] in ("recorded", "evicted") for each in plans(town.server) for step in each["steps"])


def test_a_pod_of_another_namespace_is_no_replacement(town: Town) -> None:
    town.restart()
    new = town.comes()
    town.server.pods[f"shop/{new.name}"] = msgspec.structs.replace(new, namespace="elsewhere")
    town.replica.follow()
    assert town.status() == "evicted"


def test_a_second_move_of_the_same_workload_is_of_the_pod_that_came(town: Town) -> None:
    town.restart()
    new = town.comes()
    town.replica.follow()
    del town.server.pods[f"shop/{town.pod.name}"]
    assert new.maker == move_of("shop", town.pod.uid)
    town.server.clock.advance(100_000.0)
    town.pod = new
    town.server.objects[WEB]["metadata"]["generation"] = 3
    town.replica.evictor.recorder._memory._returned.clear()
    step = plan(new, to="n1")
    town.replica.rules = replace(FREE, restart=False, min_replicas=1)
    gate = town.replica.gate
    [attempt] = town.replica.evictor.carry_out(step, gate, town.server.pods.get, town.replica.snapshot())
    assert attempt.evicted, "its siblings carry the same mark, so they are told apart by when they came"
    town.server.replace_evicted("n1")
