"""What is wrong now: causes first, with advice, and nothing that is as it should be."""

from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ballast.base.condition_types import CONDITION_TYPES, GOOD
from ballast.serving.overview import told, troubles


def condition(name: str, status: str = "True") -> dict[str, Any]:
    return {"type": name, "status": status, "reason": "Why", "message": "so", "lastTransitionTime": "2026-01-01"}


def test_causes_come_first_and_mild_ones_last() -> None:
    names = ["Limited", "EvictionsHalted", "PublishingFrozen", "OfTomorrow", "ClusterUnreachable"]
    found = troubles([condition(name) for name in names], leader=True)
    assert [each.type for each in found] == [
        "ClusterUnreachable",
        "PublishingFrozen",
        "EvictionsHalted",
        "OfTomorrow",
        "Limited",
    ]
    assert [each.rank for each in found] == ["outage", "outage", "partial", "partial", "tuning"]
    assert (found[0].title, found[0].message) == ("The Kubernetes API cannot be read", "so")
    assert found[0].since == "2026-01-01"
    assert (found[0].runbook or "").endswith("/docs/runbooks/ClusterUnreachable.md")
    assert "ballast doctor" in found[0].do
    assert (found[3].title, found[3].do, found[3].runbook) == ("OfTomorrow", "", None)


def test_a_follower_that_does_not_act_is_no_trouble() -> None:
    held = [condition("Active", "False"), condition("FeedAvailable", "False"), condition("ScheduleAvailable")]
    assert [each.type for each in troubles(held, leader=True)] == ["FeedAvailable", "Active"]
    assert [each.type for each in troubles(held, leader=False)] == ["FeedAvailable"]


@given(st.sets(st.sampled_from(sorted(CONDITION_TYPES))))
def test_what_is_as_it_should_be_is_left_out(names: set[str]) -> None:
    well = [condition(name, "True" if name in GOOD else "False") for name in names]
    badly = [condition(name, "False" if name in GOOD else "True") for name in names]
    assert troubles(well, leader=True) == []
    assert {each.type for each in troubles(badly, leader=True)} == names


def test_a_cause_comes_before_what_follows_from_it_whatever_their_ranks() -> None:
    held = [condition(name) for name in ("PublishingFrozen", "SeriesDiffer", "FallbackMissing", "TelemetryDegraded")]
    found = troubles(held, leader=True, own=[("CycleFailed", "telemetry failed: no answer")])
    assert [(each.type, each.rank) for each in found] == [
        ("TelemetryDegraded", "outage"),
        ("SeriesDiffer", "partial"),
        ("PublishingFrozen", "outage"),
        ("CycleFailed", "partial"),
        ("FallbackMissing", "tuning"),
    ]


def test_a_planner_that_stopped_is_wrong_and_a_rate_that_holds_is_a_hint() -> None:
    found = troubles([condition("RateUsedUp"), condition("PlannerStopped")], leader=True)
    assert [(each.type, each.rank) for each in found] == [("PlannerStopped", "partial"), ("RateUsedUp", "tuning")]


def test_what_is_wrong_is_told_with_its_age_and_the_next_line() -> None:
    begun = {**condition("EvictionsHalted"), "lastTransitionTime": "2026-11-29T10:00:00Z"}
    at = datetime(2026, 11, 29, 10, tzinfo=UTC).timestamp()
    found = troubles([begun, condition("RateUsedUp")], leader=True, own=[("CycleFailed", "no answer")])
    rows = told(found, at + 50, 30.0)
    assert (
        [row.type for row in rows] == [each.type for each in found] == ["EvictionsHalted", "CycleFailed", "RateUsedUp"]
    )
    assert [row.cause for row in rows] == [each.message for each in found]
    assert (rows[0].since, rows[0].tense) == (at, "begins")
    assert told(found, at + 61, 30.0)[0].tense == "holds"
    assert (rows[1].since, rows[1].tense) == (None, "holds")
    assert not any(mark in row.next for row in rows for mark in ("`", "]("))
    assert rows[2].next.endswith("docs/evictions.md.")
