from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ballast.actuation.eviction import effect
from ballast.actuation.eviction.evictor import ENOUGH, OVER, ApiErrors
from ballast.actuation.eviction.records import Running, StepRecord, StepStatus
from ballast.base.metrics import Metrics
from ballast.planners.eviction_plan import Move
from tests.worlds.clock import FakeClock
from tests.worlds.evicting import GIB, NODES, NOW, nodes, snapshot

ALL = {node.name: node for node in nodes()}
LOAD = {"n0": {"cpu": -0.1}, "n1": {"cpu": 0.1}}


def step(**more: Any) -> StepRecord:
    given: dict[str, Any] = {"uid": "u", "status": StepStatus.EVICTED, "target": "n1", "load": LOAD}
    return StepRecord(pod="shop/web-1", source="n0", time=NOW, **(given | more))


def test_a_move_takes_its_use_from_one_node_to_the_other() -> None:
    move = Move("shop/web-1", "n0", "n1", 0.1, "", "u", {"cpu": 2.0, "memory": 4 * GIB, "gpu": 0.25})
    assert effect.predicted(move, ALL) == {
        "n0": {"cpu": -0.2, "memory": -0.1, "gpu": -0.25},
        "n1": {"cpu": 0.2, "memory": 0.1, "gpu": 0.25},
    }


def test_what_is_not_known_is_not_predicted() -> None:
    assert effect.predicted(Move("a", "n0", None, 0.1, "", "u", {"cpu": float("nan")}), ALL) == {"n0": {}}
    assert effect.predicted(Move("a", "elsewhere", "n1", 0.1, "", "u", {}), ALL) == {"n1": {}}


def judged(*samples: float, predicted: float = -0.1, uses: float = 2.0) -> effect.EffectVerdict:
    """Of a pod that uses `uses` cores, and these samples of its replacement."""
    one = step(load={"n0": {"cpu": predicted}, "n1": {"cpu": -predicted}}, used={"cpu": uses})
    plan = Running("p", "rebalance", NOW, steps=(one,))
    after = snapshot(dict.fromkeys(NODES, 0.5), NOW + 1800)
    return effect.judge(plan, [one], after, lambda step: [{"cpu": sample} for sample in samples])


@pytest.mark.parametrize("part", [0.0, 0.2, 1.0, 2.5])
def test_the_share_is_what_the_replacement_uses_of_what_the_pod_did(part: float) -> None:
    verdict = judged(*[2.0 * part] * 5)
    half = 0.03 * part + 0.06 * abs(1 - part)
    assert verdict.share == pytest.approx((part, max(0, part - half), part + half), abs=1e-4)
    assert verdict.failed == (part < 0.5)
    assert verdict.of(step()).share == pytest.approx(part)


def test_without_a_sample_there_is_no_share() -> None:
    verdict = judged()
    assert (verdict.share, verdict.measured.share, verdict.failed) == (None, None, False)
    assert judged(1.0, uses=0.0).share is None


@given(st.lists(st.floats(0.0, 4.0), min_size=2, max_size=15), st.floats(0.01, 0.9))
def test_the_interval_holds_the_mean_and_is_as_wide_as_the_samples_are(samples: list[float], load: float) -> None:
    share = judged(*samples, predicted=-load).share
    assert share is not None
    assert share.value == pytest.approx(sum(samples) / len(samples) / 2, abs=1e-3)
    assert share.low <= share.value <= share.high
    assert not share.low or share.high - share.value == pytest.approx(share.value - share.low, abs=2e-4)


def test_one_sample_says_little() -> None:
    assert judged(0.4).share == pytest.approx((0.2, 0.0, 0.448))


def test_steps_count_by_what_they_were_to_move() -> None:
    """A large pod that came along outweighs a small one that did not, and each has its own share."""
    large = step(uid="a", load={"n0": {"cpu": -0.3}}, used={"cpu": 3.0})
    small = step(uid="b", load={"n0": {"cpu": -0.1}}, used={"cpu": 1.0})
    plan = Running("p", "relieve", NOW, steps=(large, small))
    uses = {"a": [{"cpu": 3.0}] * 4, "b": [{"cpu": 0.0}] * 4}
    after = snapshot(dict.fromkeys(NODES, 0.5), NOW + 1800)
    verdict = effect.judge(plan, plan.steps, after, lambda each: uses[each.uid])
    assert verdict.share is not None
    assert verdict.share.value == pytest.approx(0.09 / 0.1)
    assert not verdict.ineffective
    assert [verdict.of(each).share for each in plan.steps] == [1.0, 0.0]
    uses["a"] = [{"cpu": 0.3}] * 4
    verdict = effect.judge(plan, plan.steps, after, lambda each: uses[each.uid])
    assert verdict.ineffective.keys() == {("n0", "cpu")}


def pending(*steps: StepRecord, at: float = NOW) -> dict[str, dict[str, float]]:
    return effect.pending([Running("p", "rebalance", NOW, steps=steps)], at, 100.0, ALL)


def test_what_landed_elsewhere_counts_there_until_the_window_shows_it() -> None:
    unsteered = step(target=None, load={"n0": {"cpu": -0.1}}, used={"cpu": 1.0}, prefers="n2")
    assert pending(unsteered) == {"n0": {"cpu": -0.1}, "n2": {"cpu": 0.1}}
    landed = replace(unsteered, status=StepStatus.LANDED, landed_on="n3", landed_at=NOW)
    assert pending(landed) == {"n0": {"cpu": -0.1}, "n3": {"cpu": 0.1}}
    assert pending(landed, at=NOW + 25)["n3"]["cpu"] == pytest.approx(0.075)
    missed = step(used={"cpu": 1.0}, status=StepStatus.LANDED, landed_on="n3", landed_at=NOW)
    assert pending(missed) == {"n0": {"cpu": -0.1}, "n3": {"cpu": 0.1}}


def test_what_came_back_to_its_source_moved_nothing() -> None:
    assert pending(step(used={"cpu": 1.0}, status=StepStatus.LANDED, landed_on="n0", landed_at=NOW)) == {}


def test_what_was_moved_is_pending_until_the_window_shows_it() -> None:
    assert pending(step()) == LOAD
    landed = step(status=StepStatus.LANDED, landed_on="n1", gone_at=NOW, landed_at=NOW)
    assert pending(landed, at=NOW + 25)["n0"]["cpu"] == pytest.approx(-0.075)
    assert pending(landed, at=NOW + 100)["n0"]["cpu"] == 0.0


def test_what_did_not_happen_is_not_pending_nor_what_landed_elsewhere_on_the_target() -> None:
    assert pending(step(status=StepStatus.RECORDED), step(status=StepStatus.FAILED)) == {}
    elsewhere = step(status=StepStatus.READY, landed_on="n4", landed_at=NOW)
    assert pending(elsewhere) == {"n0": {"cpu": -0.1}}


def test_a_pod_that_is_still_ending_is_still_to_go_from_its_source() -> None:
    ending = step(status=StepStatus.READY, landed_on="n1", landed_at=NOW, ready_at=NOW)
    assert pending(ending, at=NOW + 600) == {"n0": {"cpu": -0.1}, "n1": {"cpu": 0.0}}
    gone = replace(ending, gone_at=NOW + 600)
    assert pending(gone, at=NOW + 625)["n0"]["cpu"] == pytest.approx(-0.075)


@given(st.floats(0, 1000))
def test_nothing_moved_is_ever_pending_more_than_once(after: float) -> None:
    landed = step(status=StepStatus.READY, landed_on="n1", landed_at=NOW)
    assert -0.1 <= pending(landed, at=NOW + after)["n0"]["cpu"] <= 0.0


def test_unknown_loads_are_left_out() -> None:
    loads = dict.fromkeys(NODES, 0.5) | {"n0": float("nan")}
    found = snapshot(loads, NOW)
    assert effect.loads_of(found, ["n0", "n1", "elsewhere"]) == {"n0": {}, "n1": {"cpu": 0.5, "memory": 0.5}}
    assert effect.mean_besides(found, ["n1"]) == {"cpu": 0.5, "memory": 0.5}


def test_the_share_of_errors_is_of_the_last_minutes() -> None:
    metrics, clock = Metrics(), FakeClock(NOW)
    errors = ApiErrors(metrics, clock)
    assert errors.share() == 0.0
    metrics.reads.labels("list", "ok").inc(ENOUGH)
    metrics.reads.labels("list", "500").inc(ENOUGH)
    metrics.writes.labels("node", "refused").inc(1000)
    metrics.writes.labels("eviction", "failed").inc(1000)
    assert errors.share() == 0.5
    clock.advance(OVER + 1)
    metrics.reads.labels("list", "ok").inc(ENOUGH)
    errors.share()
    clock.advance(OVER + 1)
    metrics.reads.labels("list", "ok").inc(ENOUGH)
    assert errors.share() == 0.0


def test_few_requests_say_nothing() -> None:
    metrics = Metrics()
    errors = ApiErrors(metrics, FakeClock(NOW))
    errors.share()
    metrics.reads.labels("list", "unreachable").inc(ENOUGH - 1)
    assert errors.share() == 0.0
