from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ballast.model.pod import Owner, Pod
from ballast.model.shape import Shape
from ballast.placement.assumed_pods import AssumedPods
from ballast.placement.fleet_model import FleetModel, Held
from ballast.placement.reservations import Arriving, Purpose, Reservation, Reservations, with_promises
from tests.worlds.snapshots import SMALL, TIME, pod, shape, snapshot

FOUR = shape(4.0)


def room(cpu: float = 4.0) -> tuple[AssumedPods, Reservations]:
    booked = AssumedPods(30.0)
    booked.adopt(FleetModel(snapshot([0.1, 0.2, 0.3], cpu=cpu)))
    return booked, Reservations(booked)


def replacement(name: str = "r1", node: str = "n1", owner: str = "rs", asks: Shape = SMALL, **more: Any) -> Reservation:
    given = {"until": TIME + 120} | more
    return Reservation(name, node, Purpose.REPLACEMENT, f"default/{name}", owner, asks, **given)


def waiting(uid: str, node: str = "n1", asks: Shape = SMALL, **more: Any) -> Reservation:
    return Reservation(f"w-{uid}", node, Purpose.WAITING, f"default/{uid}", uid, asks, **({"until": TIME + 120} | more))


def taken(booked: AssumedPods) -> list[int]:
    assert booked.model is not None
    return [int(amount) for amount in booked.model.placed.reserved("cpu")]


def kept_out(reservations: Reservations, booked: AssumedPods, arriving: Arriving) -> set[str]:
    assert booked.model is not None
    return set(reservations.in_the_way(arriving, booked.model))


def test_what_is_held_counts_as_taken_until_it_is_released() -> None:
    booked, held = room()
    held.hold(replacement())
    assert taken(booked) == [0, 500, 0]
    held.hold(replacement(node="n2"))
    assert taken(booked) == [0, 0, 500]
    held.release("r1")
    held.release("r1")
    assert taken(booked) == [0, 0, 0]


def test_it_ends_when_the_clock_is_put_back() -> None:
    booked, held = room()
    held.hold(replacement())
    held.expire(TIME - 86_400)
    assert (len(held), taken(booked)) == (0, [0, 0, 0])


def test_it_ends_at_its_deadline() -> None:
    booked, held = room()
    held.hold(replacement())
    held.expire(TIME + 119)
    assert len(held) == 1
    held.extend("r1", TIME + 200)
    held.expire(TIME + 150)
    assert len(held) == 1
    held.expire(TIME + 200)
    assert not len(held)
    assert taken(booked) == [0, 0, 0]


def test_a_replacement_is_known_by_its_owner_and_one_that_waits_by_itself() -> None:
    _, held = room()
    held.hold(replacement())
    held.hold(waiting("p", node="n2"))
    assert held.meant_for("new", "rs", ["n0", "n1"]) == replacement()
    assert held.meant_for("new", "rs", ["n0", "n2"]) is None
    assert held.meant_for("new", "other", ["n1"]) is None
    assert held.meant_for("new", "", ["n1"]) is None
    assert held.meant_for("p", "rs", ["n1", "n2"]) == waiting("p", node="n2")


def test_two_replacements_of_one_owner_get_a_reservation_each() -> None:
    booked, held = room()
    held.hold(replacement("r1", "n1"))
    held.hold(replacement("r2", "n2"))
    everywhere = ["n0", "n1", "n2"]
    for uid, node in (("a", "n1"), ("b", "n2")):
        found = held.meant_for(uid, "rs", everywhere)
        assert found is not None
        assert found.node == node
        booked.put(_of(pod(uid)), 0.0)
        booked.assume(uid, Held(node, Shape(), TIME), 0.0, proved=True)
        held.give(found.name, uid)
    assert held.meant_for("c", "rs", everywhere) is None
    booked.forget_decision("a")
    found = held.meant_for("c", "rs", everywhere)
    assert found is not None
    assert found.node == "n1"


def test_room_that_was_given_counts_once_and_is_freed_when_the_pod_is_bound() -> None:
    booked, held = room()
    held.hold(replacement())
    booked.put(_of(pod("a")), 0.0)
    booked.assume("a", Held("n1", Shape(), TIME), 0.0, proved=True)
    held.give("r1", "a")
    assert taken(booked) == [0, 500, 0]
    held.bound("a", "rs", "n1")
    booked.put(_of(pod("a", "n1")), 1.0)
    assert taken(booked) == [0, 500, 0]
    assert not len(held)


def test_a_replacement_that_is_bound_elsewhere_frees_the_room_too() -> None:
    booked, held = room()
    held.hold(replacement())
    held.bound("a", "rs", "n0")
    assert not len(held)
    assert taken(booked) == [0, 0, 0]


def test_a_pod_of_another_owner_frees_nothing() -> None:
    _, held = room()
    held.hold(replacement())
    held.bound("a", "other", "n1")
    held.bound("b", "", "n1")
    assert len(held) == 1


def test_one_that_waited_and_is_gone_needs_no_room() -> None:
    _, held = room()
    held.hold(waiting("p"))
    held.gone("q")
    assert len(held) == 1
    held.gone("p")
    assert not len(held)


def test_others_are_kept_out_where_only_reserved_room_is_left() -> None:
    booked, held = room(cpu=4.0)
    held.hold(replacement(asks=FOUR))
    assert kept_out(held, booked, Arriving("x", "", SMALL)) == {"n1"}
    assert kept_out(held, booked, Arriving("x", "rs", FOUR)) == set()
    held.hold(replacement(asks=SMALL))
    assert kept_out(held, booked, Arriving("x", "", SMALL)) == set()
    assert kept_out(held, booked, Arriving("x", "", FOUR)) == {"n1"}


def test_its_own_reservation_does_not_keep_a_pod_out_but_that_of_another_beside_it_does() -> None:
    booked, held = room(cpu=4.0)
    held.hold(waiting("p", asks=shape(2.0)))
    held.hold(waiting("q", asks=shape(2.0)))
    assert kept_out(held, booked, Arriving("p", "", shape(2.0))) == set()
    assert kept_out(held, booked, Arriving("p", "", shape(3.0))) == {"n1"}


def test_a_pod_of_higher_priority_is_not_kept_out() -> None:
    booked, held = room(cpu=4.0)
    held.hold(replacement(asks=FOUR, priority=10))
    assert kept_out(held, booked, Arriving("x", "", SMALL, priority=10)) == {"n1"}
    assert kept_out(held, booked, Arriving("x", "", SMALL, priority=11)) == set()


def test_a_node_without_this_resource_or_that_is_not_known_has_no_room() -> None:
    booked, _ = room()
    assert booked.model is not None
    assert booked.model.has_room("n1", SMALL)
    assert not booked.model.has_room("n1", shape(1.0, gpu=1))
    assert not booked.model.has_room("elsewhere", SMALL)


def test_a_list_of_all_pods_leaves_reservations_alone() -> None:
    booked, held = room()
    held.hold(replacement())
    booked.put(pod("a", "n0"), 0.0)
    assert booked.shown_besides({"a"}) == []
    assert booked.shown_besides(set()) == ["a"]


def test_reservations_survive_a_change_of_the_nodes() -> None:
    booked, held = room()
    held.hold(replacement())
    model = FleetModel(snapshot([0.1, 0.2, 0.3], names=["n1", "n2", "n3"]), booked.model)
    model.fill(booked.begin())
    booked.adopt(model)
    assert taken(booked) == [500, 0, 0]
    held.release("r1")
    assert taken(booked) == [0, 0, 0]


ACTS = st.lists(
    st.tuples(
        st.sampled_from(["hold", "release", "give", "bound", "gone", "expire", "forget"]),
        st.integers(0, 2),
        st.integers(0, 3),
    ),
    max_size=30,
)


@given(ACTS)
def test_the_sums_are_those_of_what_stands(acts: list[tuple[str, int, int]]) -> None:
    booked, held = room(cpu=64.0)
    now = TIME
    for act, node, number in acts:
        name, uid = f"r{number}", f"p{number}"
        if act == "hold":
            held.hold(replacement(name, f"n{node}", owner=f"o{number % 2}", until=now + 10 + 40 * node))
        elif act == "release":
            held.release(name)
        elif act == "give":
            found = held.meant_for(uid, f"o{number % 2}", ["n0", "n1", "n2"])
            if found is not None and booked.assume(uid, Held(found.node, Shape(), now), now, proved=True):
                held.give(found.name, uid)
        elif act == "bound" and not booked.shown_bound(uid):
            held.bound(uid, f"o{number % 2}", f"n{node}")
            booked.put(pod(uid, f"n{node}"), now)
        elif act == "gone":
            held.gone(uid)
            booked.remove(uid)
        elif act == "expire":
            now += 15
            held.expire(now)
            booked.expire(now)
        elif act == "forget":
            booked.forget_decision(uid)
    for each in held.active():
        held.release(each.name)
    for number in range(4):
        booked.remove(f"p{number}")
    assert taken(booked) == [0, 0, 0]


def _of(item: Pod) -> Pod:
    import msgspec

    return msgspec.structs.replace(item, owner=Owner("ReplicaSet", "web", "rs", True))


def member(name: str, node: str = "", **more: Any) -> Pod:
    return Pod("default", name, uid=name, node=node, owner=Owner("ReplicaSet", "web", "rs", True), shape=SMALL, **more)


def where(pods: Sequence[Pod]) -> list[tuple[str, str]]:
    return [(pod.name, pod.node or pod.promised) for pod in pods]


def test_pods_with_a_promise_count_where_they_are_to_come() -> None:
    pods = [member("a", "n0"), member("b"), Pod("default", "c", uid="c"), Pod("default", "d", uid="d")]
    assert with_promises(pods, []) is pods
    shown = with_promises(pods, [replacement(node="n2"), waiting("c", "n1")])
    assert where(shown) == [("a", "n0"), ("b", "n2"), ("c", "n1"), ("d", "")]


def test_a_replacement_that_is_not_there_yet_is_expected() -> None:
    ending = member("a", "n0", deleting=True, ready=True, phase="Running")
    gated = member("b", gates=("wait",))
    for pods in ([ending], [gated], [member("c", "n1", phase="Failed")]):
        *_, expected = with_promises(pods, [replacement(node="n2")])
        assert (expected.promised, expected.ready, expected.finished, expected.owner) == (
            "n2",
            False,
            False,
            pods[0].owner,
        )
    assert len(with_promises([gated, member("b2")], [replacement("r1"), replacement("r2")])) == 3


def test_nobody_is_expected_without_a_sibling_and_whom_the_scheduler_makes_room_for_comes_there() -> None:
    other = Pod("default", "d", uid="d")
    assert where(with_promises([other], [replacement()])) == [("d", "")]
    assert where(with_promises([member("b", nominated="n0")], [replacement(node="n2")])) == [("b", "n0")]
