"""Nights that go wrong around one plan: the whole daemon in the simulated cluster, judged by what the API server got.

Harm is an eviction that was not written down first, of a pod that was evicted before, towards a node that died, of a
workload in a rollout, or by who may not act any more.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from ballast.base.errors import ClusterError, Conflict, TooManyRequests
from ballast.cluster.watch import WATCH_SILENT
from ballast.runtime.daemon import Daemon
from ballast_lab.harness.waiting import until
from ballast_lab.simulator.kube.kinds import BY_NAME
from tests.unit.daemon.test_evicting import STOCK, cycle, evict, evicting, not_ready
from tests.worlds.daemons import NODE, Rig, condition

pytestmark = pytest.mark.slow

DEPLOYMENT = BY_NAME["Deployment"]


@dataclass
class Night:
    """One daemon, whose nodes are hot. `between` happens once a plan is made and before its first step is taken."""

    calm: Rig
    daemon: Daemon
    between: Callable[[Any], object] = lambda step: None
    answers: Callable[[], object] = lambda: None
    """Called as an eviction is sent, and after it; may raise what the API server answers."""
    late: Callable[[], object] = lambda: None
    sent: list[str] = field(default_factory=list)
    harm: list[str] = field(default_factory=list)
    forbidden: Callable[[str], str | None] = lambda pod: None
    """Why a pod must not be evicted now."""

    def __post_init__(self) -> None:
        worker, api = self.daemon.eviction._worker, self.daemon.context.api
        ask, request = worker.ask, api.request

        def asked(*arguments: Any) -> Any:
            response = ask(*arguments)
            steps = [step for plan in response.plans for step in plan.steps]
            if steps:
                self.between(steps[0])
            return response

        def requested(method: str, path: str, **more: Any) -> bytes:
            if not path.endswith("/eviction"):
                return request(method, path, **more)
            self._judge(path, more["body"])
            self.answers()
            answer = request(method, path, **more)
            self.late()
            return answer

        worker.ask, api.request = asked, requested  # type: ignore[method-assign,assignment]

    def _judge(self, path: str, body: Any) -> None:
        uid = body["deleteOptions"]["preconditions"]["uid"]
        pod = f"{body['metadata']['namespace']}/{body['metadata']['name']}"
        written = {
            step["uid"] for plan in json.loads(self.calm.state().get("eviction.plan", "[]")) for step in plan["steps"]
        }
        if uid not in written:
            self.harm.append(f"{pod} was not written down")
        if uid in self.sent:
            self.harm.append(f"{pod} was evicted twice")
        if (why := self.forbidden(pod)) is not None:
            self.harm.append(f"{pod}: {why}")
        self.sent.append(uid)

    def pass_by(self, cycles: int = 3) -> list[str]:
        """What the job said."""
        return [evict(self.daemon), *(cycle(self.calm, self.daemon) for _ in range(cycles))]


@pytest.fixture
def night(calm: Rig) -> Night:
    daemon = evicting(calm, EVICTION__PLANNERS="relieve", EVICTION__COOLDOWN="1s")
    return Night(calm, daemon)


def test_a_quiet_night_moves_pods(night: Night) -> None:
    night.pass_by(1)
    assert night.sent
    assert night.harm == []


@pytest.mark.parametrize("seconds", [3600.0, -3600.0])
def test_a_clock_that_steps_between_plan_and_eviction(night: Night, seconds: float) -> None:
    stepped: list[float] = []

    def step(_: Any) -> None:
        if not stepped:
            stepped.append(seconds)
            night.calm.clock.step_wall(seconds)

    night.between = step
    night.pass_by()
    assert stepped
    assert night.harm == []
    assert len(night.sent) == len(set(night.sent))


@pytest.mark.parametrize("kind", ["pods", "deployments", "poddisruptionbudgets"])
def test_a_watch_that_falls_silent(night: Night, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    watches = night.daemon.context.cache if kind == "pods" else night.daemon.context.workloads
    age = watches.age
    monkeypatch.setattr(watches, "age", lambda name: WATCH_SILENT + 1 if name == kind else age(name))
    night.forbidden = lambda pod: "nobody knows what is there"
    told = night.pass_by(1)
    assert (night.sent, night.harm) == ([], [])
    assert all(f"the {kind} were last seen" in each for each in told)
    assert condition(night.daemon, "EvictionsHalted")


@pytest.mark.parametrize("which", ["source", "target"])
def test_a_node_that_dies_between_plan_and_eviction(night: Night, which: str) -> None:
    dead: list[str] = []

    def die(step: Any) -> None:
        if not dead:
            dead.append(getattr(step, which))
            night.calm.cluster.resources.update(NODE, "", dead[0], not_ready, subresource="status")
            until(lambda: any(node.name == dead[0] and not node.ready for node in night.daemon.context.cache.nodes()))
            night.forbidden = lambda pod: f"{dead[0]} is dead"

    night.between = die
    told = night.pass_by(0)
    assert dead
    assert (night.sent, night.harm) == ([], [])
    assert "refused at the last moment" in told[0]


def test_a_second_scheduler_that_nobody_steers(night: Night) -> None:
    night.daemon.extender.reservations._asked.clear()
    night.daemon.eviction.follow_up._resumed = True
    night.daemon.eviction.moments._replacements._failed[STOCK] = night.calm.clock.wall()
    night.forbidden = lambda pod: "nobody knows where it would land"
    night.pass_by(1)
    assert (night.sent, night.harm) == ([], [])
    assert condition(night.daemon, "LandingNotSteered")


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (Conflict("the UID in the precondition does not match", status=409), True),
        (TooManyRequests("slow down", retry_after=30.0), True),
        (ClusterError("etcdserver: request timed out", status=500), False),
    ],
)
@pytest.mark.parametrize("late", [False, True])
def test_an_api_server_that_answers_otherwise(night: Night, error: ClusterError, again: bool, late: bool) -> None:
    """`late`: it did what it was asked for, all the same."""
    answered: list[str] = []

    def answer() -> None:
        if not answered:
            answered.append(night.sent[-1])
            raise error

    setattr(night, "late" if late else "answers", answer)
    night.pass_by()
    assert answered
    twice = [each for each in night.harm if "twice" in each]
    assert night.harm == twice
    assert not twice or (again and not late), "what may have happened is not sent again"


def test_a_rollout_of_everything_while_a_plan_is_made(night: Night) -> None:
    begun: list[str] = []

    def change(deployment: dict[str, Any]) -> dict[str, Any]:
        template = deployment["spec"]["template"]
        containers = [{**each, "image": "newer"} for each in template["spec"]["containers"]]
        spec = {**template["spec"], "containers": containers}
        return {**deployment, "spec": {**deployment["spec"], "template": {**template, "spec": spec}}}

    def roll_out(_: Any) -> None:
        if begun:
            return
        for each in night.daemon.context.workloads.workloads():
            if each.kind == "Deployment":
                begun.append(each.name)
                night.calm.cluster.resources.update(DEPLOYMENT, each.namespace, each.name, change)
        known = night.daemon.context.workloads.workloads
        until(lambda: all(each.rolling for each in known() if each.kind == "Deployment"), "the rollout")
        night.forbidden = lambda pod: "it is in a rollout"

    night.between = roll_out
    told = night.pass_by(0)
    assert begun
    assert (night.sent, night.harm) == ([], [])
    assert "replacement" in told[0]


def test_a_pause_between_plan_and_eviction(night: Night) -> None:
    def pause(_: Any) -> None:
        night.calm.put_config_map("ballast-switches", {"paused": "true"})
        until(lambda: night.daemon.context.switches.paused("eviction") is not None, "the pause")
        night.forbidden = lambda pod: "it is paused"

    night.between = pause
    night.pass_by(1)
    assert (night.sent, night.harm) == ([], [])


def test_another_leader_between_plan_and_eviction(night: Night) -> None:
    def lose(_: Any) -> None:
        night.calm.lose_lease(night.daemon)
        night.forbidden = lambda pod: "another one leads"

    night.between = lose
    evict(night.daemon)
    assert (night.sent, night.harm) == ([], [])
