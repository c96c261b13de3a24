"""Pods behind the gate are planned together and let go, whatever happens to whom."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.daemon.batching import GATE, batching, create, cycle, found, gates, pod, seen
from tests.unit.daemon.rig import Rig, condition, metric, rig, until

WEB = [f"web-{number}" for number in range(5)]


@pytest.fixture
def calm(tmp_path: Path) -> Iterator[Rig]:
    with rig(tmp_path) as one:
        yield one


def test_pods_behind_the_gate_are_planned_and_bound(calm: Rig) -> None:
    daemon = batching(calm)
    create(calm, *map(pod, WEB))
    seen(daemon, *WEB)
    told = cycle(daemon)
    assert told.startswith("let 5 pods go")
    until(lambda: all((found(calm, name) or {})["spec"].get("nodeName") for name in WEB), "their nodes")
    assert [gates(calm, name) for name in WEB] == [[]] * 5
    until(lambda: cycle(daemon).startswith(f"no pod has the gate {GATE}"))
    assert metric(daemon, "ballast_batch_gated_pods") == 0
    assert len(daemon.extender.steering.standing()) == 0
