from __future__ import annotations

from ballast.placement.assumptions import MOST_UNSEEN, UNSEEN_FOR, Assumptions


def test_a_decision_counts_until_its_time_is_over() -> None:
    ledger = Assumptions(30.0)
    assert ledger.assume("a", "n1", 100.0, seen=True)
    assert ledger.expire(129.9) == []
    assert [(each.uid, each.node) for each in ledger.expire(130.0)] == [("a", "n1")]
    assert len(ledger) == 0


def test_a_pod_has_one_decision_the_last_one() -> None:
    ledger = Assumptions(30.0)
    ledger.assume("a", "n1", 100.0, seen=True)
    ledger.assume("a", "n2", 110.0, seen=True)
    assert len(ledger) == 1
    assert ledger.expire(131.0) == []
    assert [each.node for each in ledger.expire(140.0)] == ["n2"]


def test_a_pod_the_watch_has_not_shown_counts_for_a_few_seconds() -> None:
    ledger = Assumptions(30.0)
    ledger.assume("a", "n1", 100.0, seen=False)
    assert len(ledger.expire(100.0 + UNSEEN_FOR)) == 1


def test_once_the_watch_shows_it_it_counts_as_any_other() -> None:
    ledger = Assumptions(30.0)
    ledger.assume("a", "n1", 100.0, seen=False)
    ledger.saw("a", 102.0)
    ledger.saw("b", 102.0)
    assert ledger.expire(131.9) == []
    assert len(ledger.expire(132.0)) == 1


def test_decisions_about_pods_that_may_not_exist_are_bounded() -> None:
    ledger = Assumptions(30.0)
    taken = [ledger.assume(f"u{i}", "n1", 100.0, seen=False) for i in range(MOST_UNSEEN + 5)]
    assert sum(taken) == len(ledger) == MOST_UNSEEN
    assert ledger.assume("real", "n1", 100.0, seen=True)
    ledger.drop("u0")
    assert ledger.assume("another", "n1", 100.0, seen=False)


def test_a_short_deadline_is_not_lengthened_for_unseen_pods() -> None:
    ledger = Assumptions(2.0)
    ledger.assume("a", "n1", 100.0, seen=False)
    assert len(ledger.expire(102.0)) == 1


def test_many_retries_do_not_pile_up() -> None:
    ledger = Assumptions(30.0)
    for i in range(20_000):
        ledger.assume("a", "n1", float(i) / 1000, seen=True)
    assert len(ledger._deadlines) < 5_000
    assert len(ledger.expire(100.0)) == 1
