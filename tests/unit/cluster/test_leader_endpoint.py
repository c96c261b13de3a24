import threading
from typing import Any

import pytest
from structlog.testing import capture_logs

from ballast.base.clock import SystemClock
from ballast.base.errors import Forbidden
from ballast.cluster.leader_endpoint import LeaderEndpoint, OwnPlace
from ballast_lab.harness.waiting import HUNG
from tests.worlds.kube_api import FakeApi
from tests.worlds.writing import WriterRig, raising

SLICES = "/apis/discovery.k8s.io/v1/namespaces/ns/endpointslices"
SLICE = f"{SLICES}/ballast-extender"
SERVICE = "/api/v1/namespaces/ns/services/ballast-extender"
POD = "/api/v1/namespaces/ns/pods/me"


def endpoint(pod: str) -> dict[str, Any]:
    target = {"kind": "Pod", "name": pod, "namespace": "ns"}
    return {"addresses": ["10.0.0.7"], "conditions": {"ready": True}, "targetRef": target}


class Impatient(SystemClock):
    def wait(self, event: threading.Event, timeout: float | None) -> bool:
        return event.is_set()


class World:
    """The EndpointSlice on a fake API; every change of it can be waited for."""

    def __init__(self, *pods: str, address: str | None = "10.0.0.7", **objects: Any) -> None:
        found = {SERVICE: {"metadata": {"uid": "u"}}, **{path: item for path, item in objects.items() if item}}
        if pods:
            found[SLICE] = {"metadata": {"name": "ballast-extender"}, "endpoints": [endpoint(pod) for pod in pods]}
        self.rig = WriterRig(FakeApi(found), modes={})
        self.changed = threading.Semaphore(0)
        self.rig.api.after = lambda *_: self.changed.release()
        place = OwnPlace("me", "ns", address)
        self.leader: Any = LeaderEndpoint(self.rig.api, self.rig.writer, Impatient(), "ballast-extender", place)  # type: ignore[arg-type]

    @property
    def slice(self) -> Any:
        return self.rig.api.objects.get(SLICE)

    @property
    def pods(self) -> list[str]:
        return [each["targetRef"]["name"] for each in self.slice["endpoints"]]

    def wait(self) -> None:
        assert self.changed.acquire(timeout=HUNG)


def test_the_endpoint_follows_leadership_and_goes_on_stop() -> None:
    world = World()
    world.leader.start(2020)
    world.leader.leading(True)
    world.wait()
    assert world.slice["endpoints"] == [endpoint("me")]
    assert world.slice["ports"] == [{"name": "http", "port": 2020, "protocol": "TCP"}]
    assert world.slice["addressType"] == "IPv4"
    assert world.slice["metadata"]["labels"]["kubernetes.io/service-name"] == "ballast-extender"
    owner = {"apiVersion": "v1", "kind": "Service", "name": "ballast-extender", "uid": "u"}
    assert world.slice["metadata"]["ownerReferences"] == [owner]
    world.leader.stop()
    assert world.pods == []


def test_what_a_container_left_behind_that_died_as_leader_is_removed() -> None:
    world = World("me")
    world.rig.leads = False
    world.leader.start(2020)
    world.wait()
    assert world.pods == []
    world.leader.stop()


def test_another_leader_s_endpoint_is_replaced_by_the_leader_alone() -> None:
    world = World("other")
    world.leader.start(2020)
    world.leader.leading(True)
    world.wait()
    assert world.pods == ["me"]
    world.rig.api.objects[SLICE]["endpoints"] = [endpoint("third")]
    world.leader.stop()
    assert world.pods == ["third"]


def test_who_lost_the_lease_meanwhile_writes_nothing() -> None:
    world = World("other")
    world.rig.leads = False
    world.leader.start(2020)
    world.leader.leading(True)
    world.leader.stop()
    assert world.pods == ["other"]
    assert world.rig.api.writes == []


def test_an_endpoint_that_stands_is_not_written_again() -> None:
    world = World()
    world.leader.start(2020)
    world.leader.leading(True)
    world.wait()
    writes = len(world.rig.api.writes)
    assert world.leader._tell(True)
    assert len(world.rig.api.writes) == writes
    del world.rig.api.objects[SLICE]
    assert world.leader._tell(True)
    assert world.pods == ["me"]
    world.leader.stop()


@pytest.mark.parametrize(("address", "kind"), [("10.9.8.7", "IPv4"), ("fd00::9", "IPv6")])
def test_without_an_address_it_is_that_of_the_pod(address: str, kind: str) -> None:
    world = World(address=None, **{POD: {"status": {"podIP": address}}})
    world.leader.start(2020)
    world.leader.leading(True)
    world.wait()
    assert (world.slice["endpoints"][0]["addresses"], world.slice["addressType"]) == ([address], kind)
    world.leader.stop()


def test_without_a_pod_it_warns_once_and_does_nothing() -> None:
    rig = WriterRig(modes={})
    leader = LeaderEndpoint(rig.api, rig.writer, SystemClock(), "ballast-extender", OwnPlace(None, "ns"))  # type: ignore[arg-type]
    with capture_logs() as lines:
        leader.start(2020)
        leader.leading(True)
        leader.stop()
    assert [line["log_level"] for line in lines] == ["warning"]
    assert rig.api.requests == []


@pytest.mark.parametrize("verb", ["GET", "POST"])
def test_a_missing_right_is_one_warning(verb: str) -> None:
    world, asked = World(), threading.Semaphore(0)

    def refuse(method: str, path: str, *_: object) -> None:
        if method == verb and path.startswith(SLICES):
            asked.release()
            raise Forbidden(f"Ballast needs verb `{verb}` on `endpointslices`", status=403)

    world.rig.api.before = refuse
    with capture_logs() as lines:
        world.leader.start(2020)
        world.leader.leading(True)
        assert asked.acquire(timeout=HUNG)
        world.leader.stop()
    assert len([line for line in lines if line["log_level"] == "warning"]) == 1


def test_a_defect_is_told_and_it_is_tried_again() -> None:
    world = World("me")
    world.rig.api.before = raising(KeyError("x"), 1)
    with capture_logs() as lines:
        world.leader.start(2020)
        world.wait()
        assert world.leader.alive
        world.leader.stop()
    assert world.pods == []
    assert [line["log_level"] for line in lines if "exc_info" in line] == ["error"]
