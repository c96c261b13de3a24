from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from ballast.scoring.in_flight import bound_since
from tests.unit.scoring.worlds import NOW, a_fleet, by_node, load, node, pod, scored, vectors

NODES = [node("a", {"cpu": "10", "memory": "10Gi"}), node("b", {"cpu": "10", "memory": "10Gi"})]
IDLE = load(a={"cpu": 10, "memory": 10}, b={"cpu": 10, "memory": 10})
SMALL = pod({"cpu": "100m", "memory": "64Mi"})


def bound(name: str, age: float, *containers: Any) -> Any:
    time = datetime.fromtimestamp(NOW - age, UTC).isoformat().replace("+00:00", "Z")
    return pod(*containers, name=name, on="a", scheduled=time)


def scores(strategy: str, mode: str, *placed: Any, **keys: Any) -> dict[str, int]:
    fleet = a_fleet(NODES, placed, IDLE)
    return by_node(fleet, scored(fleet, SMALL, strategy, in_flight=mode, **keys))


@pytest.mark.parametrize(("age", "counts"), [(-5, True), (0, True), (59, True), (60, False), (300, False)])
def test_upstream_counts_pods_bound_up_to_a_minute_before_the_window_ended(age: float, counts: bool) -> None:
    found = scores("target-load", "upstream", bound("p", age, {"cpu": "1"}))
    assert (found["a"] > found["b"]) == counts


def test_off_counts_none_and_full_counts_those_bound_since_the_window_ended() -> None:
    late, early = bound("late", -5, {"cpu": "1"}), bound("early", 5, {"cpu": "1"})
    assert len(set(scores("target-load", "off", late).values())) == 1
    assert len(set(scores("target-load", "full", early).values())) == 1
    assert len(set(scores("target-load", "full", late).values())) == 2


@pytest.mark.parametrize(("strategy", "keys"), [("load-variation", {}), ("low-risk", {"smoothing_window_size": 1})])
def test_full_lowers_the_score_of_a_node_that_just_got_pods(strategy: str, keys: dict[str, Any]) -> None:
    burst = [bound(f"p{i}", -5, {"limits": {"cpu": "2", "memory": "2Gi"}}) for i in range(4)]
    found = scores(strategy, "full", *burst, **keys)
    assert found["a"] < found["b"]
    if strategy == "load-variation":
        assert len(set(scores(strategy, "upstream", *burst).values())) == 1


def test_peaks_counts_them_too() -> None:
    model = {name: {"k0": 1, "k1": 10, "k2": 0.05} for name in "ab"}
    assert scores("peaks", "full", bound("p", -5, {"cpu": "2"}), node_power_model=model) == {"a": 0, "b": 100}


def test_a_pod_is_expected_to_use_its_limit_else_its_request_times_1_5_else_a_default() -> None:
    placed = [
        bound("limit", -1, {"requests": {"cpu": "1"}, "limits": {"cpu": "3"}}),
        bound("request", -1, {"cpu": "1"}),
        bound("nothing", -1, {}),
    ]
    fleet = a_fleet(NODES, placed, IDLE)
    assert bound_since(fleet, NOW, "cpu").tolist() == [3000 + 1500 + 1000, 0]
    assert bound_since(fleet, NOW, "memory").tolist() == [3 * 200 * 2**20, 0]


def test_measured_use_of_siblings_beats_any_guess() -> None:
    placed = bound("p", -1, {"requests": {"cpu": "1"}})
    placed["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}]
    fleet = a_fleet(NODES, [placed], IDLE)
    measured = replace(fleet, siblings={"u": {"cpu": 0.25}})
    assert bound_since(measured, NOW, "cpu").tolist() == [250, 0]


def test_waiting_and_finished_pods_are_not_in_flight() -> None:
    fleet = a_fleet(NODES, [bound("p", -1, {"cpu": "1"}), pod({"cpu": "1"}, name="waiting")], IDLE)
    done = tuple(msgspec.structs.replace(each, phase="Failed") for each in fleet.pods)
    assert bound_since(fleet, NOW, "cpu").tolist() == [1500, 0]
    assert bound_since(replace(fleet, pods=done), NOW, "cpu").tolist() == [0, 0]


@pytest.mark.parametrize(("inputs", "expected"), vectors("PodAssignEventHandler"))
def test_the_pods_that_upstream_keeps_are_those_that_count(inputs: Any, expected: Any) -> None:
    ages = {each["pod"]: each["age_s"] for each in inputs["cache"]} | {inputs.get("on_update_newly_bound", ""): 0}
    for name, age in ages.items():
        if name:
            seconds = NOW if age == "zero time" else age
            found = scores("target-load", "upstream", bound(name.lower(), seconds, {"cpu": "1"}))
            assert (found["a"] > found["b"]) == (name in expected["pods"]), name
