"""Reservations, as a scheduler meets them."""

from typing import Any

import msgspec
import pytest

from ballast.cluster.objects import wire
from ballast.model.pod import Owner, Pod
from ballast.model.shape import Shape
from ballast.placement.reservations import Purpose, Reservation
from tests.unit.daemon.test_decisions import N3, ExtenderWorld, incoming
from tests.worlds.snapshots import SMALL, TIME, pod, shape, snapshot

OWNER = Owner("ReplicaSet", "web-1", "u-rs", True)


def world(cpu: float = 16.0, **settings: Any) -> ExtenderWorld:
    return ExtenderWorld(snapshot([0.6, 0.1, 0.4], cpu=cpu), **settings)


def owned(uid: str, **more: Any) -> wire.Pod:
    given = incoming(uid, **more)
    owners = [wire.OwnerReference("ReplicaSet", "web-1", "u-rs", True)]
    return msgspec.structs.replace(given, metadata=msgspec.structs.replace(given.metadata, owner_references=owners))


def shown(uid: str, node: str = "", **more: Any) -> Pod:
    return msgspec.structs.replace(pod(uid, node), owner=OWNER, **more)


def held(node: str = "n0", asks: Shape = SMALL, until: float = TIME + 130) -> Reservation:
    return Reservation("r", node, Purpose.REPLACEMENT, "default/web-a", "u-rs", asks, until)


def chosen(world: ExtenderWorld, asked: wire.Pod, names: list[str] = N3) -> str:
    answer = msgspec.json.decode(world.service.prioritize(world.show(asked), names, None).body)
    [best] = [each["Host"] for each in answer if each["Score"] == 10]
    return str(best)


@pytest.fixture
def one() -> ExtenderWorld:
    return world()


def test_a_replacement_goes_where_room_is_held_for_it_and_nobody_else_does(one: ExtenderWorld) -> None:
    assert chosen(one, owned("before")) == "n1"
    one.service.reservations.hold(held())
    assert chosen(one, owned("a")) == "n0"
    assert chosen(one, incoming("b")) == "n1"
    assert chosen(one, owned("c")) == "n1"


def test_asked_again_it_is_told_the_same(one: ExtenderWorld) -> None:
    one.service.reservations.hold(held())
    assert [chosen(one, owned("a")) for _ in range(3)] == ["n0"] * 3


def test_it_is_decided_as_ever_once_the_replacement_is_bound(one: ExtenderWorld) -> None:
    one.service.reservations.hold(held())
    assert chosen(one, owned("a")) == "n0"
    one.service.put(shown("a", "n0"))
    assert one.service.reservations.idle
    assert chosen(one, owned("b")) == "n1"


def test_pods_that_are_there_already_do_not_take_the_reservation(one: ExtenderWorld) -> None:
    one.service.put(shown("old", "n2"))
    one.service.reservations.hold(held())
    one.service.put(shown("old", "n2", ready=True))
    one.service.replace([shown("old", "n2")])
    assert not one.service.reservations.idle
    one.service.replace([shown("old", "n2"), shown("new", "n0")])
    assert one.service.reservations.idle


def test_a_node_that_the_scheduler_does_not_offer_is_not_insisted_on(one: ExtenderWorld) -> None:
    one.service.reservations.hold(held())
    assert chosen(one, owned("a"), ["n1", "n2"]) == "n1"


def test_the_reservation_is_kept_also_when_nothing_is_known_of_the_load() -> None:
    one = ExtenderWorld(snapshot([float("nan")] * 3))
    one.service.reservations.hold(held())
    assert chosen(one, owned("a")) == "n0"


def test_others_find_the_room_taken() -> None:
    one = world(cpu=4.0)
    one.service.reservations.hold(held("n1", shape(3.8)))
    answer = one.service.prioritize(incoming("b"), N3, "dominant-residual")
    scores = {each["Host"]: each["Score"] for each in msgspec.json.decode(answer.body)}
    assert scores["n1"] == 0


def test_others_are_filtered_out_of_it() -> None:
    one = world(cpu=4.0)
    one.service.reservations.hold(held("n1", shape(3.8)))
    assert one.service.filter(incoming("b"), N3).nodes == {"n1": "its room is held for default/web-a"}
    assert one.service.filter(incoming("b"), ["n0"]).nodes == {}
    assert one.service.filter(one.show(owned("a")), N3).nodes == {}
    assert one.service.filter(incoming("d", daemon_set=True), N3).nodes == {}


def test_load_gives_way_when_it_would_leave_no_node_and_reserved_room_does_not() -> None:
    one = world(cpu=4.0, filter_threshold=0.3)
    one.service.reservations.hold(held("n1", shape(3.8)))
    assert set(one.service.filter(incoming("b"), N3).nodes) == {"n1"}
    assert set(one.service.filter(incoming("b"), ["n1"]).nodes) == {"n1"}
    one.service.reservations.release("r")
    assert set(one.service.filter(incoming("b"), N3).nodes) == {"n0", "n2"}


def test_it_ends_at_its_deadline() -> None:
    one = world(cpu=4.0)
    one.service.reservations.hold(held("n1", shape(3.8)))
    one.clock.advance(130)
    assert one.service.filter(incoming("b"), N3).nodes == {}
    assert one.service.reservations.active() == ()


def test_which_schedulers_ask_is_known(one: ExtenderWorld) -> None:
    reservations = one.service.reservations
    assert reservations.asked("default-scheduler") is None
    chosen(one, incoming("a"))
    one.clock.advance(30)
    assert reservations.asked("default-scheduler") == 30
    assert reservations.asked("other") is None


def test_a_neutral_answer_steers_nobody() -> None:
    one = ExtenderWorld(snapshot([float("nan")] * 3))
    one.ask("a", N3)
    assert one.service.reservations.asked("default-scheduler") is None


def test_whether_a_pod_fits_is_known_for_known_nodes() -> None:
    one = world(cpu=4.0)
    reservations = one.service.reservations
    assert reservations.fits("n1", shape(4.0)) is True
    reservations.hold(held("n1"))
    assert reservations.fits("n1", shape(4.0)) is False
    assert reservations.fits("elsewhere", SMALL) is None


def test_a_made_up_pod_takes_no_reservation(one: ExtenderWorld) -> None:
    one.service.reservations.hold(held())
    for asked in (owned("made-up"), owned("another")):
        answer = msgspec.json.decode(one.service.prioritize(asked, N3, None).body)
        assert {each["Host"]: each["Score"] for each in answer}["n1"] == 10
    assert set(one.service.filter(owned("made-up", cpu="16"), N3).nodes) == {"n0"}
    assert chosen(one, owned("a")) == "n0"


def test_room_is_unheld_until_the_scheduler_that_asks_filters_for_a_pod_of_its_own(one: ExtenderWorld) -> None:
    reservations = one.service.reservations
    reservations.hold(held())
    chosen(one, incoming("a"))
    assert reservations.unheld
    one.service.filter(incoming("stranger"), N3)
    assert reservations.unheld
    one.service.filter(one.show(incoming("b")), N3)
    assert not reservations.unheld


def test_a_gated_pod_makes_nobody_ask(one: ExtenderWorld) -> None:
    one.service.put(shown("a", gates=("corp/quota",)))
    one.service.prioritize(incoming("a"), N3, None)
    assert one.service.reservations.asked("default-scheduler") is None
