"""Another writer of our keys is recognised, named, and left alone with the node."""

import dataclasses
import json

from ballast.base.metrics import Metrics
from ballast.cluster.conditions import Conditions
from ballast.publishing.contention import TIMES, WITHIN, LabelContention
from ballast.publishing.label_plan import PublishedKeys
from tests.worlds.clock import FakeClock

OURS = PublishedKeys("7", "low", '{"by":"a/ballast","v":1}', False)
THEIRS = PublishedKeys("3", "high", '{"by":"b/ballast","v":1}', False)
UIDS = {"n1": "u1", "n2": "u2"}


def fight(contention: LabelContention, times: int, *, every: float = 30.0, theirs: PublishedKeys = THEIRS) -> float:
    """We write, they write over it, so many times."""
    now = 0.0
    for _ in range(times):
        now += every
        contention.begin(UIDS, now)
        contention.wrote("n1", "u1", OURS)
        contention.saw("n1", theirs, now)
    return now


def test_three_foreign_changes_in_ten_minutes_are_a_fight() -> None:
    contention = LabelContention("a/ballast", 150.0)
    now = fight(contention, TIMES - 1)
    assert not contention.left_alone("n1", now)
    now = fight(contention, 1)
    assert contention.left_alone("n1", now)
    assert not contention.left_alone("n2", now)
    assert "another Ballast (b/ballast)" in (contention.problem(now) or "")
    assert "on n1;" in (contention.problem(now) or "")
    assert contention.left_alone("n1", now + WITHIN - 1)
    assert not contention.left_alone("n1", now + WITHIN)
    assert contention.problem(now + WITHIN) is None


def test_slower_changes_are_none() -> None:
    contention = LabelContention("a/ballast", 1000.0)
    now = fight(contention, 10, every=WITHIN / 2 + 1)
    assert not contention.left_alone("n1", now)


def test_a_change_that_stays_is_counted_once() -> None:
    contention = LabelContention("a/ballast", 150.0)
    contention.begin(UIDS, 0.0)
    contention.wrote("n1", "u1", OURS)
    for now in range(10):
        contention.begin(UIDS, float(now))
        contention.saw("n1", THEIRS, float(now))
    assert not contention.left_alone("n1", 10.0)


def test_who_is_no_ballast_is_another_writer() -> None:
    contention = LabelContention("a/ballast", 150.0)
    now = fight(contention, TIMES, theirs=dataclasses.replace(OURS, score=None, window="[["))
    assert (contention.problem(now) or "").startswith("another writer has changed")


def test_a_node_created_again_and_a_time_as_standby_are_no_fight() -> None:
    contention = LabelContention("a/ballast", 150.0)
    fight(contention, TIMES - 1)
    contention.begin({"n1": "another"}, 61.0)
    contention.saw("n1", THEIRS, 61.0)
    assert contention.problem(61.0) is None
    fight(contention, TIMES - 1)
    contention.begin(UIDS, 1000.0)
    contention.saw("n1", THEIRS, 1000.0)
    assert not contention.left_alone("n1", 1000.0)


def test_a_condition_holds_while_any_of_its_sources_holds_it() -> None:
    conditions = Conditions(FakeClock(), Metrics())
    conditions.report("Contended", "LabelsChanged", "labels", source="labels")
    conditions.set_status("Contended", False, "Resolved", "")
    [found] = conditions.list()
    assert (found.status, found.reason, found.message) == ("True", "LabelsChanged", "labels")
    conditions.set_status("Contended", True, "WrittenBack", "caps")
    assert conditions.list()[0].message == "labels; caps"
    conditions.report("Contended", "LabelsChanged", None, source="labels")
    assert conditions.list()[0].message == "caps"
    conditions.set_status("Contended", False, "Resolved", "")
    assert conditions.list()[0].status == "False"


def _written(by: str, end: str) -> PublishedKeys:
    return PublishedKeys("7", "low", json.dumps({"by": by, "end": end, "v": 1}, separators=(",", ":")), False)


def test_another_ballast_that_writes_the_same_is_found_by_its_identity() -> None:
    contention = LabelContention("a/ballast", 150.0)
    began = 1_700_000_000.0
    old, new = "2023-11-14T22:13:19Z", "2023-11-14T22:14:20Z"
    carried = {
        "n1": _written("a/ballast", new),
        "n2": _written("b/ballast", old),
        "n3": PublishedKeys(None, None, None, False),
        "n4": PublishedKeys("7", "low", "[[", False),
    }
    assert contention.others(carried, began) is None
    carried["n3"] = _written("b/ballast", new)
    assert "b/ballast has written n3. Stop one" in (contention.others(carried, began + 90) or "")
    contention.begin(UIDS, 1000.0)
    assert contention.others(carried, began + 1000) is None, "after a time as standby it begins anew"
