"""What is wrong now: causes first, with advice, and nothing that is as it should be."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.answers.api import Headline, SnapshotSummary, Status, Wrong
from ballast.base.condition_types import CONDITION_TYPES, GOOD
from ballast.serving.overview import headline, told, troubles


def condition(name: str, status: str = "True") -> dict[str, Any]:
    return {"type": name, "status": status, "reason": "Why", "message": "so", "lastTransitionTime": "2026-01-01"}


def status(time: float = 0.0, *conditions: dict[str, Any], known: int = 3, **more: Any) -> Status:
    seen = SnapshotSummary(time, 5.0, ["5m"], 4, known, 0, 0, 0, 4 - known, 0, {})
    given = {
        "version": "1",
        "time": time,
        "leader": True,
        "ready": True,
        "frozen": False,
        "current": True,
        "modes": {"publishing": "on", "eviction": "dry-run"},
        "planners": {},
        "paused": {"publishing": None, "eviction": None},
        "interval": "30s",
        "snapshot": seen,
        "jobs": [],
        "conditions": conditions,
        "troubles": [],
        "wrong": [],
    }
    return Status(**given | more)


def row(rank: Any = "outage", tense: Any = "holds", since: float | None = 7.0) -> Wrong:
    return Wrong("TelemetryDegraded", rank, "Queries fail", "no answer", since, tense, "Ask it")


@pytest.mark.parametrize(
    ("one", "wrong", "hot", "word", "kind", "since"),
    [
        (status(snapshot=None), [row()], 0, "No data yet", "warn", None),
        (status(9.0), [], 0, "All well", "ok", None),
        (status(9.0), [], 2, "2 hot", "warn", None),
        (status(9.0), [row("tuning")], 0, "All well", "ok", None),
        (status(9.0), [row("partial")], 0, "Look", "warn", 7.0),
        (status(9.0), [row("partial")], 2, "2 hot", "warn", None),
        (status(9.0), [row()], 2, "Trouble", "bad", 7.0),
        (status(9.0), [row(tense="recovering")], 0, "All well", "ok", None),
        (status(9.0, current=False), [], 2, "Blind", "bad", 9.0),
        (status(9.0, frozen=True), [row("partial"), row()], 2, "Blind", "bad", 7.0),
        (status(9.0, known=0), [], 0, "Blind", "bad", None),
        (status(9.0, paused={"publishing": "a switch", "eviction": None}), [], 2, "Paused", "warn", None),
        (status(9.0, paused={"publishing": None, "eviction": "a switch"}), [], 0, "All well", "ok", None),
        (status(9.0, leader=False), [], 0, "Standby", "ok", None),
    ],
)
def test_one_word_says_how_it_stands(
    one: Status, wrong: list[Wrong], hot: int, word: str, kind: str, since: float | None
) -> None:
    assert headline(one, wrong, hot) == Headline(word, kind, since)  # type: ignore[arg-type]


@pytest.mark.parametrize(("frozen", "reason"), [(False, "NodesSilent"), (True, "NodesSilent"), (False, "NotSafeNow")])
def test_what_is_over_is_not_told_in_the_present(frozen: bool, reason: str) -> None:
    """Evictions judge once in their interval; telemetry knows at once that nodes are back."""
    held = condition("EvictionsHalted") | {"reason": reason, "message": "too many nodes are silent"}
    found = troubles([held], leader=True)
    [told_now] = told(found, status(1e9, held, frozen=frozen), 30.0)
    if frozen or reason == "NotSafeNow":
        assert (told_now.cause, told_now.tense != "recovering") == ("too many nodes are silent", True)
    else:
        assert told_now.tense == "recovering"
        assert told_now.cause == "3 of 4 nodes are known again; evictions go on with their next cycle"


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
    rows = told(found, status(at + 50), 30.0)
    assert (
        [row.type for row in rows] == [each.type for each in found] == ["EvictionsHalted", "CycleFailed", "RateUsedUp"]
    )
    assert [row.cause for row in rows] == [each.message for each in found]
    assert (rows[0].since, rows[0].tense) == (at, "begins")
    assert told(found, status(at + 61), 30.0)[0].tense == "holds"
    assert (rows[1].since, rows[1].tense) == (None, "holds")
    assert not any(mark in row.next for row in rows for mark in ("`", "]("))
    assert rows[2].next.endswith("docs/evictions.md.")
