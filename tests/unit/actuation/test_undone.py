"""What nodes would carry, had nothing been moved."""

from collections.abc import Sequence

import msgspec
import pytest

from ballast.actuation.eviction.records import Running, StepRecord, StepStatus
from ballast.actuation.eviction.undone import TURN, Undone
from ballast.model.duration import DAY
from ballast.model.node import Node
from ballast.model.pod import Pod

AT = 1_700_000_000.0
NODES = [Node(name, allocatable={"cpu": 10.0}) for name in ("n1", "n2", "n3")]


def plan(uid: str, replacement: str, source: str, landed_on: str, time: float = AT) -> Running:
    step = StepRecord(
        pod=f"ns/{uid}",
        uid=uid,
        source=source,
        time=time,
        used={"cpu": 2.0},
        status=StepStatus.READY,
        replacement=replacement,
        landed_on=landed_on,
        landed_at=time,
        ready_at=time,
    )
    return Running(id=f"relieve-{time}", kind="relieve", time=time, steps=(step,))


def pods(*names: tuple[str, str]) -> list[Pod]:
    return [Pod("ns", name, uid=name, node=node, phase="Running") for name, node in names]


def look(undone: Undone, plans: Sequence[Running], there: Sequence[Pod], now: float = AT, **uses: float) -> object:
    undone.look(plans, there, NODES, now, {f"ns/{name}": {"cpu": cores} for name, cores in uses.items()})
    return {node: round(change["cpu"], 6) for node, change in undone.changes().items()}


def test_what_a_moved_pod_uses_now_counts_where_it_came_from() -> None:
    undone = Undone()
    moved = plan("a", "b", "n1", "n2")
    assert look(undone, [moved], pods(("b", "n2"))) == {"n1": 0.2, "n2": -0.2}, "until it is measured: as planned"
    assert undone.pods(AT) == {"ns/b"}
    assert look(undone, [], pods(("b", "n2")), b=3.0) == {"n1": 0.3, "n2": -0.3}, "also when its plan has ended"
    assert look(undone, [], pods(("b", "n2"))) == {"n1": 0.3, "n2": -0.3}, "what was told last holds"


@pytest.mark.parametrize(("there", "now"), [(pods(), AT), (pods(("b", "n2")), AT + DAY)])
def test_it_counts_until_the_pod_ends_or_a_day_is_over(there: Sequence[Pod], now: float) -> None:
    undone = Undone()
    look(undone, [plan("a", "b", "n1", "n2")], pods(("b", "n2")))
    assert look(undone, [], there, now) == {}


def test_a_pod_that_was_moved_again_came_from_where_the_first_was() -> None:
    undone = Undone()
    look(undone, [plan("a", "b", "n1", "n2")], pods(("b", "n2")))
    assert look(undone, [plan("b", "", "n2", "", AT + 60)], pods()) == {}, "the next one is still to come"
    assert look(undone, [plan("b", "c", "n2", "n3", AT + 60)], pods(("c", "n3"))) == {"n1": 0.2, "n3": -0.2}
    assert look(undone, [plan("c", "d", "n3", "n1", AT + 120)], pods(("d", "n1"))) == {}, "it is back"


def test_a_replacement_that_has_not_landed_does_not_count() -> None:
    undone, moved = Undone(), plan("a", "b", "n1", "n2")
    step = msgspec.structs.replace(moved.steps[0], status=StepStatus.EVICTED, landed_on="", landed_at=0.0)
    assert look(undone, [msgspec.structs.replace(moved, steps=(step,))], pods(("b", ""))) == {}


@pytest.mark.parametrize("told", [{}, {"memory": 1.0}, {"cpu": float("nan")}])
def test_a_resource_that_is_not_told_now_is_as_it_was_told_last(told: dict[str, float]) -> None:
    undone = Undone()
    look(undone, [plan("a", "b", "n1", "n2")], pods(("b", "n2")), b=3.0)
    undone.look([], pods(("b", "n2")), NODES, AT, {"ns/b": told})
    assert {node: round(change["cpu"], 6) for node, change in undone.changes().items()} == {"n1": 0.3, "n2": -0.3}


def test_of_many_pods_some_are_asked_about_at_a_time_and_all_in_turn() -> None:
    """A query that names too many becomes one about all pods of the cluster."""
    undone, names = Undone(), [f"b{number}" for number in range(1000)]
    look(undone, [plan(f"a{name}", name, "n1", "n2") for name in names], pods(*((name, "n2") for name in names)))
    turns = [undone.pods(AT + TURN * number) for number in range(4)]
    assert max(map(len, turns)) <= 300
    assert set().union(*turns) == {f"ns/{name}" for name in names}
