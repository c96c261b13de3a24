"""Every condition type has its series from the start, so that `absent` and rates over it mean something."""

from __future__ import annotations

import re
from pathlib import Path

import ballast
from ballast.cluster.conditions import HOLDS_AT_FIRST, TYPES, Conditions
from ballast.metrics import Metrics
from tests.fakes import FakeClock

SET = re.compile(r"""(?:conditions\.(?:set|report|say)|\bsay)\(\s*["']([A-Z]\w+)["']""")


def test_every_type_that_is_set_anywhere_is_listed() -> None:
    root = Path(ballast.__file__).parent
    found = {name for path in sorted(root.rglob("*.py")) for name in SET.findall(path.read_text(encoding="utf-8"))}
    assert found - set(TYPES) == set(), "add it to TYPES in cluster/conditions.py"
    assert tuple(sorted(TYPES)) == TYPES
    assert set(TYPES) >= HOLDS_AT_FIRST


def test_the_series_are_there_before_anything_happened() -> None:
    metrics = Metrics()
    conditions = Conditions(FakeClock(0.0), metrics)
    values = {name: metrics.registry.get_sample_value("ballast_condition", {"type": name}) for name in TYPES}
    assert values == {name: float(name in HOLDS_AT_FIRST) for name in TYPES}
    assert conditions.list() == ()
