"""What keeps the code readable: one idea a file, one class per name. Ruff checks complexity and parameters."""

import re
from collections import Counter
from pathlib import Path

import ballast

ROOT = Path(ballast.__file__).parent
LINES = 600
CLASS = re.compile(r"^ *class (\w+)", re.MULTILINE)


def test_no_file_has_two_ideas() -> None:
    lengths = {str(file.relative_to(ROOT)): len(file.read_text().splitlines()) for file in ROOT.rglob("*.py")}
    assert {name: lines for name, lines in lengths.items() if lines > LINES} == {}


def test_a_class_name_stands_for_one_thing() -> None:
    forms = {"Node": 3, "Pod": 2, "Scores": 2}  # the model's or the core's, Kubernetes' and the API's
    counts = Counter(name for file in ROOT.rglob("*.py") for name in CLASS.findall(file.read_text()))
    assert {name: count for name, count in counts.items() if count > 1} == forms
