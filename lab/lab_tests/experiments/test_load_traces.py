import sys
from pathlib import Path

import numpy as np
import pytest

from ballast.base.errors import UsageError
from ballast_lab.experiments.load_traces import load_traces
from lab_tests.experiments.traces import percents, write_lines, write_planetlab

HEAD = "machine_id,time_stamp,cpu_util,mem_util"


def test_planetlab_has_a_part_for_each_day(tmp_path: Path) -> None:
    write_planetlab(tmp_path, nodes=3)
    write_planetlab(tmp_path, nodes=4).rename(tmp_path / "load" / "planetlab_20110309.csv.gz")
    write_planetlab(tmp_path, nodes=3)
    [trace], missing = load_traces(tmp_path)
    assert [part.shape for part in trace.parts] == [(3, 288), (4, 288)]
    assert trace.parts[0][1, 0] == percents(3)[1][0] / 100
    assert [each.partition(" ")[0] for each in missing] == ["Google", "Alibaba", "Bitbrains"]


def test_google_has_cpu_before_memory(tmp_path: Path) -> None:
    rows = percents(2, count=576)
    lines = ["job,cpu,memory", *(",".join([f"j{number}", *map(str, row)]) for number, row in enumerate(rows))]
    write_lines(tmp_path / "load" / "google2011_jobs.csv.gz", lines)
    [trace], _ = load_traces(tmp_path)
    assert trace.parts[0].tolist() == [[value / 100 for value in row[:288]] for row in rows]


def test_alibaba_is_the_mean_of_each_minute(tmp_path: Path) -> None:
    lines = [HEAD, "m_1,120,10,1", "m_1,140,20,1", "m_1,300,,1", "m_2,185,40,1", "m_2,185,60,1"]
    write_lines(tmp_path / "load" / "alibaba2018_machines.csv.gz", lines)
    [trace], _ = load_traces(tmp_path)
    assert trace.step == 60
    np.testing.assert_allclose(trace.parts[0], [[0.15, np.nan], [np.nan, 0.5]])


def test_bitbrains_holds_until_the_next_change(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    minute = 60_000
    rows = {
        "id": ["a", "a", "b", "b"],
        "timestamp": arrow.array([5 * minute, 15 * minute, 5 * minute, 15 * minute], arrow.timestamp("ms", "UTC")),
        "duration": [5 * minute, 10 * minute, 5 * minute, 5 * minute],
        "cpu_usage": [50.0, 100.0, 20.0, 40.0],
    }
    (tmp_path / "load").mkdir()
    parquet.write_table(arrow.table(rows), tmp_path / "load" / "bitbrains.parquet")
    about = arrow.table({"id": ["a", "b"], "cpu_capacity": [100.0, 200.0]})
    parquet.write_table(about, tmp_path / "load" / "bitbrains_meta.parquet")
    [trace], _ = load_traces(tmp_path)
    np.testing.assert_allclose(trace.parts[0], [[0.5, 1.0, 1.0], [0.1, np.nan, 0.2]])
    (tmp_path / "load" / "bitbrains.parquet").write_bytes(b"PAR1")
    with pytest.raises(UsageError, match=r"bitbrains.parquet: it cannot be read: .* Fetch it again"):
        load_traces(tmp_path)


def test_a_series_that_begins_again_is_named(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    times = [300_000, 600_000, 300_000, 600_000]
    rows = {
        "id": ["a"] * 4 + ["b"] * 4,
        "timestamp": arrow.array(times * 2, arrow.timestamp("ms", "UTC")),
        "duration": [300_000] * 8,
        "cpu_usage": [50.0] * 8,
    }
    (tmp_path / "load").mkdir()
    parquet.write_table(arrow.table(rows), tmp_path / "load" / "bitbrains.parquet")
    about = arrow.table({"id": ["a", "b"], "cpu_capacity": [100.0, 200.0]})
    parquet.write_table(about, tmp_path / "load" / "bitbrains_meta.parquet")
    with pytest.raises(UsageError, match=r"bitbrains.parquet: the times of a do not rise"):
        load_traces(tmp_path)


def test_without_pyarrow_bitbrains_is_left_out_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_planetlab(tmp_path)
    for name in ("bitbrains", "bitbrains_meta"):
        (tmp_path / "load" / f"{name}.parquet").touch()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    _, missing = load_traces(tmp_path)
    assert "pip install '.[experiments]'" in missing[-1]


@pytest.mark.parametrize(
    ("name", "lines", "message"),
    [
        ("planetlab_1", ["vm1,1,2,3"], r"line 1: it has 4 values; a name and 288 percents"),
        ("planetlab_1", ["vm1" + ",1" * 287 + ",x"], r"line 1: 'x' is no number from 0 on"),
        ("planetlab_1", ["vm1" + ",1" * 287 + ",-1"], r"line 1: '-1' is no number"),
        ("planetlab_1", [], r"fewer than two lines"),
        (
            "planetlab_1",
            ["vm1" + ",1" * 288, "vm2" + ",1" * 288, "vm1" + ",1" * 288],
            "line 3: vm1 is there a second time",
        ),
        ("google2011_jobs", ["job", "j" + ",1" * 576, "j" + ",1" * 576], "line 3: j is there a second time"),
        ("google2011_jobs", ["job", "j" + ",1" * 575], r"line 2: it has 576 values; a name and 576 percents"),
        ("alibaba2018_machines", ["machine,time,cpu"], "line 1: it should begin with machine_id"),
        ("alibaba2018_machines", [HEAD, "m_1,1"], "line 2: it has 2 values"),
        (
            "alibaba2018_machines",
            [HEAD, "m_1,60,1,1", "m_1,0,1,1"],
            "line 3: the time 0 of m_1 is before the one above",
        ),
        ("alibaba2018_machines", [HEAD, "m_1,60,1,1"], "fewer than two machines"),
    ],
)
def test_a_damaged_trace_is_named_with_its_line(tmp_path: Path, name: str, lines: list[str], message: str) -> None:
    write_lines(tmp_path / "load" / f"{name}.csv.gz", lines)
    with pytest.raises(UsageError, match=message):
        load_traces(tmp_path)


def test_a_truncated_file_is_named(tmp_path: Path) -> None:
    path = write_planetlab(tmp_path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UsageError, match=r"planetlab_20110303.csv.gz: it cannot be read: .* Fetch it again"):
        load_traces(tmp_path)


def test_no_trace_at_all(tmp_path: Path) -> None:
    (tmp_path / "load").mkdir()
    with pytest.raises(UsageError, match=r"no trace can be read. PlanetLab is left out"):
        load_traces(tmp_path)
