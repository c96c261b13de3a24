"""Another writer of our keys is recognised and named; what it wrote does not stay."""

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


def manager(name: str) -> str:
    """Who wrote a node last, by its managedFields."""
    return "kubectl-edit"


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
    contention = LabelContention("a/ballast", 150.0, manager)
    now = fight(contention, TIMES - 1)
    assert not contention.withheld("n1", now)
    now = fight(contention, 1)
    assert contention.withheld("n1", now)
    assert not contention.withheld("n2", now)
    said = contention.problem(now) or ""
    assert said.startswith("another writer (kubectl-edit) has changed"), "not the name that it claims"
    assert "nothing is published on n1" in said
    assert contention.withheld("n1", now + WITHIN - 1)
    assert not contention.withheld("n1", now + WITHIN)
    assert contention.problem(now + WITHIN) is None


def test_one_change_is_told_for_a_while_and_is_foreign_until_it_is_answered() -> None:
    contention = LabelContention("a/ballast", 1000.0, manager)
    now = fight(contention, 1)
    assert contention.foreign(now) == {"n1": False}
    contention.wrote("n1", "u1", OURS)
    assert contention.foreign(now) == {}
    assert "on n1. A node" in (contention.problem(now) or "")
    assert contention.problem(now + WITHIN) is None


def test_a_fight_that_goes_on_is_withheld_as_long() -> None:
    contention = LabelContention("a/ballast", 1000.0, manager)
    now = fight(contention, TIMES)
    for _ in range(5):
        now += WITHIN - 1
        contention.begin(UIDS, now)
        contention.wrote("n1", "u1", OURS)
        contention.saw("n1", THEIRS, now)
        assert contention.foreign(now) == {"n1": True}
    contention.wrote("n1", "u1", OURS)
    assert contention.foreign(now + WITHIN) == {}


def test_few_nodes_are_looked_up_in_a_round() -> None:
    asked = []
    contention = LabelContention("a/ballast", 150.0, lambda name: asked.append(name) or "kubelet")
    names = [f"n{number}" for number in range(50)]
    contention.begin(dict.fromkeys(names, ""), 1.0)
    for name in names:
        contention.wrote(name, "", OURS)
        contention.saw(name, THEIRS, 1.0)
    assert len(asked) == 5
    assert len(contention.foreign(1.0)) == 50


def test_slower_changes_are_no_fight() -> None:
    contention = LabelContention("a/ballast", 1000.0, manager)
    now = fight(contention, 10, every=WITHIN / 2 + 1)
    assert not contention.withheld("n1", now)


def test_a_change_that_stays_is_counted_once() -> None:
    contention = LabelContention("a/ballast", 150.0, manager)
    contention.begin(UIDS, 0.0)
    contention.wrote("n1", "u1", OURS)
    for now in range(10):
        contention.begin(UIDS, float(now))
        contention.saw("n1", THEIRS, float(now))
    assert not contention.withheld("n1", 10.0)


def test_who_is_no_ballast_is_another_writer() -> None:
    contention = LabelContention("a/ballast", 150.0, manager)
    contention._writer = lambda name: ""
    now = fight(contention, TIMES, theirs=dataclasses.replace(OURS, score=None, window="[["))
    assert (contention.problem(now) or "").startswith("another writer has changed")


def test_a_node_created_again_and_a_time_as_standby_are_no_fight() -> None:
    contention = LabelContention("a/ballast", 150.0, manager)
    fight(contention, TIMES - 1)
    contention.begin({"n1": "another"}, 61.0)
    contention.saw("n1", THEIRS, 61.0)
    assert contention.problem(61.0) is None
    fight(contention, TIMES - 1)
    contention.begin(UIDS, 1000.0)
    contention.saw("n1", THEIRS, 1000.0)
    assert not contention.withheld("n1", 1000.0)


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


def test_another_ballast_that_writes_the_same_is_found_by_its_identity_and_field_manager() -> None:
    wrote = {"n3": "ballast"}
    contention = LabelContention("a/ballast", 150.0, lambda name: wrote[name])
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
    wrote["n3"] = "kubelet"
    assert contention.others(carried, began + 90) is not None, "the same annotation is looked up once"
    carried["n3"] = _written("c/ballast", new)
    assert contention.others(carried, began + 90) is None, "a claim, but the kubelet wrote it"
    contention.begin(UIDS, 1000.0)
    assert contention.others(carried, began + 1000) is None, "after a time as standby it begins anew"
