"""Every strategy in the daemon: what a node scores by itself, and what a scheduler is answered."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ballast.base.errors import UsageError
from ballast.base.metrics import Metrics
from ballast.cluster.objects.decoding import Shared, to_pod
from ballast.cluster.watch import WATCH_SILENT
from ballast.extender.decisions import ExtenderService
from ballast.extender.strategies import Strategies, problems
from ballast.model.pod import Owner, Pod
from ballast.model.shape import ContainerShape, shape_of
from ballast.model.snapshot import Snapshot
from ballast.scoring import crane
from ballast.scoring.strategy import NAMES
from ballast.serving.board import Board
from ballast.serving.rendering import render
from ballast.settings import load
from tests.unit.daemon.test_decisions import incoming
from tests.worlds.clock import FakeClock
from tests.worlds.snapshots import EMPTY, LARGE, SMALL, TIME, pod, snapshot

NAN = float("nan")
N3 = ["n0", "n1", "n2"]
NEVER = {"timeRange": "5m", "count": 0}
MODEL = {name: {"k0": 10, "k1": 5, "k2": 0.03 + 0.01 * row} for row, name in enumerate(N3)}
KEYS = {"BALLAST_SCORING__KEYS": json.dumps({"peaks": {"node_power_model": MODEL}})}


def annotated(taken: Snapshot, usage: Sequence[float | None], age: float = 20.0) -> Snapshot:
    """With crane's annotations of all metrics of its default policy."""
    stamp = datetime.fromtimestamp(taken.time - age + 8 * 3600, UTC).strftime(crane.STAMP)
    keys = crane.parse_policy(crane.DEFAULT_POLICY).periods
    values = [{} if value is None else dict.fromkeys(keys, f"{value:.5f},{stamp}") for value in usage]
    nodes = tuple(
        msgspec.structs.replace(node, annotations=each) for node, each in zip(taken.nodes, values, strict=True)
    )
    return replace(taken, nodes=nodes)


class ExtenderWorld:
    def __init__(self, taken: Snapshot, pods: Sequence[Pod] = (), environment: dict[str, str] | None = None) -> None:
        self.settings = load({**KEYS, **(environment or {})})
        self.clock = FakeClock(taken.time + 10)
        self.board = Board(clock=self.clock, max_age=90.0)
        self.pods_age = 1.0
        self.pods = list(pods)
        self.service = ExtenderService(
            self.settings.extender,
            self.clock,
            Metrics(),
            self.board,
            lambda: self.pods_age,
            Strategies(self.settings),
            lambda: self.pods,
        )
        self.service.replace(self.pods)
        self.board.rendered = render(taken, {}, fetched=self.clock.wall())
        self.service.observe(taken)

    def ask(self, uid: str, profile: str | None = None, names: Sequence[str] = N3) -> dict[str, int]:
        self.service.put(to_pod(incoming(uid), Shared(), lambda key: False))
        found = self.service.prioritize(incoming(uid), list(names), profile)
        assert found.neutral is None
        return {each["Host"]: each["Score"] for each in json.loads(found.body)}

    def chosen(self, uid: str, profile: str | None = None) -> str:
        points = self.ask(uid, profile)
        return max(points, key=points.__getitem__)


BURSTY = shape_of([ContainerShape({"cpu": 1.0}, {"cpu": 20.0})])
THERE = [
    pod("e", "n0", BURSTY),
    pod("a", "n0", LARGE),
    pod("b", "n2", SMALL),
    pod("c", "n1", LARGE),
    pod("d", "n1", LARGE),
]
TAKEN = annotated(snapshot([0.6, 0.1, 0.4]), [0.6, 0.1, 0.4])


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"balanced"}))
def test_every_strategy_scores_nodes_by_themselves(name: str) -> None:
    found = ExtenderWorld(TAKEN, THERE).service.node_scores(name)
    assert list(found) == N3
    assert all(isinstance(score, int) and 0 <= score <= 100 for score in found.values())
    assert len(set(found.values())) > 1, "it tells nodes apart"


def test_balance_is_what_a_pod_changes_so_labels_cannot_go_by_it() -> None:
    [problem] = problems(load({"BALLAST_PUBLISHING__STRATEGY": "balanced"}))
    assert problem.startswith("BALLAST_PUBLISHING__STRATEGY=balanced scores what one pod changes on a node")


@pytest.mark.parametrize("name", NAMES)
def test_a_node_that_is_not_known_has_no_score(name: str) -> None:
    world = ExtenderWorld(annotated(snapshot([0.6, NAN, 0.4]), [0.6, 0.1, 0.4]), THERE)
    found = world.service.node_scores(name)
    assert found["n1"] is None
    assert None not in (found["n0"], found["n2"])


@pytest.mark.parametrize("name", ["dominant-residual", "most-allocated", "balanced", "low-risk", "blend"])
def test_without_pods_nothing_is_said_by_what_they_ask_for(name: str) -> None:
    world = ExtenderWorld(TAKEN, THERE)
    world.pods_age = WATCH_SILENT + 1
    assert set(world.service.node_scores(name).values()) == {None}
    assert None not in world.service.node_scores("load-variation").values()


@pytest.mark.parametrize("name", NAMES)
def test_every_strategy_answers_schedulers(name: str) -> None:
    world = ExtenderWorld(TAKEN, THERE, {"BALLAST_EXTENDER__STRATEGY": name})
    whole = world.ask("x")
    assert sorted(whole.values())[-1] == 10
    assert world.ask("x", name) == whole, "the same by ?profile="
    some = world.ask("y", name, ["n2", "n0"])
    assert sorted(some.values())[-1] == 10


def test_dynamic_reads_annotations_and_counts_bindings_instead_of_their_hot_value() -> None:
    late = [pod(f"p{number}", "n1", EMPTY, bound=TIME - 30) for number in range(4)]
    idle = annotated(snapshot([0.1, 0.1, 0.1]), [0.2, 0.2, None])
    found = ExtenderWorld(idle, late).service.node_scores("dynamic")
    assert found == {"n0": 80, "n1": 60, "n2": None}, "4 bindings within a minute are two points"
    old = annotated(snapshot([0.1, 0.1, 0.1]), [0.2, 0.2, 0.2], age=4 * 3600)
    assert set(ExtenderWorld(old).service.node_scores("dynamic").values()) == {None}


def test_dynamic_does_not_herd_because_decisions_are_bindings() -> None:
    world = ExtenderWorld(annotated(snapshot([0.1] * 3), [0.2, 0.21, 0.22]))
    chosen = [world.chosen(f"p{number}", "dynamic") for number in range(9)]
    assert max(chosen.count(name) for name in N3) <= 4


def test_peaks_prefers_the_node_whose_power_rises_least() -> None:
    even = snapshot([0.3, 0.3, 0.3])
    assert ExtenderWorld(even).chosen("x", "peaks") == "n0"
    assert ExtenderWorld(even).service.node_scores("peaks") == {"n0": 100, "n1": 61, "n2": 0}


def test_what_is_measured_of_its_siblings_counts_for_a_pod_in_flight() -> None:
    def burst(siblings: dict[str, dict[str, float]]) -> int:
        world = ExtenderWorld(snapshot([0.3, 0.3, 0.3]))
        world.service.siblings = siblings
        world.service.observe(snapshot([0.3, 0.3, 0.3]))
        owner = Owner("ReplicaSet", "web", "rs", True)
        world.service.put(msgspec.structs.replace(pod("p", "n0", bound=TIME + 5), owner=owner))
        state = world.service._state
        assert state is not None
        return int(state.model.in_flight.use("cpu", 1000, 1.5)[0])

    assert burst({}) == 750, "its request times 1.5"
    assert burst({"rs": {"cpu": 2.0}}) == 2000
    assert burst({"another": {"cpu": 2.0}}) == 750
    assert burst({"rs": {"memory": 2.0**30}}) == 750, "what is not measured is not zero"


def test_the_scores_of_a_pod_with_their_terms() -> None:
    world = ExtenderWorld(TAKEN, [*THERE, pod("waiting")], {"BALLAST_EXTENDER__STRATEGY": "blend"})
    found = world.service.scores_of("default", "waiting")
    assert found is not None
    assert (found.pod, found.node, found.decided, found.neutral) == ("default/waiting", None, None, None)
    blend, residual, variation = found.strategies
    assert [each.strategy for each in found.strategies] == ["blend", "dominant-residual", "load-variation"]
    assert set(residual.terms["n0"]) == {"dominant", "loss"}
    for name in N3:
        parts = residual.scores[name], variation.scores[name]
        assert blend.scores[name] == pytest.approx(0.7 * parts[0] + 0.3 * parts[1], abs=0.51)
        assert blend.terms[name] == {"dominant-residual": parts[0], "load-variation": parts[1]}
    json.dumps(msgspec.to_builtins(found), allow_nan=False)
    assert world.service.scores_of("default", "nobody") is None


def test_a_pod_that_was_decided_says_where() -> None:
    world = ExtenderWorld(TAKEN, [pod("waiting")])
    node = world.chosen("waiting")
    found = world.service.scores_of("default", "waiting")
    assert found is not None
    assert found.decided == node


def test_keys_come_from_the_settings_and_files(tmp_path: Path) -> None:
    path = tmp_path / "power.yaml"
    path.write_text(json.dumps(MODEL))
    keys = {"peaks": {"node_power_model": str(path)}, "most-allocated": {"resources": {"memory": 1}}}
    world = ExtenderWorld(snapshot([0.1] * 3), THERE, {"BALLAST_SCORING__KEYS": json.dumps(keys)})
    assert len(set(world.service.node_scores("peaks").values())) == 3
    assert world.service.node_scores("most-allocated") == {"n0": 12, "n1": 25, "n2": 1}


def test_profiles_that_are_given_beat_those_that_were_learned() -> None:
    keys = {"dominant-residual": {"profiles": [{"requests": {"memory": "32Gi"}, "weight": 1}]}}
    world = ExtenderWorld(snapshot([0.1] * 3), THERE, {"BALLAST_SCORING__KEYS": json.dumps(keys)})
    state = world.service._state
    assert state is not None
    assert state.residual._prepared is not None
    [profile] = state.residual._prepared.profiles
    assert profile.requests["memory"] == 32 * 2**30


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"peaks": {}}, "peaks: node_power_model cannot be null"),
        ({"dynamic": {"policy": {**crane.DEFAULT_POLICY["spec"], "hotValue": [NEVER]}}}, "count cannot be 0"),
        ({"dynamic": {"policy": "/does/not/exist"}}, "/does/not/exist cannot be read"),
        ({"blend": {"weights": {"load-variation": 0}}}, "they sum to 0"),
        ({"blend": {"weights": {"peaks": 1}}}, "node_power_model"),
        ({"most-allocated": {"resources": {"cpu": -1}}}, "whole numbers from 1 to 100"),
        ({"least-allocated": {"resources": {"bananas": 1}}}, "no resource the scheduler scores"),
        ({"target-load": {"target": 3}}, "has no key target"),
    ],
)
def test_keys_that_cannot_be_used_are_named(keys: dict[str, Any], said: str) -> None:
    [problem] = problems(load({"BALLAST_SCORING__KEYS": json.dumps(keys)}))
    assert said in problem
    assert "BALLAST_SCORING__KEYS" in problem


def test_a_strategy_without_the_keys_it_needs_names_both_settings() -> None:
    [problem] = problems(load({"BALLAST_PUBLISHING__STRATEGY": "peaks"}))
    assert problem.startswith("BALLAST_PUBLISHING__STRATEGY: peaks: node_power_model")
    assert "BALLAST_SCORING__KEYS" in problem


def test_a_policy_with_a_count_of_0_is_refused_by_its_file(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(json.dumps({"spec": {**crane.DEFAULT_POLICY["spec"], "hotValue": [NEVER]}}))
    [problem] = problems(load({"BALLAST_PUBLISHING__CRANE_POLICY_FILE": str(path)}))
    assert problem.startswith(f"BALLAST_PUBLISHING__CRANE_POLICY_FILE: {path}: policy.spec.hotValue: count cannot be 0")
    path.write_text("a: [")
    with pytest.raises(UsageError, match=r"policy\.yaml is neither YAML nor JSON"):
        Strategies(load({"BALLAST_PUBLISHING__CRANE_POLICY_FILE": str(path)}))


@pytest.mark.parametrize("name", NAMES)
def test_zero_allocatable_and_unknown_nodes_are_answered(name: str) -> None:
    world = ExtenderWorld(annotated(snapshot([0.6, 0.1, 0.4], cpu=0.0), [0.6, 0.1, 0.4]), THERE)
    assert all(score is None or 0 <= score <= 100 for score in world.service.node_scores(name).values())
    for names in (N3, ["n0", "stranger"], ["stranger"]):
        found = world.service.prioritize(incoming("x"), names, name)
        assert [each["Host"] for each in json.loads(found.body)] == names
        assert all(0 <= each["Score"] <= 10 for each in json.loads(found.body))
