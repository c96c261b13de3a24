"""The closed loop: everybody sees the same pods, and what comes out is counted truly."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ballast.base.errors import UsageError
from ballast.cli.app import app
from ballast.settings import load as load_settings
from ballast_lab.experiments.load_traces import LoadTrace, load_traces
from ballast_lab.experiments.published import published
from ballast_lab.experiments.schedule.contestants import CONTESTANTS, Evicting, Labels, contestant
from ballast_lab.experiments.schedule.loop import CYCLE, EPOCH, Day, simulate
from ballast_lab.experiments.schedule.results import Plan, results
from ballast_lab.experiments.schedule.workloads import HOUR, Workload, combinations, days_of, draw

SERIES = np.random.default_rng(3).random((300, 288)) * 0.3
ROW = {"trace", "day", "seed", "fill", "requests", "arrivals", "contestant", "hot80", "hot90", "beyond", "sigma", "p99"}
ROW |= {"pods", "turned_away", "label_writes", "evictions"}


@pytest.mark.parametrize("models", list(combinations()), ids=lambda models: "-".join(models.values()))
def test_what_arrives_is_drawn_from_the_seed_and_stays_within_the_fill(models: dict[str, str]) -> None:
    one, same, other = (draw(SERIES, seed, fill=0.6, **models) for seed in (1, 1, 2))
    assert one.start.tolist() == same.start.tolist()
    assert one.start.tolist() != other.start.tolist()
    for time in np.arange(0, 24 * HOUR, HOUR):
        running = (one.start <= time) & (one.end > time)
        assert one.cpu[running].sum() <= 0.6 * one.nodes.cpu.sum() + 1e-6
    assert (np.diff(one.start) >= 0).all()
    if models["requests"] == "none":
        assert not one.cpu.any()


@pytest.mark.parametrize("name", CONTESTANTS)
def test_everybody_places_pods_only_where_they_fit(name: str) -> None:
    load = draw(SERIES, 1, fill=1.1, sharing="pools")
    day = Day(load)
    outcome = simulate(day, contestant(name)(day, 1), until=2 * HOUR)
    assert outcome.pods > 50
    placed = day.row >= 0
    assert (load.nodes.pool[day.row[placed]] == load.pool[placed]).all()
    assert (day.requested[0] <= load.nodes.cpu + 1e-6).all()
    assert (outcome.label_writes is None) == (name != "labels")


def test_hot_minutes_are_those_above_the_threshold() -> None:
    """One pod of 16 cores that uses 85 % of them is hot on its node of 14, half of the counted time."""
    series = np.full((1, 288), 0.85)
    series[:, : 288 // 2] = 0.0
    empty = draw(SERIES, 0)
    one = {name: getattr(empty, name)[:1] for name in ("row", "owner", "pool")}
    load = Workload(
        empty.nodes, series, np.zeros(1), np.full(1, 1e9), np.full(1, 16.0), one["row"] * 0, np.zeros(1, np.int64),
        np.ones(1), np.ones(1), one["owner"], one["pool"],
    )  # fmt: skip
    day = Day(load)
    outcome = simulate(day, contestant("stock")(day, 0))
    assert outcome.hot80 == pytest.approx(100 / 14 * (12 / 23), abs=0.05)
    assert outcome.hot90 == 0
    assert (outcome.beyond, outcome.turned_away, outcome.pods) == (0, 0, 1)
    assert round(24 * HOUR / CYCLE) == 2880


def test_evictions_leave_hot_nodes_within_the_limits_and_no_others() -> None:
    """Half of the series are at .9 from the third hour on."""
    series = np.full((300, 288), 0.2)
    series[::2, 36:96] = 0.9
    load = draw(series, 2, fill=0.85)
    day = Day(load)
    evicted: list[tuple[float, int, float]] = []

    class Watching(Evicting):
        def evict(self, time: float) -> Sequence[int]:
            pods = super().evict(time)
            evicted.extend((time, int(day.row[pod]), time - float(load.start[pod])) for pod in pods)
            return pods

    rule = Watching(day, load_settings({}))
    outcome = simulate(day, rule, until=5 * HOUR)
    assert 0 < outcome.evictions == len(evicted) <= 20
    for time, row, age in evicted:
        assert age >= 600
        assert not any(row == other and 0 < time - at < 600 for at, other, _ in evicted)
    assert len({(time, row) for time, row, _ in evicted}) == len(evicted)
    assert (day.requested[0] <= load.nodes.cpu + 1e-6).all()


@pytest.mark.slow
def test_the_same_seed_gives_the_same_rows_for_any_number_of_processes() -> None:
    trace = LoadTrace("Own", 300.0, (SERIES[:60],))
    plan = Plan((0,), (0.3,), ("stock", "default"))
    first, second = (results([trace], plan, jobs=jobs) for jobs in (1, 2))
    assert first.document() == second.document()
    rows = first.document()["rows"]
    assert [row["contestant"] for row in rows] == ["stock", "default"]
    assert set(rows[0]) >= ROW
    assert "| stock |" in first.table


def test_days_without_samples_are_left_out_and_holes_are_filled() -> None:
    load = np.vstack([SERIES[:5], np.full((1, 288), np.nan)])
    load[0, 10:20] = np.nan
    [(name, series)] = days_of(LoadTrace("Own", 300.0, (load,)))
    assert (name, series.shape) == ("0.0", (5, 288))
    assert np.isfinite(series).all()
    assert not list(days_of(LoadTrace("Short", 300.0, (SERIES[:, :100],))))


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        (Plan((0,), (0.85,), ("nobody",)), "--contestant nobody: choose one of random, stock"),
        (Plan((0,), (3.0,), ("stock",)), "--fill 3: give shares"),
        (Plan((0,), (0.85,), ("stock",), ("Mars",)), "--days Mars: there is no such day. Choose among Own, Own/0.0."),
    ],
)
def test_what_cannot_be_run_is_said(plan: Plan, why: str) -> None:
    with pytest.raises(UsageError, match=why.replace("(", r"\(")):
        results([LoadTrace("Own", 300.0, (SERIES[:5],))], plan)


def test_the_command_reads_folders_with_traces_of_other_names(tmp_path: Path) -> None:
    folder = tmp_path / "load"
    folder.mkdir()
    lines = [f"vm{row}," + ",".join(f"{100 * value:.2f}" for value in series) for row, series in enumerate(SERIES[:40])]
    (folder / "mine.csv").write_text("\n".join(lines) + "\n")
    (folder / "broken.csv").write_text("a,b\n1,2\n")
    out = tmp_path / "out"
    arguments = ["experiment", "schedule", "--data", str(tmp_path), "--out", str(out), "--seeds", "1", "--fill", "0.2"]
    found = CliRunner().invoke(app, [*arguments, "--contestant", "stock", "--jobs", "1"])
    assert found.exit_code == 0, found.output
    assert "broken.csv is left out" in found.output
    [row] = json.loads((out / "results.json").read_text())["rows"]
    assert (row["trace"], row["day"], row["contestant"]) == ("mine", "0.0", "stock")
    [trace], _ = load_traces(tmp_path)
    assert trace.parts[0].shape == (40, 288)


def test_a_label_keeps_the_order_of_steady_nodes() -> None:
    steady = np.repeat(np.linspace(0.05, 0.9, 20)[:, None], 60, axis=1)
    rows = published([LoadTrace("Own", 300.0, (steady,))])
    by_name = {row["name"]: row for row in rows if row["horizon"] == "1h"}
    assert list(by_name) == ["mean", "score", "label", "annotation"]
    assert by_name["mean"]["rho"] == 1
    assert by_name["annotation"]["rho"] == 1
    label = by_name["label"]
    assert isinstance(label["rho"], float)
    assert label["rho"] > 0.99
    assert (label["gain"], label["best_share"]) == (1, 0.05)
    writes = [row["writes_per_node_hour"] for row in rows]
    assert writes[:2] == [None, None]
    assert isinstance(writes[2], float)
    assert writes[2] < 0.5


def test_a_node_that_got_ten_pods_since_the_last_cycle_is_not_the_best_one() -> None:
    """Nodes of 16 cores that measure a tenth each, and the first a twentieth; ten pods of a core start there."""
    empty = draw(SERIES, 0)
    ten = {name: getattr(empty, name)[:10] * 0 for name in ("row", "owner", "pool", "shift")}
    load = Workload(
        empty.nodes, np.full((1, 288), 0.9), np.zeros(10), np.full(10, 1e9), np.ones(10), ten["row"], ten["shift"],
        np.ones(10), np.full(10, 2.0**30), ten["owner"], ten["pool"],
    )  # fmt: skip
    day = Day(load)
    measured = np.full((2, len(day.names)), 0.1)
    measured[:, 0] = 0.05
    day._samples = np.repeat(measured[None], 30, axis=0)
    labels = contestant("labels")(day, 0)
    assert isinstance(labels, Labels)

    def best(time: float) -> set[str]:
        labels.observe(day.snapshot(time))
        texts = {name: float(text) for name, text in labels.labels().items()}
        return {name for name, text in texts.items() if text == max(texts.values())}

    for cycle in range(40):
        before = best(cycle * CYCLE)
    assert before == {"n000"}
    for number in range(10):
        labels.bound(number, 0, EPOCH + 40 * CYCLE)
    assert "n000" not in best(41 * CYCLE)
