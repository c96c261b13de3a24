from ballast.placement.assumed_pods import MOST_UNSEEN, UNSEEN_FOR, Assumptions, Decision, UnseenDecisions


def test_a_decision_counts_until_its_time_is_over() -> None:
    ledger = Assumptions(30.0)
    ledger.assume("a", "n1", 100.0)
    assert ledger.expire(129.9) == []
    assert [(each.uid, each.node) for each in ledger.expire(130.0)] == [("a", "n1")]
    assert len(ledger) == 0


def test_a_pod_has_one_decision_the_last_one() -> None:
    ledger = Assumptions(30.0)
    ledger.assume("a", "n1", 100.0)
    ledger.assume("a", "n2", 110.0)
    assert len(ledger) == 1
    assert ledger.expire(131.0) == []
    assert [each.node for each in ledger.expire(140.0)] == ["n2"]


def test_a_decision_about_an_unseen_pod_is_kept_for_a_few_seconds() -> None:
    unseen = UnseenDecisions()
    unseen.keep("a", "n1", 100.0)
    unseen.keep("a", "n2", 101.0)
    unseen.keep("b", "n1", 101.0)
    assert unseen.node("a", 101.0) == "n2"
    assert unseen.take("a", 101.0 + UNSEEN_FOR - 0.1) == Decision("a", "n2", 101.0 + UNSEEN_FOR)
    assert unseen.take("a", 101.0) is None
    assert unseen.take("b", 101.0 + UNSEEN_FOR) is None
    assert not unseen.uids(101.0)
    unseen.keep("c", "n1", 102.0)
    assert (len(unseen.uids(102.0)), len(unseen.uids(102.0 + UNSEEN_FOR))) == (1, 0)


def test_decisions_about_pods_that_may_not_exist_are_bounded() -> None:
    unseen = UnseenDecisions()
    for number in range(MOST_UNSEEN + 5):
        unseen.keep(f"u{number}", "n1", 100.0)
    assert len(unseen.uids(100.0)) == MOST_UNSEEN
    assert unseen.take("u4", 100.0) is None
    assert unseen.take("u5", 100.0) is not None


def test_many_retries_do_not_pile_up() -> None:
    ledger = Assumptions(30.0)
    for i in range(20_000):
        ledger.assume("a", "n1", float(i) / 1000)
    assert len(ledger._deadlines) < 5_000
    assert len(ledger.expire(100.0)) == 1
