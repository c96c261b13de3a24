"""A day in five-minute means: what is kept, what is forgotten, and how much memory it takes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.answers.views import NodeHistory
from ballast.model.snapshot import Snapshot
from ballast.serving.fleet_history import BINS, GONE, SLOTS, STEP, FleetHistory
from tests.unit.serving.client import ask
from tests.worlds.board import TIME, board_of, fleet, serving, snapshot

NAN = float("nan")
START = TIME - TIME % STEP
HIGH = {"cpu": 0.8}


def seen(history: FleetHistory, *snapshots: Snapshot, score: int | None = 50) -> FleetHistory:
    for each in snapshots:
        history.observe(each, {node.name: score for node in each.nodes}, HIGH)
    return history


@given(st.lists(st.tuples(st.integers(0, 900), st.one_of(st.just(NAN), st.floats(0, 1.2))), min_size=1, max_size=40))
def test_each_step_has_the_mean_of_what_was_known_in_it(samples: list[tuple[int, float]]) -> None:
    history, means = FleetHistory(), {}
    for at, load in sorted(samples, key=lambda each: each[0]):
        seen(history, snapshot([[load], [0.1]], names=["a"], time=START + 10.0 * at))
        means.setdefault(START + 10.0 * at // STEP * STEP, []).append(load)
    found = history.node("a")
    assert found is not None
    assert found.times == sorted(means)
    for time, load in zip(found.times, found.load["cpu"], strict=True):
        known = [each for each in means[time] if np.isfinite(each)]
        assert load == (pytest.approx(np.mean(known), abs=0.004) if known else None)
    assert set(found.load["memory"]) == {0.1}


def test_a_step_without_samples_is_not_there_and_older_ones_than_a_day_go() -> None:
    history = seen(
        FleetHistory(), *(snapshot([[0.5], [0.5]], time=START + STEP * step) for step in (0, 1, 5, SLOTS + 3))
    )
    found = history.node("node-0")
    assert found is not None
    assert found.times == [START + STEP * step for step in (5, SLOTS + 3)]
    assert history.spread().times == found.times
    assert history.at(START + STEP, ["node-0"]) is None


def test_a_clock_that_was_set_back_leaves_nothing_ahead() -> None:
    history = seen(FleetHistory(), *(snapshot([[0.5], [0.5]], time=START + STEP * step) for step in (0, 3, 1)))
    assert history.spread().times == [START, START + STEP]


def test_nodes_come_and_go_and_a_node_that_is_gone_is_still_told_of() -> None:
    history = seen(FleetHistory(), snapshot([[0.2, 0.4], [0.1, 0.1]], names=["a", "b"], time=START))
    seen(history, snapshot([[0.6, 0.8], [0.1, 0.1]], names=["b", "c"], time=START + STEP))
    found = {name: history.node(name) for name in "abc"}
    assert [each and each.load["cpu"] for each in found.values()] == [[0.2, None], [0.4, 0.6], [None, 0.8]]
    past = history.at(START + 1, ["c", "b", "nobody"])
    assert past is not None
    assert past[0] == START
    np.testing.assert_allclose(past[1]["cpu"], [NAN, 0.4, NAN])
    assert history.node("nobody") is None


def test_the_memory_is_bounded_and_a_smaller_one_keeps_fewer_hours() -> None:
    bound = 3 * 100 * 10
    history = FleetHistory(bound)
    for step in range(30):
        seen(history, snapshot(np.full((2, 100), step / 100).tolist(), time=START + STEP * step))
    assert history.slots == 10
    found = history.node("node-7")
    assert found is not None
    assert found.load["cpu"] == [step / 100 for step in range(20, 30)]
    assert len(history.spread().times) == 30
    more = seen(FleetHistory(bound), snapshot(np.full((2, 50), 0.5).tolist(), time=START))
    seen(more, snapshot(np.full((2, 100), 0.25).tolist(), time=START + STEP))
    assert more.slots == 10
    kept = more.node("node-7")
    assert kept is not None
    assert kept.load["cpu"] == [0.5, 0.25]


def test_five_thousand_nodes_take_a_few_megabytes() -> None:
    history = seen(FleetHistory(), fleet(5_000))
    assert history.slots == SLOTS
    assert history._ring.nbytes == 5_625 * 3 * SLOTS


@given(st.lists(st.lists(st.integers(0, 400), max_size=60, unique=True), max_size=25))
def test_of_nodes_that_are_gone_the_latest_are_kept_and_no_others(rounds: list[list[int]]) -> None:
    history, last = FleetHistory(), {}
    for step, there in enumerate(rounds):
        loads = [number / 1000 for number in there]
        names = [str(number) for number in there]
        seen(history, snapshot([loads, loads], names=names, time=START + STEP * step))
        last.update(dict.fromkeys(names, step))
        present = {name: history.node(name) for name in names}
        assert [each and each.load["cpu"][-1] for each in present.values()] == pytest.approx(loads, abs=0.003)
    known = sorted((name for name in last if history.node(name)), key=lambda name: last[name])
    assert len(known) >= min(len(last), GONE)
    assert {last[name] for name in last if name not in known} <= set(range(last[known[0]] + 1)) if known else not last


@pytest.mark.slow
def test_churn_of_a_day_takes_no_more_memory_than_that_of_an_hour() -> None:
    history, sizes, number = FleetHistory(), set(), 0
    stays = [f"stays-{each}" for each in range(1_000)]
    for step in range(SLOTS):
        number += 6
        names = [*stays, *(f"churn-{number + each}" for each in range(6))]
        seen(history, snapshot(np.full((2, len(names)), 0.5).tolist(), names=names, time=START + STEP * step))
        sizes.add((history._ring.nbytes, len(history._rows) <= 1_200))
    assert sizes == {(1_131 * 3 * SLOTS, True)}
    stays = history.node("stays-7")
    assert stays is not None
    assert len(stays.times) == SLOTS


def test_nodes_that_are_all_absent_for_a_moment_lose_nothing() -> None:
    names = [f"n-{each}" for each in range(300)]
    history = seen(FleetHistory(), snapshot(np.full((2, 300), 0.5).tolist(), names=names, time=START))
    seen(history, snapshot([[], []], names=[], time=START + STEP))
    seen(history, snapshot(np.full((2, 300), 0.5).tolist(), names=names[::-1], time=START + 2 * STEP))
    kept = [history.node(name) for name in names]
    assert all(node is not None and node.load["cpu"] == [0.5, None, 0.5] for node in kept)


def test_the_oldest_distribution_and_the_hot_nodes_are_kept() -> None:
    history = seen(FleetHistory(), snapshot([[0.02, 0.82, 1.4], [0.1, NAN, 0.1]], time=START))
    seen(history, snapshot([[0.5, 0.5, 0.5], [0.1, 0.1, 0.1]], time=START + STEP))
    time, bars = history.distributions() or (0.0, {})
    assert time == START
    assert [bars["cpu"][bar] for bar in (0, 16, BINS - 1)] == [1, 1, 1]
    assert sum(bars["memory"]) == 2
    assert history.spread().hot == [2, 0]
    assert history.spread().spread["cpu"][1] == 0.0


def test_more_than_a_day_comes_from_prometheus_where_it_is_there() -> None:
    board = board_of(snapshot([[0.5], [0.4]]))
    path = "/api/v1/nodes/node-0/history"
    with serving(board) as port:
        absent = ask(port, f"{path}?days=7")
        board.long_history = lambda node, days: NodeHistory(node, 1.0, [], {}, [days])
        assert ask(port, f"{path}?days=7").json["score"] == [7]
        assert ask(port, "/api/v1/nodes/nobody/history?days=7").status == 404
        assert {ask(port, f"{path}?days={text}").status for text in ("0", "91", "x", "-1", "%D9%A3", "")} == {400}
    assert absent.status == 404
    assert "does it scrape Ballast?" in absent.json["error"]


def test_the_line_of_balance_begins_with_the_first_value_in_steps_of_15_seconds() -> None:
    loads = [[0.9, 0.1], *([[0.6, 0.4]] * 11)]
    history = FleetHistory()
    for step, cpu in enumerate(loads):
        seen(history, snapshot([cpu, [0.5, 0.5]], time=START + 100 + 15.0 * step))
    line = history.spread()
    assert line.times[0] == START + 100
    assert line.times[1] - line.times[0] == 15
    assert line.spread["cpu"][0] == pytest.approx(0.4)
    assert line.spread["cpu"][-1] == pytest.approx(0.1)
    began, _ = history.distributions() or (0.0, {})
    assert began == START + 100
    for slot in range(1, SLOTS + 2):
        seen(history, snapshot([[0.6, 0.4], [0.5, 0.5]], time=START + STEP * slot + 10))
    assert len(history.spread().times) <= SLOTS + 1
