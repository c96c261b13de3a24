"""A small simulated cluster in which an autoscaler removes nodes while Ballast moves pods."""

import pytest

from ballast.planners.eviction_plan import Kind
from ballast_lab.bench.autoscalers import AUTOSCALERS, run


@pytest.mark.parametrize("kind", ["rebalance", "consolidate"])
@pytest.mark.parametrize("autoscaler", AUTOSCALERS)
def test_moves_and_consolidation_do_not_work_against_each_other(autoscaler: str, kind: Kind) -> None:
    world = {"nodes": 16, "apps": 8, "days": 1}
    alone, both = run(autoscaler, None, **world), run(autoscaler, kind, **world)
    assert alone.removed > 0
    assert both.fights == 0
    assert both.hot <= alone.hot
    assert both.node_hours <= 1.1 * alone.node_hours
    assert kind == "consolidate" or (both.moved > 0 and both.spread < alone.spread)
