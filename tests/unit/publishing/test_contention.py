"""Another writer of our keys is recognised and named; what it wrote does not stay."""

import dataclasses
import json

import pytest

from ballast.base.metrics import Metrics
from ballast.cluster.conditions import Conditions
from ballast.publishing.contention import QUIET, LabelContention
from ballast.publishing.label_plan import PublishedKeys
from tests.worlds.clock import FakeClock

OURS = PublishedKeys("7", "low", '{"by":"a/ballast","v":1}', False)
THEIRS = PublishedKeys("3", "high", '{"by":"b/ballast","v":1}', False)
UIDS = {"n1": "u1", "n2": "u2"}


def manager(name: str) -> str:
    """Who wrote a node last, by its managedFields."""
    return "kubectl-edit"


def disturbed(*, times: int = 1, theirs: PublishedKeys = THEIRS, by: str = "kubectl-edit") -> LabelContention:
    """We write, they write over it, every 30 s from second 30 on."""
    contention = LabelContention("a/ballast", 1000.0, lambda name: by)
    for number in range(times):
        contention.begin(UIDS, 30.0 * (number + 1))
        contention.wrote("n1", "u1", OURS)
        contention.saw("n1", "u1", theirs, 30.0 * (number + 1))
    return contention


def test_the_first_foreign_write_makes_a_node_contended_for_ten_quiet_minutes() -> None:
    contention = disturbed()
    assert (contention.foreign(), contention.contended(30.0)) == ({"n1"}, {"n1"})
    said = contention.problem(30.0) or ""
    assert said.startswith("another writer (kubectl-edit) has changed"), "not the name that it claims"
    assert "on n1. What it wrote is put back" in said
    assert "BALLAST_PUBLISHING__LABEL_PREFIX=ballast.node-restriction.kubernetes.io" in said
    contention.wrote("n1", "u1", OURS)
    assert (contention.foreign(), contention.contended(30.0)) == (set(), {"n1"})
    assert contention.contended(30.0 + QUIET - 1) == {"n1"}
    assert contention.contended(30.0 + QUIET) == set()
    assert contention.problem(30.0 + QUIET) is None


def test_a_write_of_ours_whose_answer_was_lost_is_no_foreign_one() -> None:
    contention = LabelContention("a/ballast", 1000.0, lambda name: "ballast")
    contention.begin(UIDS, 30.0)
    contention.wrote("n1", "u1", OURS)
    lost = [dataclasses.replace(OURS, score=str(score), window=f'{{"by":"a/ballast","v":{score}}}') for score in (5, 6)]
    for each in lost:
        contention.tried("n1", each)
    contention.saw("n1", "u1", lost[1], 60.0)
    assert (contention.foreign(), contention.contended(60.0), contention.problem(60.0)) == (set(), set(), None)
    contention.saw("n1", "u1", dataclasses.replace(lost[1], score="9"), 90.0)
    assert contention.contended(90.0) == {"n1"}, "what nobody of us wrote is foreign all the same"


@pytest.mark.parametrize("before", [0, 1])
def test_a_write_of_ours_that_a_later_one_replaced_comes_back_by_another_alone(before: int) -> None:
    contention = LabelContention("a/ballast", 1000.0, lambda name: "ballast")
    contention.begin(UIDS, 30.0)
    contention.wrote("n1", "u1", OURS)
    lost = [
        dataclasses.replace(OURS, score=str(score), window=f'{{"by":"a/ballast","v":{score}}}') for score in range(3)
    ]
    for each in lost:
        contention.tried("n1", each)
    contention.saw("n1", "u1", lost[1], 60.0)
    contention.saw("n1", "u1", lost[2], 61.0)
    assert contention.contended(61.0) == set()
    contention.saw("n1", "u1", lost[before], 62.0)
    assert contention.contended(62.0) == {"n1"}


@pytest.mark.parametrize("times", [2, 3, 50])
def test_each_further_write_begins_the_ten_minutes_anew(times: int) -> None:
    contention = disturbed(times=times)
    assert contention.contended(30.0 * times + QUIET - 1) == {"n1"}
    assert contention.contended(30.0 * times + QUIET) == set()


def test_few_nodes_are_looked_up_in_a_round() -> None:
    asked = []
    contention = LabelContention("a/ballast", 150.0, lambda name: asked.append(name) or "kubelet")
    names = [f"n{number}" for number in range(50)]
    contention.begin(dict.fromkeys(names, ""), 1.0)
    for name in names:
        contention.wrote(name, "", OURS)
        contention.saw(name, "", THEIRS, 1.0)
    assert len(asked) == 5
    assert len(contention.foreign()) == len(contention.contended(1.0)) == 50


def test_a_change_that_stays_is_one_write() -> None:
    contention = disturbed()
    for now in (60.0, 90.0, 300.0):
        contention.begin(UIDS, now)
        contention.saw("n1", "u1", THEIRS, now)
    assert contention.contended(30.0 + QUIET) == set()
    assert contention.foreign() == {"n1"}, "but nobody has answered it"


def test_who_is_no_ballast_is_another_writer() -> None:
    contention = disturbed(theirs=dataclasses.replace(OURS, score=None, window="[["), by="")
    assert (contention.problem(30.0) or "").startswith("another writer has changed")


def test_a_node_created_again_and_a_time_as_standby_are_no_foreign_write() -> None:
    contention = disturbed()
    contention.begin({"n1": "another"}, 61.0)
    contention.saw("n1", "another", THEIRS, 61.0)
    assert contention.problem(61.0) is None
    contention = disturbed()
    contention.begin(UIDS, 1031.0)
    contention.saw("n1", "u1", THEIRS, 1031.0)
    assert contention.contended(1031.0) == set()


@pytest.mark.parametrize("taints", [False, True])
def test_a_new_leader_leaves_the_taint_of_a_contended_node_for_ten_minutes(taints: bool) -> None:
    contention = LabelContention("a/ballast", 1000.0, manager, taints=taints)
    tainted = dataclasses.replace(OURS, tainted=True)
    for now in (5.0, 35.0):
        contention.begin(UIDS, now)
        contention.saw("n1", "u1", tainted, now)
        contention.saw("n2", "u2", OURS, now)
    assert contention.contended(35.0) == (set() if taints else {"n1"}), "where overloaded nodes have it, load says"
    assert contention.contended(5.0 + QUIET) == set()


def test_a_second_ballast_that_writes_the_same_leaves_nodes_without_a_taint() -> None:
    agreeing = dataclasses.replace(OURS, window=THEIRS.window)
    assert disturbed(theirs=agreeing, by="ballast").contended(30.0) == set()
    assert disturbed(theirs=agreeing, by="kubelet").contended(30.0) == {"n1"}


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
