"""docs/benchmarks.md says what docs/benchmarks.json holds."""

from __future__ import annotations

import re

from ballast_lab.bench import book
from ballast_lab.bench.__main__ import TOPICS


def test_the_page_is_made_from_the_measurements() -> None:
    page = book.REPORT.read_text()
    machine = re.search(r"Measured on (.*?)\.\n\nCPU", page, re.DOTALL)
    assert machine is not None
    assert page == book.report(book.read(), TOPICS, machine[1])
