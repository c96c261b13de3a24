from collections import Counter

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.model.devices import SHARE_MILLI, claim_of
from ballast.model.pod import Owner, Pod
from ballast.model.template import Template
from ballast.placement.assumed_pods import AssumedPods, learn, owner_of
from ballast.placement.fleet_model import FleetModel, Held
from ballast.scoring.fleet import REMEMBERED
from ballast.scoring.in_flight import DEFAULTS
from ballast.scoring.profiles import Arrivals
from tests.properties import examples
from tests.worlds.snapshots import EMPTY, LARGE, SMALL, TIME, pod, shape, snapshot

WORLD = snapshot([0.1, 0.2, 0.3])


def bookings() -> tuple[AssumedPods, Counter[str]]:
    outcomes: Counter[str] = Counter()
    made = AssumedPods(30.0, lambda outcome: outcomes.update([outcome]))
    made.adopt(FleetModel(WORLD))
    return made, outcomes


def reserved(booked: AssumedPods, resource: str = "cpu") -> list[int]:
    assert booked.model is not None
    return [int(amount) for amount in booked.model.placed.reserved(resource)]


def in_flight(booked: AssumedPods) -> list[int]:
    assert booked.model is not None
    return [int(amount) for amount in booked.model.in_flight.use("cpu", 1000, 1.5)]


def assume(booked: AssumedPods, uid: str, node: str, now: float = 0.0) -> bool:
    return booked.assume(uid, Held(node, SMALL, TIME + 10, expected=True), now)


def test_a_decision_counts_at_once() -> None:
    booked, outcomes = bookings()
    booked.put(pod("a"), 0.0)
    assert assume(booked, "a", "n1")
    assert reserved(booked) == [0, 500, 0]
    assert in_flight(booked) == [0, 750, 0]
    assert outcomes == {"assumed": 1}


def test_the_watch_confirms_it_and_nothing_counts_twice() -> None:
    booked, outcomes = bookings()
    booked.put(pod("a"), 0.0)
    assume(booked, "a", "n1")
    booked.put(pod("a", "n1", bound=TIME + 10), 1.0)
    assert reserved(booked) == [0, 500, 0]
    assert len(booked.assumptions) == 0
    booked.expire(100.0)
    assert reserved(booked) == [0, 500, 0]
    assert outcomes == {"assumed": 1, "confirmed": 1}


def test_a_pod_that_went_elsewhere_counts_there() -> None:
    booked, outcomes = bookings()
    booked.put(pod("a"), 0.0)
    assume(booked, "a", "n1")
    booked.put(pod("a", "n2"), 1.0)
    assert reserved(booked) == [0, 0, 500]
    assert outcomes == {"assumed": 1, "undone": 1}


@pytest.mark.parametrize("how", ["removed", "finished", "deleting"])
def test_a_pod_that_is_gone_counts_nowhere(how: str) -> None:
    booked, outcomes = bookings()
    booked.put(pod("a"), 0.0)
    assume(booked, "a", "n1")
    if how == "removed":
        booked.remove("a")
    elif how == "finished":
        booked.put(Pod("default", "a", "a", phase="Failed", shape=SMALL), 1.0)
    else:
        booked.put(Pod("default", "a", "a", shape=SMALL, deleting=True), 1.0)
    assert reserved(booked) == [0, 0, 0]
    assert outcomes == {"assumed": 1, "undone": 1}


def test_a_decision_nobody_confirms_expires() -> None:
    booked, outcomes = bookings()
    booked.put(pod("a"), 0.0)
    assume(booked, "a", "n1")
    booked.expire(29.9)
    assert reserved(booked) == [0, 500, 0]
    booked.expire(30.0)
    assert reserved(booked) == [0, 0, 0]
    assert outcomes == {"assumed": 1, "expired": 1}


def test_a_retry_replaces_what_was_decided_before() -> None:
    booked, outcomes = bookings()
    booked.put(pod("a"), 0.0)
    assume(booked, "a", "n1")
    booked.forget_decision("a")
    assert reserved(booked) == [0, 0, 0]
    assume(booked, "a", "n0")
    assert reserved(booked) == [500, 0, 0]
    assert outcomes == {"assumed": 2, "retried": 1}


def test_bound_pods_and_pods_without_a_name_are_not_decided() -> None:
    booked, outcomes = bookings()
    booked.put(pod("a", "n0"), 0.0)
    assert not assume(booked, "a", "n1")
    assert not assume(booked, "", "n1")
    assert reserved(booked) == [500, 0, 0]
    assert not outcomes


def test_a_pod_the_watch_shows_later_keeps_its_decision() -> None:
    booked, _ = bookings()
    assume(booked, "a", "n1")
    booked.put(pod("a"), 4.0)
    booked.expire(20.0)
    assert reserved(booked) == [0, 500, 0]


def test_a_resized_pod_counts_by_its_new_size() -> None:
    booked, _ = bookings()
    booked.put(pod("a", "n0"), 0.0)
    booked.put(pod("a", "n0", LARGE), 1.0)
    assert reserved(booked) == [4000, 0, 0]


def test_only_pods_bound_after_the_window_are_in_flight() -> None:
    booked, _ = bookings()
    booked.put(pod("old", "n0", bound=TIME - 1), 0.0)
    booked.put(pod("new", "n0", bound=TIME + 5), 0.0)
    assert in_flight(booked) == [750, 0, 0]
    booked.adopt(FleetModel(snapshot([0.1, 0.2, 0.3], time=TIME + 30), booked.model))
    assert in_flight(booked) == [0, 0, 0]
    assert reserved(booked) == [1000, 0, 0]


def test_other_nodes_are_another_model() -> None:
    booked, _ = bookings()
    booked.put(pod("a", "n0"), 0.0)
    booked.put(pod("b", "new"), 0.0)
    held = booked.begin()
    model = FleetModel(snapshot([0.1, 0.1], names=["n0", "new"]), booked.model)
    model.fill(held)
    booked.put(pod("c", "new"), 1.0)
    booked.remove("a")
    booked.adopt(model)
    assert reserved(booked) == [0, 1000]


def test_many_pods_of_one_shape_are_summed_alike() -> None:
    few, many = FleetModel(WORLD), FleetModel(WORLD)
    held = [Held(f"n{i % 3}", SMALL, TIME) for i in range(200)]
    many.fill(held)
    for each in held:
        few.place(each)
    for resource in ("cpu", "memory"):
        assert (few.placed.reserved(resource) == many.placed.reserved(resource)).all()


def test_the_newest_pods_are_learned_from() -> None:
    arrivals = Arrivals()
    learn(arrivals, [pod("a", "n0", SMALL, bound=1.0), pod("b", "n0", LARGE, bound=2.0)], most=1)
    assert [profile.requests["cpu"] for profile in arrivals.profiles()] == [4000]


def test_each_arrival_is_learned_once() -> None:
    booked, _ = bookings()
    booked.put(pod("a"), 0.0)
    assume(booked, "a", "n1")
    booked.put(pod("a"), 0.5)
    booked.put(pod("a", "n1"), 1.0)
    booked.put(pod("a", "n1"), 2.0)
    assert booked.arrivals.count == 1


UIDS = st.sampled_from(["a", "b", "c", "d"])
NODES = st.sampled_from(["n0", "n1", "n2", "elsewhere"])
SHAPES = st.sampled_from([SMALL, LARGE, EMPTY, shape(0.25, 2.0, **{SHARE_MILLI: 500.0})])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), UIDS, SHAPES),
        st.tuples(st.just("bind"), UIDS, NODES, SHAPES, st.integers(-5, 5)),
        st.tuples(st.just("end"), UIDS),
        st.tuples(st.just("assume"), UIDS, NODES, SHAPES),
        st.tuples(st.just("retry"), UIDS),
        st.tuples(st.just("later"), st.floats(0, 20)),
        st.tuples(st.just("cycle"), st.integers(0, 5)),
        st.tuples(st.just("other nodes"), st.integers(0, 5)),
    ),
    max_size=40,
)


@examples(150)
@given(STEPS)
def test_whatever_happens_the_sums_are_those_of_what_is_held(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    booked, _ = bookings()
    now, end, names = 0.0, TIME, ["n0", "n1", "n2"]
    for kind, *rest in steps:
        if kind == "wait":
            booked.put(pod(rest[0], asks=rest[1]), now)
        elif kind == "bind":
            bound = pod(rest[0], rest[1], rest[2], bound=end + rest[3])
            booked.put(
                msgspec.structs.replace(
                    bound, owner=Owner("ReplicaSet", "web", "o0" if rest[0] in "ab" else "o1", True)
                ),
                now,
            )
        elif kind == "end":
            booked.remove(rest[0])
        elif kind == "assume":
            booked.assume(rest[0], Held(rest[1], rest[2], end + 1, expected=True), now)
        elif kind == "retry":
            booked.forget_decision(rest[0])
        elif kind == "later":
            now += rest[0]
            booked.expire(now)
        else:
            end += rest[0]
            if kind == "other nodes":
                names = names[1:] + names[:1]
            held = booked.begin()
            model = FleetModel(snapshot([0.1] * 3, time=end, names=names), booked.model)
            if not model.follows:
                model.fill(held)
            booked.adopt(model)
    assert booked.model is not None
    fresh = FleetModel(snapshot([0.1] * 3, time=end, names=names))
    held = list(booked.begin())
    fresh.fill(held)
    for each in held:
        fresh.fly(each)
    for resource in ("cpu", "memory", "nvidia.com/gpu"):
        assert (booked.model.placed.reserved(resource) == fresh.placed.reserved(resource)).all()
        assert (booked.model.placed.scored(resource) == fresh.placed.scored(resource)).all()
    for resource, default in DEFAULTS.items():
        expected = fresh.in_flight.use(resource, default, 1.5)
        assert np.array_equal(booked.model.in_flight.use(resource, default, 1.5), expected)
    assert len(booked.assumptions) <= len(held)
    for uid in ("o0", "o1"):
        assert booked.of_owner(uid) == Counter(each.node for each in held if each.owner == uid)


@pytest.mark.slow
def test_shapes_that_are_gone_are_forgotten() -> None:
    model = FleetModel(snapshot([0.1]))
    for number in range(REMEMBERED + 10):
        held = Held("n0", shape(0.001 * number), TIME)
        model.place(held)
        model.place(held, -1)
    assert len(model.placed._demands) <= REMEMBERED
    assert not model.placed.reserved("cpu").any()


def test_a_pod_is_learned_with_its_claims_once_it_is_on_a_node() -> None:
    """The claims of a pod are made after it."""
    claimed: dict[str, dict[str, int]] = {}
    claim = lambda each: msgspec.structs.replace(each, claimed=claimed.get(each.uid, {}))  # noqa: E731
    bookings = AssumedPods(60.0, claim=claim)
    asks = msgspec.structs.replace(pod("a"), template=Template(device_claims=1))
    bookings.put(asks, 0.0)
    bookings.put(pod("never", asks=LARGE), 0.0)
    assert bookings.arrivals.count == 0
    claimed["a"] = {"resource.k8s.io/gpu.example.com": 2}
    bookings.put(msgspec.structs.replace(asks, node="n0"), 1.0)
    bookings.put(msgspec.structs.replace(asks, node="n0", ready=True), 2.0)
    assert bookings.arrivals.count == 1
    [profile] = bookings.arrivals.profiles()
    assert profile.requests["resource.k8s.io/gpu.example.com"] == 2


def gated(uid: str) -> Pod:
    return msgspec.structs.replace(pod(uid), gates=("corp/quota",))


def test_a_gated_pod_is_not_waiting_and_books_nothing() -> None:
    booked, _ = bookings()
    booked.put(gated("a"), 0.0)
    assert booked.waiting("a") is None
    assert not assume(booked, "a", "n1")
    assert reserved(booked) == [0, 0, 0]
    assert booked.owners_in_flight() == set()


def test_only_pods_on_nodes_teach() -> None:
    arrivals = Arrivals()
    learn(arrivals, [gated("b"), pod("c"), pod("d", "n0"), msgspec.structs.replace(pod("e", "n0"), phase="Failed")])
    assert arrivals.count == 1


@pytest.mark.parametrize("proved", [False, True])
def test_a_pod_larger_than_its_node_books_nothing_there(proved: bool) -> None:
    booked, outcomes = bookings()
    huge = msgspec.structs.replace(pod("a"), shape=shape(1e6))
    booked.put(huge, 0.0)
    assert not booked.assume("a", Held("n1", huge.shape, TIME + 10), 0.0, proved=proved)
    assert reserved(booked) == [0, 0, 0]
    assert outcomes == {"impossible": 1}


def test_a_pod_that_was_booked_for_the_second_in_which_it_is_bound_gives_its_devices_back() -> None:
    booked, model = AssumedPods(30.0), FleetModel(WORLD)
    gpus = msgspec.structs.replace(SMALL, requests={**SMALL.requests, SHARE_MILLI: 500.0})
    waiting = msgspec.structs.replace(pod("a"), shape=gpus)
    claim = claim_of(waiting)
    assert claim is not None
    booked.put(waiting, 0.0)
    held = Held("n1", gpus, TIME + 10, owner_of(waiting), claim, expected=True)
    assert booked.assume("a", held, 0.0, proved=True)
    for each in booked.begin():
        model.place(each)
    booked.adopt(model)
    bound = msgspec.structs.replace(pod("a", "n1", bound=TIME + 10), shape=gpus)
    booked.put(bound, 1.0)
    booked.remove("a")
    assert reserved(booked) == [0, 0, 0]
