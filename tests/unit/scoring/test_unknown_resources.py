"""Pods that ask for resources of any name: they fit nowhere, and leave nothing behind."""

import numpy as np
import pytest

from tests.unit.scoring.worlds import a_fleet, a_pod, node, pod, scored

NODES = [node(name, {"cpu": "4", "memory": "8Gi", "pods": "110"}) for name in "ab"]


def test_a_resource_that_no_node_has_fits_nowhere() -> None:
    found = scored(a_fleet(NODES), pod({"cpu": "1", "example.com/none": "1"}), "dominant-residual")
    assert found.scores.tolist() == [0, 0]
    assert np.isnan(found.raw).all()
    assert set(found.terms) == {"dominant", "loss"}


@pytest.mark.parametrize("strategy", ["dominant-residual", "blend", "least-allocated", "most-allocated", "balanced"])
def test_nothing_is_kept_of_names_that_no_node_has(strategy: str) -> None:
    fleet = a_fleet(NODES)
    scored(fleet, pod({"cpu": "1", "example.com/first": "1"}), strategy)
    kept = len(fleet._memo._kept)
    for number in range(20):
        arriving = pod({"cpu": "1", f"example.com/r{number}": "1"})
        scored(fleet, arriving, strategy)
        fleet.allocatable(f"example.com/other{number}")
        assert a_pod(arriving)
    assert len(fleet._memo._kept) == kept
