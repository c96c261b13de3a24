from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from ballast.base.errors import UsageError
from ballast.scoring import crane
from ballast.scoring.strategy import strategy
from tests.unit.scoring.worlds import NOW, a_fleet, load, node, pod, scored

SHANGHAI = timezone(timedelta(hours=8))
SPEC: dict[str, Any] = {
    "syncPolicy": [
        {"name": "cpu_usage_avg_5m", "period": "3m"},
        {"name": "mem_usage_avg_5m", "period": "3m"},
        {"name": "cpu_usage_max_avg_1d", "period": "3h"},
    ],
    "predicate": [{"name": "cpu_usage_avg_5m", "maxLimitPecent": 0.65}],
    "priority": [
        {"name": "cpu_usage_avg_5m", "weight": 0.2},
        {"name": "mem_usage_avg_5m", "weight": 0.3},
        {"name": "cpu_usage_max_avg_1d", "weight": 0.5},
    ],
    "hotValue": [{"timeRange": "5m", "count": 5}, {"timeRange": "1m", "count": 2}],
}
POLICY = {"apiVersion": "scheduler.policy.crane.io/v1alpha1", "kind": "DynamicSchedulerPolicy", "spec": SPEC}


def stamp(ago: float, zone: Any = SHANGHAI) -> str:
    return datetime.fromtimestamp(NOW - ago, zone).strftime(crane.STAMP)


def points(annotations: dict[str, str], **keys: Any) -> tuple[int, bool]:
    fleet = a_fleet([node("n", {"cpu": "1"}, annotations=annotations)], (), load())
    found = scored(fleet, pod({}), "dynamic", policy=POLICY, **keys)
    return int(found.scores[0]), bool(found.unknown[0])


FRESH = {
    "cpu_usage_avg_5m": f"0.30000,{stamp(10)}",
    "mem_usage_avg_5m": f"0.50000,{stamp(10)}",
    "cpu_usage_max_avg_1d": f"0.61000,{stamp(10)}",
}


def test_the_weighted_mean_of_what_is_free_is_cut() -> None:
    assert points(FRESH) == (int((0.7 * 0.2 + 0.5 * 0.3 + 0.39 * 0.5) * 100), False)


def test_a_hot_node_loses_ten_points_a_unit_down_to_zero() -> None:
    assert points(FRESH | {"node_hot_value": f"2,{stamp(10)}"}) == (28, False)
    assert points(FRESH | {"node_hot_value": f"9,{stamp(10)}"}) == (0, False)
    assert points(FRESH | {"node_hot_value": f"2,{stamp(300)}"}) == (48, False)


def test_a_metric_that_is_missing_adds_nothing_and_keeps_its_weight() -> None:
    assert points({key: FRESH[key] for key in ("cpu_usage_avg_5m", "mem_usage_avg_5m")}) == (29, False)


def test_without_any_fresh_metric_a_node_is_unknown_and_scores_zero() -> None:
    assert points({}) == (0, True)
    assert points({"cpu_usage_avg_5m": f"0.1,{stamp(480)}"}) == (0, True)
    assert points({"cpu_usage_avg_5m": f"0.1,{stamp(479)}"}) == (18, False)


@pytest.mark.parametrize(
    "text", ["0.5", "0.5,", "0.5,1,2", "NaN,{}", "+Inf,{}", "-0.1,{}", "half,{}", "1e999,{}", "0.5,12:00", ",{}"]
)
def test_what_cannot_be_read_is_missing(text: str) -> None:
    assert crane.read(text.format(stamp(0)), 60.0, NOW, SHANGHAI) is None


def test_a_value_above_1_is_read_and_scores_no_less_than_zero() -> None:
    assert points(dict.fromkeys(FRESH, f"1.50000,{stamp(0)}")) == (0, False)


def test_stamps_are_the_wall_clock_of_a_time_zone() -> None:
    utc = {key: f"{value.split(',')[0]},{stamp(10, UTC)}" for key, value in FRESH.items()}
    assert points(utc, timezone="UTC") == points(FRESH)
    assert points(utc) == (0, True)


def test_the_spec_alone_is_a_policy_too() -> None:
    assert crane.parse_policy(SPEC) == crane.parse_policy(POLICY)
    assert crane.parse_policy(SPEC).hot == ((300.0, 5), (60.0, 2))
    assert crane.parse_policy(SPEC).periods["cpu_usage_max_avg_1d"] == 10_800.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hotValue": [{"timeRange": "5m", "count": 0}]}, "hotValue: count cannot be 0"),
        ({"hotValue": [{"timeRange": "5m"}]}, "count cannot be None"),
        ({"hotValue": [{"timeRange": "soon", "count": 1}]}, "timeRange cannot be 'soon'"),
        ({"priority": [{"name": "cpu_usage_avg_5m", "weight": 0}]}, "weights sum to 0"),
        ({"priority": []}, "weights sum to 0"),
        ({"priority": [{"name": "cpu_usage_avg_5m", "weight": -1}]}, "weight cannot be -1"),
        ({"priority": [{"name": "cpu_usage_avg_5m", "weight": 1e308}]}, "weight cannot be 1e[+]308"),
        ({"priority": [{"name": "other", "weight": 1}]}, "other has no entry in syncPolicy"),
        ({"predicate": [{"name": "other", "maxLimitPecent": 1}]}, "other has no entry in syncPolicy"),
        ({"syncPolicy": [{"name": "a", "period": "3m"}, {"name": "a", "period": "3m"}]}, "a is given twice"),
        ({"syncPolicy": [{"name": "a", "period": "0s"}]}, "above 0"),
        ({"syncPolicy": [{"period": "3m"}]}, "no name"),
        ({"syncPolicy": "all"}, "list of objects"),
    ],
)
def test_a_policy_that_upstream_would_trip_over_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        strategy("dynamic", {"policy": {"spec": SPEC | change}})


@pytest.mark.parametrize("keys", [{}, {"policy": 3}, {"policy": POLICY, "timezone": "Mars/Olympus"}])
def test_a_missing_policy_or_unknown_time_zone_is_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"policy|timezone"):
        strategy("dynamic", keys)
