"""The leader's counts beside evictions, in `ballast-state`, through changes of leader."""

from ballast.cluster.ledger_book import SAVE_EVERY, UNCHANGED, LedgerBook, saved_ledger
from ballast.cluster.state import StateStore
from ballast.model.ledger import Ledger
from tests.worlds.clock import FakeClock
from tests.worlds.writing import WriterRig

AT = 1_700_000_000.0 // 3600 * 3600


class Replicas:
    """Several books over one `ballast-state`."""

    def __init__(self, now: float = AT + 1800) -> None:
        self.rig = WriterRig(modes={})
        self.clock = FakeClock()
        wall = FakeClock(wall=now)
        self.state = StateStore(self.rig.api, self.rig.writer, "ns", wall)  # type: ignore[arg-type]

    def book(self) -> LedgerBook:
        return LedgerBook(self.state, self.clock, gap=75)

    def saved(self) -> Ledger:
        return saved_ledger(self.state, self.state.read(), "ledger")


def hot(ledger: Ledger) -> float | None:
    return ledger.hours(AT + 1800)[-1].hot_node_minutes


def test_hot_minutes_that_a_dead_leader_did_not_save_are_those_that_its_successor_saw() -> None:
    replicas = Replicas()
    first, second = replicas.book(), replicas.book()
    for minute in range(10):
        for book in (first, second):
            book.observe(AT + 60 * minute, 2)
        if minute == 4:
            first.save()
    assert hot(replicas.saved()) == 8.0
    assert hot(second.current()) == 18.0
    second.observe(AT + 3000, 2)
    assert hot(second.current()) == 18.0, "nobody saw what was between"


def test_label_patches_are_counted_up_to_a_snapshot() -> None:
    replicas = Replicas()
    first = replicas.book()
    assert first.labels_until() is None
    first.add_labels(AT, 3)
    first.save()
    first.add_labels(AT + 30, 4)
    second = replicas.book()
    assert second.labels_until() == AT
    second.add_labels(AT + 30, 4)
    assert second.current().hours(AT + 60)[-1].label_writes == 7


def test_it_is_written_when_it_is_due() -> None:
    replicas = Replicas()
    book = replicas.book()
    book.observe(AT, 0)
    assert book.save() is not None
    assert book.save() is None
    book.add(AT, {"over_watt_hours": 1.0})
    assert book.save() is None
    replicas.clock.advance(SAVE_EVERY)
    assert book.save() is not None
    book.add_labels(AT, 1)
    assert book.save() is not None
    replicas.clock.advance(SAVE_EVERY)
    assert book.save() is None
    replicas.clock.advance(UNCHANGED)
    assert book.save() is not None


def test_what_was_counted_before_it_could_be_read_is_not_lost() -> None:
    replicas = Replicas()
    first = replicas.book()
    first.add_labels(AT, 3)
    first.save()
    book = replicas.book()
    book.add(AT, {"over_watt_hours": 2.5})
    [row] = book.current().hours(AT)
    assert (row.label_writes, row.over_watt_hours) == (3, 2.5)
    book.forget()
    assert book.current().hours(AT)[-1].over_watt_hours is None


def test_a_clock_that_was_ahead_does_not_stop_the_count() -> None:
    replicas = Replicas(now=AT)
    first = replicas.book()
    first.observe(AT + 1e6, 1)
    first.save()
    book = replicas.book()
    book.observe(AT, 3)
    book.observe(AT + 60, 3)
    assert hot(book.current()) == 3.0


def test_what_evictions_would_spare_counts_only_where_a_dry_run_told() -> None:
    book = Replicas().book()
    for minute, would in enumerate((None, 1, 1, 3, None)):
        book.observe(AT + 60 * minute, 2, would)
    row = book.current().hours(AT + 1800)[-1]
    assert (row.hot_node_minutes, row.would_spare_hot_node_minutes) == (8.0, 1.0 + 1.0 - 1.0)


def test_it_keeps_what_would_have_been_hot_without_the_moves() -> None:
    replicas = Replicas()
    book = replicas.book()
    for minute, without in enumerate((None, 5, 4)):
        book.observe(AT + 60 * minute, 2, without=without)
    row = book.current().hours(AT + 1800)[-1]
    assert (row.hot_node_minutes, row.hot_node_minutes_without) == (4.0, 9.0)


def test_what_was_hot_with_and_without_the_moves_is_of_the_same_time() -> None:
    """Else a day on which evictions began at noon, or a standby took over, would tell that moves made nodes hot."""
    book = Replicas().book()
    for minute, without in enumerate((None, None, None, 5, None, 4)):
        book.observe(AT + 60 * minute, 3, without=without)
    ledger = book.current()
    for row in (ledger.hours(AT + 1800)[-1], ledger.days(AT + 1800)[-1]):
        assert (row.hot_node_minutes, row.hot_node_minutes_without) == (15.0, 6.0 + 5.0 + 3.0 + 4.0)
