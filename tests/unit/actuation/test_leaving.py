"""The taint that keeps replacements off the nodes they left, and the marks of nodes that are emptied."""

from typing import Any

import msgspec
import pytest

from ballast.actuation.eviction.node_marks import EmptyNodes, LeavingTaints, carries, unmark
from ballast.actuation.eviction.replacement_reservations import ReplacementReservations
from ballast.model.node import Node, Taint
from ballast.model.pod import Owner, Pod
from tests.worlds.clock import FakeClock
from tests.worlds.evicting import EvictingApi, FakeExtender, Replica
from tests.worlds.kube_api import FakeApi
from tests.worlds.writing import WriterRig

LEAVING = {"key": "ballast.dev/leaving", "effect": "PreferNoSchedule"}
LOADED = {"key": "ballast.dev/loaded", "effect": "PreferNoSchedule"}
EMPTY = {"key": "ballast.dev/empty", "effect": "PreferNoSchedule"}
FOREIGN = {"key": "gpu", "value": "a", "effect": "NoSchedule"}


class Yard(WriterRig):
    """Nodes n1 and n2, n1 with a taint of somebody else; a writer that can be paused."""

    def __init__(self, api: FakeApi | None = None) -> None:
        super().__init__(api, modes={"eviction": "on"})
        for name in ("n1", "n2"):
            taints = [FOREIGN] if name == "n1" else []
            self.api.objects[f"/api/v1/nodes/{name}"] = {
                "metadata": {"name": name, "resourceVersion": "1"},
                "spec": {"taints": taints},
            }

    def taints(self, name: str) -> list[Any]:
        return list(self.api.objects[f"/api/v1/nodes/{name}"]["spec"].get("taints") or [])

    def labels(self, name: str) -> dict[str, str]:
        return dict(self.api.objects[f"/api/v1/nodes/{name}"]["metadata"].get("labels") or {})

    def nodes(self) -> list[Node]:
        """As a watch shows them."""
        return [
            Node(
                name,
                labels=self.labels(name),
                taints=tuple(Taint(each["key"], each["effect"], each.get("value", "")) for each in self.taints(name)),
            )
            for name in ("n1", "n2")
        ]

    def leaving(self, *, sets: bool = True) -> LeavingTaints:
        return LeavingTaints(self.api, self.writer, "ballast.dev", sets=sets)


@pytest.fixture
def yard() -> Yard:
    return Yard()


def test_the_taint_comes_and_goes_and_those_of_others_stay(yard: Yard) -> None:
    taints = yard.leaving()
    assert taints.put("n1") is None
    assert yard.taints("n1") == [FOREIGN, LEAVING]
    taints.settle({"n1"}, yard.nodes())
    assert yard.taints("n1") == [FOREIGN, LEAVING]
    taints.settle((), yard.nodes())
    assert yard.taints("n1") == [FOREIGN]


def test_what_a_killed_leader_left_is_taken_away_by_the_next_one(yard: Yard) -> None:
    yard.leaving().put("n2")
    yard.leaving(sets=False).settle((), yard.nodes())
    assert yard.taints("n2") == []


def test_a_pause_holds_the_taint_back_but_not_its_end(yard: Yard) -> None:
    taints = yard.leaving()
    taints.put("n2")
    yard.pauses["eviction"] = "evictions are paused"
    assert "paused" in (taints.put("n1") or "")
    taints.settle((), yard.nodes())
    assert (yard.taints("n1"), yard.taints("n2")) == ([FOREIGN], [])


def test_at_the_end_of_the_daemon_it_is_still_given_back(yard: Yard) -> None:
    taints = yard.leaving()
    taints.put("n2")
    yard.writer.finish()
    taints.settle((), ())
    assert yard.taints("n2") == []


def test_without_landing_by_taint_nothing_is_tainted(yard: Yard) -> None:
    assert yard.leaving(sets=False).put("n1") is None
    assert yard.taints("n1") == [FOREIGN]


@pytest.fixture
def server() -> EvictingApi:
    return EvictingApi()


def replica_of(server: EvictingApi) -> tuple[Replica, Yard]:
    replica, yard = Replica(server), Yard(server)
    for name in ("n0", "n3", "n4", "n5"):
        server.objects[f"/api/v1/nodes/{name}"] = {"metadata": {"name": name, "resourceVersion": "1"}, "spec": {}}
    replica.replacements.taints = yard.leaving()
    return replica, yard


def test_the_source_is_tainted_before_its_pod_is_evicted_until_the_replacement_is_bound(server: EvictingApi) -> None:
    replica, yard = replica_of(server)
    pod = server.add("n2")
    server.add("n0")
    seen: list[Any] = []
    server.on_evicted = lambda: seen.append(yard.taints("n2"))
    [attempt] = replica.carry_out(pod, to=None)
    assert attempt.evicted
    assert seen == [[LEAVING]]
    assert replica.evictor.recorder.awaited_from() == {"n2"}
    server.replace_evicted("n5", ready=False)
    replica.follow()
    assert replica.evictor.recorder.awaited_from() == frozenset()


def test_a_node_that_cannot_be_tainted_keeps_its_pod(server: EvictingApi) -> None:
    replica, yard = replica_of(server)
    pod = server.add("n2")
    server.add("n0")
    del yard.api.objects["/api/v1/nodes/n2"]
    [attempt] = replica.carry_out(pod, to=None)
    assert (attempt.status, "could not be tainted" in attempt.why) == ("failed", True)
    assert not server.evicted


def test_a_probe_on_the_only_feasible_node_shows_nothing() -> None:
    clock = FakeClock()
    extender = FakeExtender(clock)
    extender.asked_at.clear()
    replacements = ReplacementReservations(extender, clock)
    step = _step()
    replacements.probe("default-scheduler", step.uid)
    replacements.end_probe(step, chosen=False)
    assert replacements.may_probe("default-scheduler")
    replacements.probe("default-scheduler", step.uid)
    replacements.end_probe(msgspec.structs.replace(step, landed_on="n5"))
    assert replacements.may_probe("default-scheduler")
    replacements.probe("default-scheduler", step.uid)
    replacements.end_probe(step)
    assert not replacements.may_probe("default-scheduler")


def _step() -> Any:
    from ballast.actuation.eviction.records import StepRecord

    return StepRecord("shop/a", "u-a", "n1", 0.0, target="n5", scheduler="default-scheduler", landed_on="n1")


def test_a_node_is_tainted_while_it_is_emptied_labelled_when_it_is_and_given_back_whole(yard: Yard) -> None:
    pods = {"n1": [Pod("shop", "a")], "n2": [Pod("shop", "b", owner=Owner("DaemonSet", "agent", "u", True))]}
    empty = EmptyNodes(yard.api, yard.writer, "ballast.dev")
    assert empty.mark(["n1"], yard.nodes(), pods.__getitem__) is None
    assert (yard.taints("n1"), yard.labels("n1")) == ([FOREIGN, EMPTY], {})
    pods["n1"] = []
    empty.mark(["n1"], yard.nodes(), pods.__getitem__)
    assert yard.labels("n1") == {"ballast.dev/empty": "true"}
    empty.mark([], yard.nodes(), pods.__getitem__)
    assert (yard.taints("n1"), yard.labels("n1")) == ([FOREIGN], {})


def test_release_takes_every_mark(yard: Yard) -> None:
    yard.leaving().put("n1")
    empty = EmptyNodes(yard.api, yard.writer, "ballast.dev")
    empty.mark(["n1"], yard.nodes(), lambda _: [])
    marked = [node for node in yard.nodes() if carries(node, "ballast.dev")]
    assert [node.name for node in marked] == ["n1"]
    unmark(yard.api, yard.writer, marked, "ballast.dev", reason="released")
    assert (yard.taints("n1"), yard.labels("n1")) == ([FOREIGN], {})


def test_loaded_nodes_are_avoided_with_the_first_eviction_until_nothing_is_waited_for(yard: Yard) -> None:
    taints = yard.leaving()
    taints.avoid(["n1", "n2"], 100.0)
    assert (yard.taints("n1"), yard.taints("n2")) == ([FOREIGN], [])
    assert taints.put("n2") is None
    assert (yard.taints("n1"), yard.taints("n2")) == ([FOREIGN, LOADED], [LEAVING])
    taints.settle({"n2"}, yard.nodes(), 130.0)
    assert (yard.taints("n1"), yard.taints("n2")) == ([FOREIGN, LOADED], [LEAVING])
    taints.settle((), yard.nodes(), 131.0)
    assert (yard.taints("n1"), yard.taints("n2")) == ([FOREIGN], [])


def test_loaded_nodes_are_given_back_after_a_while_though_a_replacement_is_still_waited_for(yard: Yard) -> None:
    taints = yard.leaving()
    taints.avoid(["n1"], 100.0)
    taints.put("n2")
    taints.settle({"n2"}, yard.nodes(), 161.0)
    assert (yard.taints("n1"), yard.taints("n2")) == ([FOREIGN], [LEAVING])


def test_the_next_leader_gives_loaded_nodes_back_at_once(yard: Yard) -> None:
    taints = yard.leaving()
    taints.avoid(["n1"], 100.0)
    taints.put("n2")
    yard.leaving().settle({"n2"}, yard.nodes(), 101.0)
    assert (yard.taints("n1"), yard.taints("n2")) == ([FOREIGN], [LEAVING])


def test_a_loaded_node_that_a_pod_leaves_carries_one_taint(yard: Yard) -> None:
    taints = yard.leaving()
    taints.avoid(["n1", "n2"], 100.0)
    taints.put("n2")
    taints.put("n1")
    assert (yard.taints("n1"), yard.taints("n2")) == ([FOREIGN, LEAVING], [LEAVING])
    taints.settle({"n1"}, yard.nodes(), 110.0)
    assert (yard.taints("n1"), yard.taints("n2")) == ([FOREIGN, LEAVING], [])


def test_release_takes_the_taint_of_loaded_nodes(yard: Yard) -> None:
    taints = yard.leaving()
    taints.avoid(["n1"], 100.0)
    taints.put("n2")
    marked = [node for node in yard.nodes() if carries(node, "ballast.dev")]
    unmark(yard.api, yard.writer, marked, "ballast.dev", reason="released")
    assert (yard.taints("n1"), yard.taints("n2")) == ([FOREIGN], [])


def test_the_node_that_a_replacement_is_to_prefer_is_written_down_before_the_eviction(server: EvictingApi) -> None:
    replica, _ = replica_of(server)
    pod = server.add("n2")
    server.add("n0")
    seen: list[str] = []
    server.on_evicted = lambda: seen.append(server.state().get("eviction.landing", ""))
    replica.carry_out(pod, to=None, aim="n4")
    assert seen == ["u-web-rs=n4"]
    server.replace_evicted("n4", ready=False)
    replica.follow()
    assert "eviction.landing" not in server.state()


def test_the_next_eviction_opens_the_node_that_it_counts_on(yard: Yard) -> None:
    taints = yard.leaving()
    taints.avoid(["n1"], 100.0)
    taints.put("n2")
    taints.avoid([], 100.0)
    taints.put("n2")
    assert (yard.taints("n1"), yard.taints("n2")) == ([FOREIGN], [LEAVING])
