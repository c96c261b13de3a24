"""Drawn evictions: what is told of them is what their pods took along, whatever nodes do by themselves."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pytest

from ballast.actuation.eviction import effect
from ballast.actuation.eviction.records import Running, StepRecord, StepStatus
from ballast.actuation.eviction.replacement_use import ReplacementUse
from ballast.model.pod import Pod
from tests.worlds.evicting import NODES, NOW, snapshot

WINDOW, LAG, EVERY = 900.0, 120.0, 60.0
KINDS = ("steady", "spike ends", "rises", "waves", "idle on", "starts late", "moves nothing")
Use = Callable[[float], float]


class Told(NamedTuple):
    """One drawn eviction."""

    true: float
    verdict: effect.EffectVerdict


def use_of(kind: str, dice: np.random.Generator) -> Use:
    """Cores by seconds since the replacement was Ready, of a pod that used one."""
    wave, phase, end = dice.uniform(120, 1800), dice.uniform(0, 6.3), dice.uniform(0, 600)
    kept = dice.uniform(0.05, 0.4)
    return {
        "steady": lambda t: 1.0,
        "spike ends": lambda t: 1.0 if t < end else kept,
        "rises": lambda t: 0.6 + 1.2 * t / WINDOW,
        "waves": lambda t: 1.0 + 0.6 * np.sin(6.28 * t / wave + phase),
        "idle on": lambda t: 1.0 if (t + phase * 60) % 300 < 150 else 0.2,
        "starts late": lambda t: min(1.0, 0.3 + t / 600),
        "moves nothing": lambda t: kept / 2,
    }[kind]


def evicted(kind: str, seed: int) -> Told:
    dice = np.random.default_rng([seed, KINDS.index(kind)])
    use = use_of(kind, dice)
    load = {"n0": {"cpu": -dice.uniform(0.01, 0.3)}}
    step = StepRecord("s/web-1", "u", "n0", NOW - 60, used={"cpu": 1.0}, load=load, status=StepStatus.READY)
    ready = {"replacement": "r", "landed_on": "n1", "landed_at": NOW - 20, "ready_at": NOW}
    plan = Running("p", "rebalance", NOW - 60, steps=(StepRecord(**{**_fields(step), **ready}),))
    passed = 0.0

    def told(names: Sequence[str]) -> Mapping[str, Mapping[str, float]]:
        """A rate over LAG seconds, by a meter that errs by 2 %."""
        mean = np.mean([use(max(0.0, passed - back)) for back in np.arange(0, LAG, 5)])
        return {name: {"cpu": float(mean * dice.normal(1, 0.02))} for name in names}

    kept = ReplacementUse(told, WINDOW, LAG)
    first = dice.uniform(0, EVERY)
    for cycle in range(40):
        passed = first + cycle * EVERY
        kept.look([plan], [Pod("s", "web-2", uid="r", node="n1")], NOW + passed)
    # What the nodes show meanwhile has nothing to do with it.
    loads = dict(zip(NODES, dice.uniform(0, 1, len(NODES)).tolist(), strict=True))
    verdict = effect.judge(plan, plan.steps, snapshot(loads, NOW + WINDOW + LAG), kept.of)
    return Told(float(np.mean([use(t) for t in np.arange(0, WINDOW, 5)])), verdict)


def _fields(step: StepRecord) -> dict[str, object]:
    return {name: getattr(step, name) for name in step.__struct_fields__}


@pytest.fixture(scope="module")
def drawn() -> dict[str, list[Told]]:
    return {kind: [evicted(kind, seed) for seed in range(100)] for kind in KINDS}


def test_the_interval_holds_what_was_moved(drawn: dict[str, list[Told]]) -> None:
    for kind, found in drawn.items():
        shares = [told.verdict.share for told in found]
        held = [
            share is not None and share.low <= told.true <= share.high
            for told, share in zip(found, shares, strict=True)
        ]
        assert np.mean(held) >= 0.93, kind
        values = [share.value for share in shares if share is not None]
        assert np.mean(values) == pytest.approx(np.mean([told.true for told in found]), rel=0.1), kind


def test_what_moves_nothing_is_found_and_nothing_else(drawn: dict[str, list[Told]]) -> None:
    failed = {kind: [told.verdict.failed for told in found] for kind, found in drawn.items()}
    assert np.mean(failed["moves nothing"]) >= 0.95
    for kind, found in drawn.items():
        assert not any(told.verdict.failed and told.true >= effect.HALF for told in found), kind


def test_a_pod_of_another_name_and_a_pod_that_is_gone_give_no_sample() -> None:
    asked: list[Sequence[str]] = []

    def told(names: Sequence[str]) -> Mapping[str, Mapping[str, float]]:
        asked.append(names)
        return {"s/other": {"cpu": 1.0}}

    step = StepRecord("s/web-1", "u", "n0", NOW, replacement="r", ready_at=NOW, status=StepStatus.READY)
    plan, kept = Running("p", "rebalance", NOW, steps=(step,)), ReplacementUse(told, WINDOW, 0.0)
    kept.look([plan], [], NOW + 60)
    kept.look([plan], [Pod("s", "web-2", uid="r", node="n1")], NOW + 60)
    kept.look([plan], [Pod("s", "web-2", uid="r", node="n1")], NOW + WINDOW + 60)
    assert asked == [["s/web-2"]]
    assert not kept.of(step)
