"""Pods that cannot be created, of controllers that say so and of those that do not."""

from ballast.actuation.scaling.remembered import CEILINGS_LAST, SETTLED, SILENT, Ceilings
from ballast.model.workload import Workload
from tests.worlds.clock import FakeClock

NAME = "ns/db"


def state(present: int, ready: int, kind: str = "StatefulSet", *, uncreated: bool = False) -> Workload:
    return Workload(kind, "ns", "db", replicas=9, present=present, ready=ready, uncreated=uncreated)


def test_a_controller_that_says_so_is_believed_once_its_count_stands_still() -> None:
    clock = FakeClock()
    ceilings = Ceilings(clock)
    assert ceilings.of(NAME, state(1, 1, "Deployment", uncreated=True), 9) is None
    clock.advance(SETTLED - 1)
    assert ceilings.of(NAME, state(4, 1, "Deployment", uncreated=True), 9) is None
    clock.advance(SETTLED)
    assert ceilings.of(NAME, state(4, 4, "Deployment", uncreated=True), 9) == 4
    clock.advance(CEILINGS_LAST - 1)
    assert ceilings.of(NAME, state(4, 4, "Deployment"), 4) == 4
    clock.advance(1)
    assert ceilings.of(NAME, state(4, 4, "Deployment"), 4) is None


def test_a_stateful_set_whose_pods_are_all_ready_and_no_more_come_has_reached_its_ceiling() -> None:
    clock = FakeClock()
    ceilings = Ceilings(clock)
    assert ceilings.of(NAME, state(4, 4), 9) is None
    clock.advance(SILENT)
    assert ceilings.of(NAME, state(4, 4), 9) == 4
    assert ceilings.of(NAME, state(5, 5), 9) is None


def test_a_stateful_set_that_waits_for_a_pod_to_be_ready_has_not() -> None:
    clock = FakeClock()
    ceilings = Ceilings(clock)
    for _ in range(5):
        assert ceilings.of(NAME, state(4, 3), 9) is None
        clock.advance(SILENT)
    assert ceilings.of(NAME, state(4, 4, "Deployment"), 9) is None
    clock.advance(SILENT)
    assert ceilings.of(NAME, state(4, 4, "Deployment"), 9) is None
