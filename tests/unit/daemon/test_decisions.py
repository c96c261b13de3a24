"""Decisions with a snapshot, a watch and a clock in the hands of the test."""

import json
from collections import Counter
from functools import cache
from typing import Any

import msgspec
import numpy as np
import pytest

from ballast.base.errors import UsageError
from ballast.base.metrics import Metrics
from ballast.cluster.objects import wire
from ballast.cluster.objects.decoding import Shared, to_pod
from ballast.cluster.watch import WATCH_SILENT
from ballast.extender import decisions
from ballast.extender.decisions import ExtenderService
from ballast.model.shape import ContainerShape, shape_of
from ballast.model.snapshot import Snapshot
from ballast.scoring.fleet import fleet_of
from ballast.scoring.residual import Criterion
from ballast.scoring.strategy import NAMES, strategy
from ballast.serving.board import Board
from ballast.serving.rendering import render
from ballast.settings.plain_parts import ExtenderSettings
from tests.worlds.clock import FakeClock
from tests.worlds.snapshots import LARGE, SMALL, TIME, pod, snapshot

NAN = float("nan")


class ExtenderWorld:
    """An `ExtenderService` and everything it looks at."""

    def __init__(self, taken: Snapshot | None = None, **settings: Any) -> None:
        self.clock = FakeClock(TIME + 10)
        self.board = Board(clock=self.clock, max_age=90.0)
        self.metrics = Metrics()
        self.pods_age = 1.0
        self.service = ExtenderService(
            ExtenderSettings(**settings), self.clock, self.metrics, self.board, lambda: self.pods_age
        )
        self.service.replace([])
        if taken is not None:
            self.observe(taken)

    def observe(self, taken: Snapshot) -> None:
        self.board.snapshot = taken
        self.board.rendered = render(taken, {}, fetched=self.clock.wall())
        self.service.observe(taken)

    def show(self, asking: wire.Pod) -> wire.Pod:
        """The watch shows a pod waiting, unless it has shown it before."""
        if self.service._assumed.waiting(asking.metadata.uid) is None:
            self.service.put(to_pod(asking, Shared(), lambda key: False))
        return asking

    def ask(self, uid: str, names: list[str], profile: str | None = None, **requests: str) -> tuple[dict, str | None]:  # type: ignore[type-arg]
        self.show(incoming(uid, **requests))
        found = self.service.prioritize(incoming(uid, **requests), names, profile)
        answer = json.loads(found.body)
        assert [each["Host"] for each in answer] == names
        return {each["Host"]: each["Score"] for each in answer}, found.neutral

    def chosen(self, uid: str, names: list[str], profile: str | None = None, **requests: str) -> str:
        points, neutral = self.ask(uid, names, profile, **requests)
        assert neutral is None
        [best] = [name for name, score in points.items() if score == 10]
        assert all(0 <= score <= 9 for name, score in points.items() if name != best)
        return best

    def outcomes(self) -> dict[str, int]:
        return {
            sample.labels["outcome"]: int(sample.value)
            for family in self.metrics.extender_decisions.collect()
            for sample in family.samples
            if sample.name.endswith("_total") and sample.value
        }


def incoming(uid: str, *, daemon_set: bool = False, cpu: str = "500m", memory: str = "1Gi") -> wire.Pod:
    owners = [wire.OwnerReference("DaemonSet", "agent", "o", True)] if daemon_set else None
    container = wire.Container(wire.ResourceRequirements({"cpu": cpu, "memory": memory}))
    return wire.Pod(wire.Meta(name=uid, uid=uid, owner_references=owners), wire.PodSpec(containers=[container]))


N3 = ["n0", "n1", "n2"]


def test_the_least_loaded_of_equal_nodes_is_chosen() -> None:
    world = ExtenderWorld(snapshot([0.6, 0.1, 0.4]))
    assert world.chosen("a", N3) == "n1"
    assert world.chosen("a", ["n2", "n0"]) == "n2"


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"dynamic", "peaks"}))
def test_every_strategy_chooses_among_those_with_its_best_score(name: str) -> None:
    taken = snapshot([0.6, 0.1, 0.4])
    world = ExtenderWorld(taken)
    scores = strategy(name).score(fleet_of(taken), pod("a", asks=SMALL)).exact
    assert scores[N3.index(world.chosen("a", N3, name))] == pytest.approx(scores.max(), abs=1e-6)


@pytest.mark.parametrize(("loads", "node"), [((0.3, 0.305, 0.6), "n1"), ((0.3, 0.4, 0.6), "n0")])
def test_a_replica_goes_to_no_sibling_while_a_node_as_good_is_free(loads: tuple[float, ...], node: str) -> None:
    world = ExtenderWorld(snapshot(list(loads)))
    [container] = incoming("b").spec.containers
    owners = [wire.OwnerReference("ReplicaSet", "web", "o", True)]
    sibling, replica = (
        wire.Pod(
            wire.Meta(name=uid, uid=uid, owner_references=owners), wire.PodSpec(node_name=on, containers=[container])
        )
        for uid, on in (("a", "n0"), ("b", ""))
    )
    bound = to_pod(sibling, Shared(), lambda key: False)
    world.service.put(msgspec.structs.replace(bound, scheduled_at=TIME - 3600.0))
    world.show(replica)
    answer = json.loads(world.service.prioritize(replica, N3, "load-variation").body)
    assert [each["Host"] for each in answer if each["Score"] == 10] == [node]
    world.service.remove(bound)
    assert world.service._assumed.of_owner("o") == {node: 1}, "its own decision counts, a pod that is gone does not"


def test_a_burst_does_not_pile_up_on_the_best_node() -> None:
    world = ExtenderWorld(snapshot([0.3, 0.25, 0.3, 0.35]))
    names = ["n0", "n1", "n2", "n3"]
    for number in range(40):
        world.service.put(pod(f"p{number}"))
    count = Counter(world.chosen(f"p{number}", names) for number in range(40))
    assert max(count.values()) <= 14
    assert world.outcomes() == {"assumed": 40}


def test_load_alone_spreads_too_because_decisions_are_in_flight() -> None:
    world = ExtenderWorld(snapshot([0.30, 0.25, 0.30]))
    count = Counter(world.chosen(f"p{number}", N3, "load-variation") for number in range(30))
    assert min(count.values()) >= 8


def test_a_retry_does_not_stand_in_its_own_way() -> None:
    world = ExtenderWorld(snapshot([0.3, 0.3, 0.3]))
    first = world.chosen("a", N3, cpu="8")
    assert all(world.chosen("a", N3, cpu="8") == first for _ in range(5))
    assert world.outcomes() == {"assumed": 6, "retried": 5}


def test_the_watch_confirms_and_undoes() -> None:
    world = ExtenderWorld(snapshot([0.3, 0.3, 0.3]))
    for uid in "abc":
        world.service.put(pod(uid))
    bound = world.chosen("a", N3)
    world.service.put(pod("a", bound, bound=TIME + 11))
    world.chosen("b", N3)
    world.service.remove(pod("b"))
    world.chosen("c", N3)
    world.clock.advance(31)
    world.ask("d", N3)
    assert world.outcomes() == {"assumed": 4, "confirmed": 1, "undone": 1, "expired": 1}


def test_a_list_tells_of_pods_that_are_gone() -> None:
    world = ExtenderWorld(snapshot([0.1, 0.1, 0.1]))
    world.service.replace([pod(f"p{number}", "n0", LARGE) for number in range(3)])
    assert world.chosen("a", N3) != "n0"
    world.service.replace([pod("other", name, LARGE) for name in ("n1", "n2")][:1])
    world.service.put(pod("more", "n2", LARGE))
    assert world.chosen("b", N3) == "n0"


@pytest.mark.parametrize(
    ("reason", "prepare"),
    [
        ("no-snapshot", lambda world: None),
        ("old-snapshot", lambda world: (world.observe(snapshot([0.1, 0.2, 0.3])), world.clock.advance(91))),
        ("frozen", lambda world: (world.observe(snapshot([0.1, 0.2, 0.3])), setattr(world.board, "frozen", True))),
        (
            "no-pods",
            lambda world: (world.observe(snapshot([0.1, 0.2, 0.3])), setattr(world, "pods_age", WATCH_SILENT + 1)),
        ),
        ("unknown-nodes", lambda world: world.observe(snapshot([NAN, NAN, NAN]))),
    ],
)
def test_without_knowledge_all_get_5_and_nothing_is_assumed(reason: str, prepare: Any) -> None:
    world = ExtenderWorld()
    prepare(world)
    assert world.ask("a", N3) == ({"n0": 5, "n1": 5, "n2": 5}, reason)
    assert world.outcomes() == {}


def test_unknown_candidates_and_strangers_alone_are_neutral() -> None:
    world = ExtenderWorld(snapshot([0.1, NAN, 0.3]))
    assert world.ask("a", ["n1"]) == ({"n1": 5}, "unknown-nodes")
    assert world.ask("a", ["x", "y"]) == ({"x": 5, "y": 5}, "unknown-nodes")
    assert world.ask("a", []) == ({}, "unknown-nodes")


def test_requests_alone_decide_whatever_the_load_is_known_to_be() -> None:
    world = ExtenderWorld(snapshot([NAN, NAN, NAN]))
    world.board.frozen = True
    world.service.put(pod("there", "n1", LARGE))
    assert world.chosen("a", N3, "most-allocated") == "n1"
    assert world.chosen("b", N3, "least-allocated") != "n1"
    assert world.chosen("c", N3, "dominant-residual") in N3


def test_an_unknown_node_is_never_better_for_being_unknown() -> None:
    world = ExtenderWorld(snapshot([0.9, NAN, 0.5]))
    for number in range(10):
        assert world.chosen(f"p{number}", ["n1", "n2"], "load-variation", cpu="1m") == "n2"


def test_a_node_that_is_not_known_counts_as_the_worst() -> None:
    world = ExtenderWorld(snapshot([0.9, 0.1, 0.5]))
    points, neutral = world.ask("a", ["x", "n0", "n1", "x"][:3], "load-variation")
    assert neutral is None
    assert points["n1"] == 10
    assert points["x"] == points["n0"]


def test_a_profile_that_is_no_strategy_is_refused_in_words() -> None:
    world = ExtenderWorld(snapshot([0.1]))
    with pytest.raises(UsageError, match=r"'load-variaton'.*load-variation"):
        world.ask("a", ["n0"], "load-variaton")
    with pytest.raises(UsageError, match=r"peaks: node_power_model .* BALLAST_SCORING__KEYS"):
        world.ask("a", ["n0"], "peaks")
    with pytest.raises(UsageError, match="node_power_model"):
        ExtenderWorld(strategy="peaks")


def test_the_mix_of_arriving_pods_is_learned() -> None:
    world = ExtenderWorld(snapshot([0.1, 0.1, 0.1]))
    for number in range(20):
        world.service.put(pod(f"p{number}", "n0", LARGE))
    [profile] = world.service._assumed.arrivals.profiles()
    assert profile.requests["cpu"] == 4000
    state = world.service._state
    assert state is not None
    assert state.residual._prepared is not None


def test_what_was_asked_for_lately_is_at_hand_after_each_renewal(monkeypatch: pytest.MonkeyPatch) -> None:
    world = ExtenderWorld(snapshot([0.1, 0.1, 0.1]))
    world.service.put(pod("before", "n0", LARGE))
    computed: list[int] = []
    whole = Criterion.losses
    monkeypatch.setattr(Criterion, "losses", lambda *args: (computed.append(1), whole(*args))[1])
    world.chosen("a", N3, cpu="2")
    assert computed
    world.observe(snapshot([0.1, 0.1, 0.1], time=TIME + 5))
    computed.clear()
    world.chosen("b", N3, cpu="2")
    assert not computed
    world.chosen("c", N3, cpu="3")
    assert computed


def test_long_work_waits_for_a_request_that_is_under_way_but_not_for_a_slow_caller() -> None:
    world = ExtenderWorld(snapshot([0.1, 0.1, 0.1]))
    world.service.give_way()  # nobody asks: nothing to wait for
    under_way = [True, True, False, False]
    world.service.follow(lambda: under_way.pop(0))
    world.service.give_way()
    assert under_way == [False]
    looks: list[bool] = []
    world.service.follow(lambda: bool(looks.append(True)) or True)
    world.service.give_way()
    assert len(looks) == decisions.PAUSES


def test_decisions_survive_the_next_snapshot_and_other_nodes() -> None:
    world = ExtenderWorld(snapshot([0.3, 0.3, 0.3]))
    first = world.chosen("a", N3, cpu="8")
    world.observe(snapshot([0.3, 0.3, 0.3], time=TIME + 5))
    assert world.chosen("b", N3, cpu="8") != first
    world.observe(snapshot([0.3] * 4, names=[*N3, "n3"], time=TIME + 6))
    model = world.service._state.model  # type: ignore[union-attr]
    assert sorted(model.placed.reserved("cpu").tolist()) == [0, 0, 8000, 8000]


def test_with_a_threshold_loaded_nodes_are_left_out() -> None:
    world = ExtenderWorld(snapshot([0.95, 0.5, NAN, 0.2]), filter_threshold=0.9)
    names = ["n0", "n1", "n2", "n3", "stranger"]
    found = world.service.filter(incoming("a"), names)
    assert list(found.nodes) == ["n0"]
    assert "0.95" in found.nodes["n0"]
    assert not world.service.filter(incoming("a", daemon_set=True), names).nodes


def test_when_all_would_be_left_out_none_is() -> None:
    world = ExtenderWorld(snapshot([0.95, 0.99]), filter_threshold=0.9)
    assert not world.service.filter(incoming("a"), ["n0", "n1"]).nodes
    assert not world.service.filter(incoming("a"), ["n0"]).nodes
    assert not world.service.filter(incoming("a"), []).nodes


@pytest.mark.parametrize(("trouble", "reason"), [("frozen", "frozen"), ("old", "old-snapshot")])
def test_nothing_is_left_out_for_a_load_that_is_not_known_now(trouble: str, reason: str) -> None:
    world = ExtenderWorld(snapshot([0.95, 0.5]), filter_threshold=0.9)
    world.board.frozen = trouble == "frozen"
    world.clock.advance(91.0 if trouble == "old" else 0.0)
    found = world.service.filter(incoming("a"), ["n0", "n1"])
    assert (found.nodes, found.neutral) == ({}, reason)


def test_without_a_threshold_nothing_is_left_out() -> None:
    assert not ExtenderWorld(snapshot([0.99, 0.1])).service.filter(incoming("a"), ["n0", "n1"]).nodes


def test_names_in_any_order_and_number_get_the_same_decision() -> None:
    rng = np.random.default_rng(1)
    taken = snapshot(rng.random(50).tolist())
    names = [f"n{i}" for i in range(50)]
    world = ExtenderWorld(taken)
    expected = world.chosen("a", list(names))
    for _ in range(5):
        rng.shuffle(names)
        assert world.chosen("a", list(names)) == expected
    assert world.chosen("a", [expected, *(name for name in names[:20] if name != expected)]) == expected


HUGE = ("9223372036854775807", "1e400", "8Ei", "-5")


@pytest.mark.parametrize("amount", HUGE)
@pytest.mark.parametrize("name", sorted(set(NAMES) - {"dynamic", "peaks"}))
def test_a_pod_that_asks_for_more_than_there_ever_is_is_answered(name: str, amount: str) -> None:
    world = ExtenderWorld(snapshot([0.6, 0.1, 0.4]))
    for number in range(3):
        points, _ = world.ask(f"p{number}", N3, name, cpu=amount, memory=amount)
        assert all(0 <= each <= 10 for each in points.values())


def test_a_bound_pod_of_any_size_counts_and_is_gone_again() -> None:
    """Anybody who may create a pod with a nodeName can ask for 2^63 - 1 bytes on a node."""
    world = ExtenderWorld(snapshot([0.2, 0.2, 0.2]))
    size = shape_of([ContainerShape({"cpu": 2.0**63, "memory": 2.0**63})])
    huge = [pod(f"huge{number}", "n0", size, bound=TIME + 5) for number in range(5)]
    for each in huge:
        world.service.put(each)
    world.observe(snapshot([0.2, 0.2, 0.2], names=["n0", "n1", "other"]))
    assert {world.chosen(f"p{number}", ["n0", "n1"], "least-allocated") for number in range(9)} == {"n1"}
    for each in huge:
        world.service.remove(each)
    assert {world.chosen(f"p{number}", ["n0"], "load-variation") for number in range(3)} == {"n0"}


def test_a_pod_the_watch_has_not_shown_gets_an_answer_and_books_nothing() -> None:
    world = ExtenderWorld(snapshot([0.3, 0.3, 0.3]))
    before = world.ask("genuine", N3)
    world.service.remove(pod("genuine"))
    for number in range(1500):
        answer = world.service.prioritize(incoming(f"u{number}", cpu="1000000"), N3, None)
        assert sorted(each["Score"] for each in json.loads(answer.body))[-1] == 10
    assert world.ask("genuine", N3) == before
    assert world.outcomes()["unseen"] == 1500
    assert len(world.service._assumed.assumptions) == 1
    assert world.service.reservations.asked("default-scheduler") is not None


def test_a_scheduler_ahead_of_the_watch_is_booked_when_the_watch_follows() -> None:
    world = ExtenderWorld(snapshot([0.3, 0.3, 0.3]))
    burst = [incoming(f"p{number}", cpu="4") for number in range(6)]
    for asking in burst:
        world.service.prioritize(asking, N3, None)
    for asking in burst:
        world.show(asking)
    assert world.outcomes() == {"unseen": 6, "assumed": 6}
    world.service.prioritize(incoming("late"), N3, None)
    world.clock.advance(6)
    world.show(incoming("late"))
    assert len(world.service._assumed.assumptions) == 6


@cache
def busiest(lag: int, *, proved: bool = False, forged: int = 0, count: int = 500, listed: int = 50) -> int:
    """The most pods on one of 50 nodes, where the watch shows each pod of 100 a second so many pods later.

    Each request lists so many names; those beyond the 50 are of nodes that nobody measured.
    """
    nodes = 50
    loads = list(np.random.default_rng(3).uniform(0.05, 0.85, nodes))
    names = [f"n{row}" for row in range(listed)]
    world, placed, burst = ExtenderWorld(snapshot(loads)), Counter[str](), [incoming(f"x{k}") for k in range(count)]
    for number, asking in enumerate(burst):
        if not lag:
            world.show(asking)
        points = json.loads(world.service.prioritize(asking, names, None, proved=proved).body)
        placed[max(points, key=lambda entry: entry["Score"])["Host"]] += 1
        for copy in range(forged):
            world.service.prioritize(incoming(f"f{number}-{copy}", cpu="1000"), names, None)
        if lag and number >= lag:
            world.show(burst[number - lag])
        world.clock.advance(0.01)
    return max(placed.values())


@pytest.mark.slow
@pytest.mark.parametrize(("lag", "most"), [(1, 1.5), (2, 1.5), (4, 1.5), (7, 1.5), (20, 1.5), (100, 1.5), (500, 2.0)])
@pytest.mark.parametrize("proved", [False, True])
def test_a_late_watch_piles_no_burst_on_a_node(lag: int, most: float, proved: bool) -> None:
    assert busiest(lag, proved=proved) <= most * busiest(0)


@pytest.mark.slow
@pytest.mark.parametrize(("lag", "most"), [(20, 1.5), (100, 1.5), (500, 2.0)])
def test_nor_where_each_request_lists_15000_names(lag: int, most: float) -> None:
    assert busiest(lag, listed=15_000) <= most * busiest(0)


@pytest.mark.slow
def test_forged_pods_do_not_pile_up_others_either() -> None:
    assert busiest(100, forged=3) <= 2 * busiest(0)
    assert busiest(0, forged=3) == busiest(0), "a pod that the watch shows is scored as if nobody had asked"


def test_a_pod_asked_about_again_goes_to_the_same_node() -> None:
    world = ExtenderWorld(snapshot([0.3] * 9))
    names = [f"n{row}" for row in range(9)]
    for number in range(20):
        first, again = (world.service.prioritize(incoming(f"p{number}"), names, None).body for _ in range(2))
        assert number < 8 or first == again


def test_the_metrics_say_how_late_the_watch_is() -> None:
    world = ExtenderWorld(snapshot([0.3, 0.3, 0.3]))
    for number in range(4):
        world.service.prioritize(incoming(f"p{number}"), N3, None, proved=number % 2 == 0)
    unseen, lag = world.metrics.extender_unseen, world.metrics.extender_watch_lag
    assert (value_of(unseen), value_of(lag)) == (4, 0)
    world.clock.advance(2.5)
    world.show(incoming("p0"))
    world.show(incoming("p1"))
    assert (value_of(unseen), value_of(lag)) == (2, 2.5)
    world.clock.advance(61)
    world.ask("p0", N3)
    assert (value_of(unseen), value_of(lag)) == (0, 0)


def value_of(metric: Any) -> float:
    [family] = metric.collect()
    return float(family.samples[0].value)


def test_what_a_caller_sends_is_not_kept() -> None:
    world = ExtenderWorld(snapshot([0.3, 0.3, 0.3]))
    asking = incoming("u", cpu="0.1")
    asking.spec.scheduler_name = "made-up"
    world.service.prioritize(asking, N3, None)
    assert world.service.reservations.asked("made-up") is None
    assert not world.service.in_use()


def test_an_answer_carries_how_late_load_and_pods_were() -> None:
    world = ExtenderWorld(snapshot([0.3, 0.3, 0.3]))
    world.service.prioritize(incoming("late"), N3, None)
    world.clock.advance(3)
    world.show(incoming("late"))
    answer = world.service.prioritize(incoming("b"), N3, None)
    assert answer.headers == {"x-ballast-snapshot-age": "13.0", "x-ballast-watch-lag": "3.0"}
    world.board.frozen = True
    neutral = world.service.prioritize(incoming("c"), N3, None)
    assert neutral.headers == answer.headers | {"x-ballast-neutral": "frozen"}


def used(seconds: float) -> Counter[str]:
    """Where 300 pods go that are decided about and gone again, so many seconds after the last cycle."""
    world = ExtenderWorld(snapshot([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]))
    world.clock.advance(seconds)
    counts: Counter[str] = Counter()
    for number in range(300):
        counts[world.chosen(f"p{number}", [f"n{row}" for row in range(6)], "load-variation", cpu="1m")] += 1
        world.service.remove(pod(f"p{number}"))
    return counts


@pytest.mark.slow
def test_a_late_snapshot_steers_less_the_later_it_is() -> None:
    nodes = [len(used(seconds)) for seconds in (0, 40, 60, 75, 89, 90)]
    assert nodes[:2] == [1, 1]
    assert nodes == sorted(nodes)
    assert nodes[3] > 1
    assert nodes[-1] == 6
    assert min(used(90).values()) > 20, "blind: an even spread"


def test_a_late_watch_steers_less_and_a_wrong_clock_does_not() -> None:
    def late(advance: float, *, asked: bool) -> float:
        world = ExtenderWorld(snapshot([0.1, 0.6]))
        if asked:
            world.service.prioritize(incoming("x"), ["n0", "n1"], None, proved=True)
        world.clock.advance(advance)
        world.service.put(pod("x"))
        return float(world.service.prioritize(incoming("y"), ["n0", "n1"], None).headers["x-ballast-watch-lag"])

    assert late(20, asked=True) == 20
    assert late(20, asked=False) == 0


@pytest.mark.parametrize(
    ("nominated", "since", "kept"),
    [
        ("", TIME + 11, False),
        ("other", None, False),
        ("other", TIME + 11, False),
        ("", None, True),
        ("own", None, True),
    ],
)
def test_what_was_only_tried_is_given_back(nominated: str, since: float | None, kept: bool) -> None:
    """Preemption and groups of pods: the scheduler found no node after all, or makes room on another."""
    world = ExtenderWorld(snapshot([0.3, 0.3, 0.3]))
    node = world.chosen("a", N3, cpu="8")
    other = next(name for name in N3 if name != node)
    shown = world.service._assumed.waiting("a")
    assert shown is not None
    target = {"own": node, "other": other}.get(nominated, "")
    changed = msgspec.structs.replace(shown, nominated=target, waiting_since=since, labels={"a": "b"})
    world.service.put(changed)
    world.service.put(msgspec.structs.replace(changed, labels={"a": "c"}))
    assert bool(len(world.service._assumed.assumptions)) == kept
    state = world.service._state
    assert state is not None
    assert state.model.placed.reserved("cpu").sum() == (8000 if kept else 0)


def test_a_pod_tried_again_keeps_its_new_decision() -> None:
    world = ExtenderWorld(snapshot([0.3, 0.3, 0.3]))
    world.chosen("a", N3, cpu="8")
    shown = world.service._assumed.waiting("a")
    assert shown is not None
    refused = msgspec.structs.replace(shown, waiting_since=TIME + 11)
    world.service.put(refused)
    world.service.prioritize(incoming("a", cpu="8"), N3, None, proved=True)
    world.service.put(msgspec.structs.replace(refused, labels={"a": "b"}))
    assert len(world.service._assumed.assumptions) == 1
