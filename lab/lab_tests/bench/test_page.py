"""measurements/benchmarks.md can be read back, so that one topic can be measured again without the others."""

import re
from pathlib import Path

import pytest

from ballast_lab.bench import book
from ballast_lab.bench.__main__ import TOPICS
from ballast_lab.bench.rows import Row

PAGE = book.REPORT.read_text()


def test_the_page_is_made_from_the_measurements() -> None:
    machine = re.search(r"Measured on (.*?)\.\n\nCPU", PAGE, re.DOTALL)
    assert machine is not None
    assert book.report(book.read(PAGE, TOPICS), TOPICS, machine[1]) == PAGE


def test_every_measurement_is_read_back() -> None:
    topics = book.read(PAGE, TOPICS)
    assert list(topics) == [name for name, heading in TOPICS.items() if f"\n## {heading}\n" in PAGE]
    rows = [row for measured in topics.values() for row in measured["rows"]]
    assert sum("peer" in row for row in rows) == len(PAGE.partition(book.PEERS)[2].splitlines()) - 3
    assert all(measured["rows"] and measured["note"] for measured in topics.values())


def test_a_topic_is_renewed_and_the_others_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book, "REPORT", tmp_path / "benchmarks.md")
    book.REPORT.write_text(PAGE)
    rows = [Row(what="a", at="1 | 2", reach="3", measured="4", peer="5", ratio="6")]
    book.write_down("windows", rows, 0.25, TOPICS)
    before, after = book.read(PAGE, TOPICS), book.read(book.REPORT.read_text(), TOPICS)
    assert after.pop("windows")["rows"] == [rows[0] | {"at": "1 / 2"}]
    del before["windows"]
    assert after == before
