"""Effects that were there are believed, effects that were not are found: a hundred loads of each kind."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import stdtrit

from ballast.actuation.eviction import effect
from ballast.actuation.eviction.causal import CONTROLS, STUDENT, ages, controls, parts
from ballast.actuation.eviction.records import Running, StepRecord, StepStatus
from ballast.model.node import Node
from ballast.model.node_state import NodeStates
from ballast.model.sample import Floats
from ballast.model.snapshot import Snapshot, Window

STEP = 30.0
"""Seconds between two samples."""
LAG = 120.0
"""Seconds over which a sample itself is a mean."""
WINDOWS = {"15m": 900.0, "10m": 600.0, "5m": 300.0}
NODES, USE = 21, 0.05
TIMES = np.arange(-3600.0, 14_400.0, STEP)
"""Seconds after the eviction was planned."""


@dataclass(frozen=True)
class Course:
    """The load of the source by itself, when its pod ends, and when its replacement is Ready."""

    own: Callable[[Floats], Floats]
    ends: float = 30.0
    ready: float = 60.0
    noise: float = 0.01
    day: float = 0.0
    """How much the load of all nodes rises in an hour."""


def rising(times: Floats) -> Floats:
    return 0.6 + 0.3 * times / 3600


def ramped(times: Floats) -> Floats:
    return np.clip(0.5 + 0.47 * (times + 1200) / 1200, 0.5, 0.97)


def ramping_on(times: Floats) -> Floats:
    return np.clip(0.85 + 0.3 * times / 1200, 0.5, 0.97)


def stepped(times: Floats) -> Floats:
    return np.where(times < -480, 0.5, 0.97)


def just_stepped(times: Floats) -> Floats:
    return np.where(times < -150, 0.6, 0.97)


def falling(times: Floats) -> Floats:
    return 0.9 - 0.3 * times / 3600


def steady(times: Floats) -> Floats:
    return np.full_like(times, 0.85)


def waves(times: Floats) -> Floats:
    return 0.8 + 0.05 * np.sin(times / 1800)


def smoothed(values: Floats) -> Floats:
    """As rates over LAG show it."""
    size = int(LAG / STEP)
    return np.convolve(np.concatenate([np.full(size - 1, values[0]), values]), np.ones(size) / size, "valid")


def snapshot(loads: Floats, at: float) -> Snapshot:
    """Of loads [node, sample]."""
    windows = {}
    for name, seconds in WINDOWS.items():
        mean = loads[:, (at - seconds < TIMES) & (at >= TIMES)].mean(axis=1)[None]
        windows[name] = Window(name, seconds, mean, mean * 0, mean, np.zeros(mean.shape, int), mean, mean > 0)
    nodes = tuple(Node(f"n{i}", allocatable={"cpu": 10.0}) for i in range(len(loads)))
    known = np.ones(len(loads), bool)
    first = windows["15m"].mean
    return Snapshot(at, nodes, ("cpu",), windows, first, first, NodeStates.of(known))


def judged(course: Course, share: float, seed: int) -> effect.EffectVerdict:
    """What is said of one eviction from n0 that takes this share of what the pod used."""
    random = np.random.default_rng(seed)
    loads = random.uniform(0.3, 0.7, NODES)[:, None] + np.zeros((NODES, len(TIMES)))
    loads[0] = course.own(TIMES) - share * USE * (course.ends <= TIMES)
    loads += course.day * TIMES / 3600 + random.normal(0, course.noise, loads.shape)
    loads = np.array([smoothed(row) for row in loads])
    before = snapshot(loads, 0.0)
    ended = max(course.ends, course.ready)
    changes = {"n0": {"cpu": -USE}, "n1": {"cpu": USE}}
    step = StepRecord("shop/web-1", "u", "n0", 0.0, "n1", load=changes, status=StepStatus.READY, ready_at=ended)
    names = ["n0", *controls(before, {"n0", "n1"}, ["n0"])]
    plan = Running("p", "relieve", 0.0, loads=effect.loads_of(before, ["n0", "n1"]), parts=parts(before, names))
    return effect.judge(plan, [step], snapshot(loads, ended + 900.0 + LAG + STEP))


COURSES = {
    "rising": Course(rising),
    "ramped": Course(ramped),
    "ramping on": Course(ramping_on),
    "stepped": Course(stepped),
    "just stepped": Course(just_stepped),
    "falling": Course(falling),
    "waves": Course(waves),
    "steady": Course(steady),
    "steady while all rise": Course(steady, day=0.2),
    "slow to start": Course(steady, ready=600.0),
    "slow to start while rising": Course(rising, ready=600.0),
    "long to end": Course(steady, ends=2700.0, ready=600.0),
    "long to end while rising": Course(rising, ends=2700.0, ready=600.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COURSES)
def test_an_effect_that_came_never_stops_a_planner(name: str) -> None:
    verdicts = [judged(COURSES[name], 1.0, seed) for seed in range(100)]
    assert [verdict.ineffective for verdict in verdicts if verdict.ineffective or verdict.failed] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["steady", "waves", "steady while all rise", "slow to start", "falling"])
def test_an_effect_that_did_not_come_is_found(name: str) -> None:
    verdicts = [judged(COURSES[name], 0.0, seed) for seed in range(100)]
    assert sum(verdict.failed and ("n0", "cpu") in verdict.ineffective for verdict in verdicts) >= 95


@pytest.mark.slow
def test_the_interval_holds_the_truth() -> None:
    for truth in (0.0, 0.5, 1.0, 1.5):
        verdicts = [judged(COURSES["steady"], truth, seed) for seed in range(100)]
        held = [v for v in verdicts if v.share is not None and v.share.low <= truth <= v.share.high]
        assert len(held) >= 90


def test_a_small_cluster_without_untouched_nodes_is_judged_by_the_bends_of_its_own_load() -> None:
    course = COURSES["steady"]
    before = judged(course, 1.0, 1)
    assert before.share is not None
    random = np.random.default_rng(3)
    loads = np.array([smoothed(steady(TIMES) + random.normal(0, 0.005, len(TIMES)))])
    step = StepRecord("shop/web-1", "u", "n0", 0.0, None, load={"n0": {"cpu": -0.1}}, status=StepStatus.READY)
    first = snapshot(loads, 0.0)
    plan = Running("p", "relieve", 0.0, loads={"n0": {"cpu": 0.85}}, parts=parts(first, ["n0"]))
    verdict = effect.judge(plan, [step], snapshot(loads, 1200.0))
    assert verdict.share is not None
    assert verdict.failed


def test_untouched_nodes_of_like_load_are_compared_with() -> None:
    loads = np.linspace(0.1, 0.9, 60)[:, None] + np.zeros((60, len(TIMES)))
    names = controls(snapshot(loads, 0.0), {"n59", "n58"}, ["n59"])
    assert names == [f"n{i}" for i in range(57, 57 - CONTROLS, -1)]


def test_the_parts_of_a_window_follow_one_another() -> None:
    loads = TIMES[None] / 1e4 + 1.0
    shot = snapshot(loads, 0.0)
    [values] = parts(shot, ["n0", "gone"])["n0"].values()
    assert ages(shot).tolist() == [750.0, 450.0, 150.0]
    assert values == pytest.approx(1.0 - (ages(shot) - STEP / 2) / 1e4, abs=1e-5)


def test_the_quantiles_are_students() -> None:
    assert pytest.approx(stdtrit(np.arange(1, CONTROLS + 1), 0.975), rel=1e-8) == STUDENT
