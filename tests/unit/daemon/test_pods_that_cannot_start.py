"""Room bounds bookings: pods that can never start move no points of others, and no label, whoever asks about them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.cluster.objects.decoding import Shared, pod_reader, to_pod
from ballast.model.node import Taint
from ballast.model.pod import Pod
from ballast.model.snapshot import Snapshot
from ballast.model.template import OPAQUE, HostPort, NodeTerm, PodTerm, Template, TopologySpread
from ballast.placement.assumed_pods import MOST_GUESSES, AssumedPods
from ballast.placement.fleet_model import FleetModel, Held
from tests.properties import examples
from tests.unit.daemon.test_decisions import ExtenderWorld, incoming
from tests.worlds.snapshots import TIME, pod, shape, snapshot

COUNT = 1000
VICTIM = "n4"
NAMES = [f"n{row}" for row in range(16)]
LOADS = np.random.default_rng(5).uniform(0.1, 0.8, len(NAMES)).tolist()

Change = Callable[[Pod], Pod]


def with_template(**fields: Any) -> Change:
    return lambda seen: msgspec.structs.replace(seen, template=Template(**fields))


def with_fields(**fields: Any) -> Change:
    return lambda seen: msgspec.structs.replace(seen, **fields)


HOST = "kubernetes.io/hostname"
NOWHERE = {
    "a selector that no node has": with_template(node_selector=(("disk", "none"),)),
    "a node affinity to another node": with_template(node_affinity=(NodeTerm(),)),
    "being deleted": with_fields(deleting=True),
}
"""Whoever asks, also with proof."""

UNSHOWN: Mapping[str, Change] = {
    "refused": with_fields(waiting_since=TIME),
    "gated": with_fields(gates=("tenant/never",)),
    "finished": with_fields(phase="Succeeded"),
    "a scheduler that nobody runs": with_fields(scheduler_name="nobody"),
    "an affinity to pods": with_template(affinity=(PodTerm(HOST, None, ("tenant",)),)),
    "an anti-affinity to pods": with_template(anti_affinity=(PodTerm(HOST, None, ("tenant",)),)),
    "a spread over zones that are not there": with_template(spread=(TopologySpread("zone", 1, None),)),
    "a port that is taken": with_template(host_ports=(HostPort(9100),)),
    "a claim of a volume": with_template(volume_claims=True, claims=(("tenant", "gone"),)),
    "a claim of a volume of its own": with_template(volume_claims=True, ephemeral=(("scratch", "no-class"),)),
    "a claim of devices": with_template(resource_claims=True, device_claims=1),
    "a shared claim of devices": with_template(shared_devices=True, named_claims=("gone",)),
    "a group that is never whole": with_template(grouped=True),
    "larger than is kept": with_fields(template=OPAQUE),
    "no uid": with_fields(uid=""),
}
"""Without proof. Of a proved caller it is known that it has looked at these."""


class Tenant:
    """Makes pods, and asks the port about each."""

    def __init__(self, strategy: str, **settings: Any) -> None:
        self.world = ExtenderWorld(snapshot(LOADS), strategy=strategy, **settings)
        self.world.service.replace([pod(f"r{row}", name) for row, name in enumerate(NAMES)])
        self.observe()
        self.strategy = strategy
        self.before = self.seen()

    def observe(self) -> None:
        self.world.observe(snapshot(LOADS))

    def seen(self) -> tuple[dict[str, int | None], dict[str, float | None], list[int]]:
        """Scores, labels, and the points of an honest pod, but for the node that is chosen."""
        service = self.world.service
        honest = incoming("honest")
        answer = msgspec.json.decode(service.prioritize(honest, NAMES, None).body)
        service._assumed.forget_decision("honest")
        return (
            service.node_scores(self.strategy),
            service.label_scores(self.strategy),
            [each["Score"] for each in answer],
        )

    def ask(self, uid: str, change: Change, *, proved: bool, cpu: str = "3", shown: bool = True) -> None:
        asking = incoming(uid, cpu=cpu, memory="2Gi")
        seen = change(to_pod(asking, Shared(), lambda key: False))
        if shown:
            self.world.service.put(seen)
        asking.metadata.uid = seen.uid
        for names in ([VICTIM], NAMES):
            self.world.service.prioritize(asking, names, None, proved=proved)
            self.world.service.filter(asking, names)

    def moved(self) -> tuple[float, float, int]:
        """The most by which a score, a label and an honest pod's points changed."""
        scores, labels, points = self.seen()
        chosen = {self.before[2].index(10), points.index(10)}
        return (
            max(abs((scores[name] or 0) - (value or 0)) for name, value in self.before[0].items()),
            max(abs((labels[name] or 0) - (value or 0)) for name, value in self.before[1].items()),
            max(abs(a - b) for row, (a, b) in enumerate(zip(points, self.before[2], strict=True)) if row not in chosen),
        )


STRATEGIES = ("load-aware", "load-variation", "dominant-residual", "blend")


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("kind", [*NOWHERE, *UNSHOWN, "unseen", "above every node", "above what is free"])
def test_a_thousand_pods_that_cannot_start_move_nothing_of_others(kind: str, strategy: str) -> None:
    tenant = Tenant(strategy)
    cpu = {"above every node": "1000000", "above what is free": "15.9"}.get(kind, "3")
    change = {**NOWHERE, **UNSHOWN}.get(kind, lambda seen: seen)
    for number in range(COUNT):
        tenant.ask(f"evil{number}", change, proved=False, cpu=cpu, shown=kind != "unseen")
        if number == COUNT // 2:
            tenant.observe()
    assert tenant.moved() == (0, 0, 0)
    assert tenant.world.outcomes().keys() <= {"unseen", "impossible"}


@pytest.mark.parametrize("kind", [*NOWHERE, "above what is free"])
def test_nor_where_the_caller_shows_a_token(kind: str) -> None:
    tenant = Tenant("load-aware")
    for number in range(60):
        cpu = "15.9" if kind == "above what is free" else "3"
        tenant.ask(f"evil{number}", NOWHERE.get(kind, lambda seen: seen), proved=True, cpu=cpu)
    assert tenant.moved() == (0, 0, 0)


@pytest.mark.parametrize("taint", [Taint("key", "NoSchedule"), Taint("key", "NoExecute")])
def test_nor_on_a_node_whose_taint_they_do_not_tolerate(taint: Taint) -> None:
    seen = snapshot([0.2, 0.2, 0.2])
    nodes = (msgspec.structs.replace(seen.nodes[0], taints=(taint,)), *seen.nodes[1:])
    booked, _ = following(replace(seen, nodes=nodes))
    booked.put(pod("a"), 0.0)
    assert not booked.assume("a", Held("n0", shape(1.0), TIME), 0.0, proved=True)
    assert booked.assume("a", Held("n1", shape(1.0), TIME), 0.0, proved=True)


def following(seen: Snapshot) -> tuple[AssumedPods, list[str]]:
    outcomes: list[str] = []
    booked = AssumedPods(30.0, outcomes.append)
    booked.adopt(FleetModel(seen))
    return booked, outcomes


def test_a_decision_that_came_to_nothing_counts_no_second_time_until_it_is_refused_again() -> None:
    booked, outcomes = following(snapshot([0.2, 0.2]))
    booked.put(pod("a"), 0.0)
    held = Held("n1", shape(1.0), TIME)
    assert booked.assume("a", held, 0.0)
    booked.expire(31.0)
    assert not booked.assume("a", held, 32.0)
    assert not booked.assume("a", held, 33.0, proved=True)
    booked.put(msgspec.structs.replace(pod("a"), waiting_since=TIME + 40), 40.0)
    assert not booked.assume("a", held, 41.0), "anybody could ask about what was refused"
    assert booked.assume("a", held, 42.0, proved=True)
    booked.put(pod("a", "n1", bound=TIME + 43), 43.0)
    assert outcomes == ["assumed", "expired", "impossible", "impossible", "impossible", "assumed", "confirmed"]


def test_a_scheduler_counts_without_proof_once_it_has_bound_a_pod_where_it_was_sent() -> None:
    booked, _ = following(snapshot([0.2, 0.2]))
    theirs = [msgspec.structs.replace(pod(uid), scheduler_name="volcano") for uid in "abc"]
    held = Held("n1", shape(1.0), TIME)
    booked.put(theirs[0], 0.0)
    assert not booked.assume("a", held, 0.0)
    booked.put(msgspec.structs.replace(theirs[0], node="n0"), 1.0)
    booked.put(theirs[1], 2.0)
    assert not booked.assume("b", held, 2.0), "it went elsewhere"
    booked.put(msgspec.structs.replace(theirs[1], node="n1"), 3.0)
    booked.put(theirs[2], 4.0)
    assert booked.assume("c", held, 4.0)


def test_labels_count_what_is_bound_and_what_is_proved() -> None:
    tenant = Tenant("dominant-residual")
    before = tenant.world.service.label_scores("dominant-residual")
    for number in range(4):
        tenant.ask(f"honest{number}", lambda seen: seen, proved=False)
    points = tenant.world.service.node_scores("dominant-residual")
    assert points != tenant.before[0], "they count where pods go"
    assert tenant.world.service.label_scores("dominant-residual") == before
    assert tenant.world.service.node_scores("dominant-residual") == points
    tenant.ask("proved", lambda seen: seen, proved=True)
    assert tenant.world.service.label_scores("dominant-residual") != before


def test_not_more_than_five_hundred_decisions_of_strangers_count_at_once() -> None:
    booked, _ = following(snapshot([0.1, 0.1], cpu=1e6))
    for number in range(MOST_GUESSES + 50):
        booked.put(pod(f"p{number}"), 0.0)
        booked.assume(f"p{number}", Held("n1", shape(0.01, 0.01), TIME), 0.0)
    assert len(booked.assumptions.guesses) == len(booked.assumptions) == MOST_GUESSES


def test_a_pod_that_is_bound_ends_what_was_only_assumed_in_its_room() -> None:
    booked, outcomes = following(snapshot([0.2, 0.2]))
    for uid in "abc":
        booked.put(pod(uid), 0.0)
        assert booked.assume(uid, Held("n1", shape(5.0), TIME), 0.0)
    booked.put(pod("other", "n1", shape(7.0)), 1.0)
    assert booked.model is not None
    assert booked.model.placed.reserved("cpu")[1] == 12_000
    assert outcomes == ["assumed"] * 3 + ["undone"] * 2


ACTS = st.lists(
    st.tuples(
        st.sampled_from(["ask", "bind", "end", "later", "cycle", "reserve", "release"]),
        st.integers(0, 9),
        st.integers(0, 2),
        st.sampled_from([0.5, 3.0, 7.5, 16.0]),
        st.booleans(),
    ),
    max_size=60,
)


@examples(300)
@given(ACTS)
def test_what_is_bound_assumed_and_reserved_is_never_more_than_the_node_has(
    acts: list[tuple[str, int, int, float, bool]],
) -> None:
    world = snapshot([0.1, 0.2, 0.3])
    booked, _ = following(world)
    bound: dict[str, tuple[int, float]] = {}
    now = 0.0
    for act, number, row, cpu, proved in acts:
        uid, size = f"p{number}", shape(cpu)
        if act == "ask" and uid not in bound:
            booked.put(pod(uid, asks=size), now)
            booked.assume(uid, Held(f"n{row}", size, TIME + 10), now, proved=proved)
        elif act == "bind" and uid not in bound:
            booked.put(pod(uid, f"n{row}", size), now)
            bound[uid] = row, cpu
        elif act == "end":
            booked.remove(uid)
            bound.pop(uid, None)
        elif act == "later":
            now += 10 * number
            booked.expire(now)
        elif act == "cycle":
            held = booked.begin()
            model = FleetModel(world, booked.model)
            if not model.follows:
                model.fill(held)
            booked.adopt(model)
        assert booked.model is not None
        for node in range(3):
            taken = booked.model.placed.reserved("cpu")[node]
            there = sum(1000 * amount for where, amount in bound.values() if where == node)
            assert taken <= max(booked.model.fleet.allocatable("cpu")[node], there)


def test_a_lean_reader_knows_what_keeps_a_waiting_pod_from_starting() -> None:
    read = pod_reader(lambda key: False, whole=False).read
    spec = {"nodeSelector": {"a": "b"}, "containers": [], "volumes": [{"name": "x", "persistentVolumeClaim": {}}]}
    body: dict[str, Any] = {"metadata": {"name": "a", "uid": "a", "labels": {"app": "a"}}, "spec": spec}
    waiting = read(msgspec.json.encode(body))
    assert waiting is not None
    assert (waiting.template.node_selector, waiting.template.independent) == ((("a", "b"),), False)
    assert not waiting.labels
    bound = read(msgspec.json.encode({**body, "spec": {**spec, "nodeName": "n1"}}))
    assert bound is not None
    assert bound.template == Template()
