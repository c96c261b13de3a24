"""The experiment `power`: its tables, its rows and how public series are read."""

import gzip
import json
import sys
from pathlib import Path

import pytest

from ballast.base.errors import UsageError
from ballast.cli.main import main
from ballast_lab.experiments.power import day_ahead, days, idle, results, traces
from ballast_lab.experiments.power.contestants import CONTESTANTS
from ballast_lab.experiments.power.figures import ends, judged
from ballast_lab.experiments.power.signals import clouds, of_series, ramp, recorded


def test_the_published_model_loses_a_ramp_and_an_absolute_budget_follows_it() -> None:
    signal = ramp(20)
    found = {name: CONTESTANTS[name](signal).totals[-1] for name in ("published", "anchor", "absolute")}
    assert found == {"published": 40, "anchor": 8, "absolute": 7}


def test_rules_that_are_looked_up_now_and_then_are_over_in_between() -> None:
    signal = clouds(0)
    over = {name: judged(signal, CONTESTANTS[name](signal))["Wh over"] for name in ("clamp", "step caps", "absolute")}
    assert over["absolute"] < 20 < min(over["clamp"], over["step caps"])


def test_nodes_that_are_switched_off_leave_room_for_replicas() -> None:
    found = idle.lived(100)
    assert found["base unknown"][0] > 2
    assert found["base declared"][1] == 0
    assert found["empty nodes off"][0] <= 1
    assert found["empty nodes off"][1] >= 40


def test_the_composition_returns_after_days_and_nights() -> None:
    assert days.composition(days.WAYS["absolute"]) == {days.LARGE: 15, days.SMALL: 3}
    assert days.composition(days.WAYS["published"]) != {days.LARGE: 15, days.SMALL: 3}


def test_a_day_planned_ahead_keeps_its_volume_near_the_oracle() -> None:
    rows = [(900.0 * at, 300 + 100 * ((at // 4 * 7) % 24 - 12) / 12) for at in range(3 * 96)]
    figures = day_ahead.lived(rows)
    assert figures["even"]["grams"] > 1.1 * figures["oracle"]["grams"]
    planned = figures["planned ahead"]
    assert 0.98 * 60 <= planned["least"] <= planned["most"] <= 60.1
    assert planned["grams"] <= 1.03 * figures["oracle"]["grams"]


def test_the_page_shows_what_was_recorded_beside_what_comes_out() -> None:
    """The columns of numbers of the page's table, but for the composition, whose runs are not the recorded one."""
    page = Path(__file__).parents[3] / "measurements" / "experiments" / "power" / "text.in"
    lines = [[cell.strip() for cell in line.split("|")] for line in page.read_text(encoding="utf-8").splitlines()]
    shown = {(cells[1], cells[2]): tuple(cells[3:6]) for cells in lines if len(cells) == 8}
    figures = {"most watts": "replicas at most watts", "end": "replicas at the end"}
    for signal in (each for each in recorded() if each.published):
        ways = [ends(signal, CONTESTANTS[name](signal)) for name in ("published", "published, 30 %")]
        for short, figure in figures.items():
            told = (signal.published[figure], *(way[figure] for way in ways))
            assert shown[signal.name, short] == tuple(f"{number:g}" for number in told)
    after = days.composition(days.WAYS["published"])
    for short, name, start in (("large", days.LARGE, 15), ("small", days.SMALL, 3)):
        assert shown["composition", f"{short}, from {start}"][:2] == (
            f"{results.COMPOSITION[short]:g}",
            f"{after[name]}",
        )
    assert len([row for row in shown.values() if row[0].isdigit()]) == 12


def test_each_row_has_a_table_a_name_and_what_was_published(monkeypatch: pytest.MonkeyPatch) -> None:
    few = recorded()[2:3]
    monkeypatch.setattr(results.signals, "recorded", lambda seed: few)
    monkeypatch.setattr(results.signals, "disturbed", lambda: ())
    monkeypatch.setattr(results.signals, "clouds", lambda seed: of_series("short", 15, [100.0, 5000.0, 50.0]))
    monkeypatch.setattr(results, "RAMPS", (20.0,))
    monkeypatch.setattr(results, "_closed_loop", lambda: ([], ""))
    told = results.results(seeds=[0])
    rows = {(row["table"], row["name"]): row for row in told.document()["rows"]}
    last = rows["recorded signals", "full_cycle_ramp: published: replicas at the end"]
    assert last["published"] == 10
    assert rows["recorded signals", "full_cycle_ramp: absolute: rows over"]["measured"] == 0
    assert {table for table, _ in rows} >= {"ramps", "clouds", "idle power", "composition", "autoscaler"}
    assert "| full_cycle_ramp | 1 | absolute |" in told.table
    assert told.figures["power.svg"].startswith("<svg")
    json.dumps(told.document(), allow_nan=False)


def test_public_series_are_read_and_what_is_missing_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "power"
    folder.mkdir()
    with gzip.open(folder / "sun_greensboro_tmy3.csv.gz", "wt") as text:
        text.write("date,time,ghi_w_m2\n01/01/1988,01:00,0\n01/01/1988,02:00,500\n01/01/1988,03:00,1000\n")
    [sun], notes = traces.public_signals(tmp_path)
    assert [watts for _, watts in sun.rows] == [50, 625, 1250, 1875, 2500, 3125, 3750, 4375, 5000]
    assert "carbon" in notes[0]
    (folder / "sun_greensboro_tmy3.csv.gz").write_bytes(b"no gzip")
    with pytest.raises(UsageError, match="Fetch it again"):
        traces.public_signals(tmp_path)
    with pytest.raises(UsageError, match="no folder power"):
        traces.public_signals(tmp_path / "elsewhere")


def test_carbon_intensities_become_watts(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    folder = tmp_path / "power"
    folder.mkdir()
    parquet.write_table(arrow.table({"carbon_intensity": [50.0, 350.0, 700.0]}), folder / "carbon-2022-DE.parquet")
    [carbon], _ = traces.public_signals(tmp_path)
    assert [watts for _, watts in carbon.rows] == [50, 5000, 2500, 0]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["01/01/1988,01:00,0", "01/01/1988,02:00,5", "01/01/1988,01:00,0"], "an hour is there twice"),
        ([], "two hours"),
        (["01/01/1988,01:00,0", "01/01/1988,02:00,0"], "some sun"),
        (["01/01/1988,01:00,0", "01/01/1988,02:00,nan"], "numbers from 0 on"),
        (["01/01/1988,01:00,0", "01/01/1988,02:00"], "Fetch it again"),
    ],
    ids=["begins again", "empty", "dark", "no number", "cut off"],
)
def test_a_damaged_year_of_sun_is_named(tmp_path: Path, lines: list[str], message: str) -> None:
    folder = tmp_path / "power"
    folder.mkdir()
    with gzip.open(folder / "sun_greensboro_tmy3.csv.gz", "wt") as text:
        text.write("\n".join(["date,time,ghi_w_m2", *lines]))
    with pytest.raises(UsageError, match=message):
        traces.public_signals(tmp_path)


@pytest.mark.parametrize(
    ("times", "values", "message"),
    [
        ([0, 900, 0, 900], [1.0, 2.0, 1.0, 2.0], "its times do not rise"),
        ([0], [1.0], "two numbers or more"),
        ([0, 900], [1.0, None], "two numbers or more"),
        ([0, 900], ["a", "b"], "two numbers or more"),
    ],
    ids=["begins again", "too short", "a gap", "words"],
)
def test_damaged_carbon_intensities_are_named(
    tmp_path: Path, times: list[int], values: list[object], message: str
) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    (tmp_path / "power").mkdir()
    table = arrow.table({"timestamp": arrow.array(times, arrow.timestamp("s")), "carbon_intensity": values})
    parquet.write_table(table, tmp_path / "power" / "carbon-2022-DE.parquet")
    with pytest.raises(UsageError, match=message):
        traces.public_signals(tmp_path)


def test_the_command_refuses_what_it_cannot_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["ballast", "experiment", "power", "--data", str(tmp_path)])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert "there is no folder power in it" in capsys.readouterr().err
