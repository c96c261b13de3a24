"""The whole daemon: replacements kept off their node by a taint, nodes emptied and handed over."""

from typing import Any

import msgspec
import pytest

from ballast.model.shape import Shape
from ballast.placement.reservations import Purpose, Reservation
from ballast.runtime.daemon import Daemon
from ballast_lab.harness.waiting import until
from tests.unit.daemon.test_evicting import STOCK, cycle, evict, evicting, evictions
from tests.worlds.daemons import NODE, Rig, condition

pytestmark = pytest.mark.slow

LEAVING = "ballast.dev/leaving"


def tainted(calm: Rig, key: str = LEAVING) -> list[str]:
    return [
        name for name in calm.names if any(each["key"] == key for each in _node(calm, name)["spec"].get("taints", ()))
    ]


def _node(calm: Rig, name: str) -> dict[str, Any]:
    found = calm.cluster.store.get(NODE, "", name)
    assert found is not None
    return found.read()


def test_a_taint_is_enough_where_no_scheduler_asks(calm: Rig) -> None:
    daemon = evicting(calm, steered=False, EVICTION__LANDING="taint")
    assert evict(daemon).startswith("relieve: evicted 1 of 1 pod")
    [step] = daemon.board.plans[0].steps
    assert step.to is None
    assert evictions(calm) == 1
    assert tainted(calm) in ([step.source], [])
    for _ in range(20):
        cycle(calm, daemon)
        until(lambda: _shown(calm, daemon), "the watch shows the taints")
        if not tainted(calm):
            break
    assert not set(tainted(calm)) - daemon.eviction.follow_up._recorder.awaited_from()


def _shown(calm: Rig, daemon: Daemon) -> bool:
    nodes = daemon.context.cache.nodes()
    return [node.name for node in nodes if any(taint.key == LEAVING for taint in node.taints)] == tainted(calm)


def test_a_pause_and_the_end_of_the_daemon_give_taints_back(calm: Rig) -> None:
    daemon = evicting(calm, steered=False, EVICTION__LANDING="taint")
    taints = daemon.eviction.moments._replacements.taints
    assert taints is not None
    name = calm.names[0]
    assert taints.put(name) is None
    assert tainted(calm) == [name]
    daemon.stop()
    assert tainted(calm) == []


def test_landing_none_relieves_overloaded_nodes_alone(calm: Rig) -> None:
    daemon = evicting(calm, EVICTION__LANDING="none", EVICTION__PLANNERS="rebalance")
    assert "BALLAST_EVICTION__LANDING is none" in evict(daemon)
    assert evictions(calm) == 0


def test_reservations_that_nobody_can_keep_are_said(calm: Rig) -> None:
    daemon = evicting(calm)
    evict(daemon)
    reservations = daemon.extender.reservations
    until_wall = daemon.context.clock.wall() + 1000
    held = Reservation("r", calm.names[0], Purpose.REPLACEMENT, "shop/a", "u-a", Shape(), until_wall)
    reservations.hold(held)
    evict(daemon)
    assert "filterVerb" in (condition(daemon, "ReservationsNotHeld") or "")
    reservations.note_filter("unknown")
    evict(daemon)
    assert "filterVerb" in (condition(daemon, "ReservationsNotHeld") or ""), "a stranger silences nothing"
    waiting = msgspec.structs.replace(next(iter(daemon.context.cache.pods())), uid="w", node="", phase="Pending")
    daemon.extender.put(msgspec.structs.replace(waiting, scheduler_name=STOCK))
    reservations.note_filter("w")
    evict(daemon)
    assert condition(daemon, "ReservationsNotHeld") is None


def test_nodes_are_emptied_step_by_step_and_given_back(calm: Rig) -> None:
    daemon = evicting(
        calm,
        EVICTION__PLANNERS="consolidate",
        EVICTION__TARGET_HIGH="0.9",
        EVICTION__HIGH="0.95",
        EVICTION__MIN_REPLICAS="1",
        EVICTION__MIN_POD_AGE="0s",
    )
    told = evict(daemon)
    plan = daemon.board.plans[0]
    assert plan.kind == "consolidate"
    assert list(plan.empty) == tainted(calm, "ballast.dev/empty"), told
    assert len(plan.empty) <= 1
