"""Requests that a sound scheduler does not send: a sentence each, nothing lost, nothing done twice."""

import json

import pytest

from tests.unit.daemon.test_decisions import N3, ExtenderWorld, incoming
from tests.worlds.snapshots import snapshot

LARGE = 2**63


def world() -> ExtenderWorld:
    return ExtenderWorld(snapshot([0.1, 0.2, 0.3]))


def taken(asked: ExtenderWorld) -> dict[str, int]:
    """Milli-cores by node."""
    model = asked.service._assumed.model
    assert model is not None
    return dict(zip(model.names, model.placed.reserved("cpu").tolist(), strict=True))


@pytest.mark.parametrize("again", [["n0"], ["n2", "n0"], N3, ["n1", "n1"]])
def test_a_name_that_is_asked_about_twice_is_answered_twice_and_booked_once(again: list[str]) -> None:
    asked = world()
    found = asked.service.prioritize(asked.show(incoming("twice")), [*N3, *again], None)
    answer = json.loads(found.body)
    assert [each["Host"] for each in answer] == [*N3, *again]
    assert sum(each["Score"] == 10 for each in answer) == 1
    assert sorted(taken(asked).values()) == [0, 0, 500]


def test_a_caller_that_changes_its_mind_holds_room_once_where_it_asked_last() -> None:
    asked = world()
    minds = [(N3, None, "500m"), (["n2"], None, "500m"), (["n1"], "least-allocated", "500m"), (["n2", "n0"], None, "1")]
    for names, profile, cpu in minds * 3:
        chosen = asked.chosen("unsure", names, profile, cpu=cpu)
        assert taken(asked) == {name: 500 if name == chosen else 0 for name in N3}, "as the watch shows the pod"
    assert asked.outcomes() == {"assumed": 12, "retried": 11}


def test_nodes_that_are_gone_get_the_fewest_points_and_no_booking() -> None:
    asked = world()
    points, neutral = asked.ask("lost", ["gone-1", *N3, "gone-2"])
    assert neutral is None
    assert points["gone-1"] == points["gone-2"] == min(points.values())
    assert sum(taken(asked).values()) == 500
    points, neutral = asked.ask("lost", ["gone-1", "gone-2"])
    assert (points, neutral) == ({"gone-1": 5, "gone-2": 5}, "unknown-nodes")
    assert sum(taken(asked).values()) == 0


@pytest.mark.parametrize("amount", [str(LARGE), f"{LARGE}m", f"{LARGE}Ei", "1e300"])
@pytest.mark.parametrize("resource", ["cpu", "memory"])
def test_requests_beyond_all_numbers_are_answered_and_move_nothing_of_others(resource: str, amount: str) -> None:
    asked, calm = world(), world()
    for number in range(3):
        asked.ask(f"huge-{number}", N3, **{resource: amount})
    assert taken(asked) == dict.fromkeys(N3, 0)
    assert asked.ask("honest", N3) == calm.ask("honest", N3)
