"""Some days with a daily curve, small: what emptied nodes save, and what that costs."""

from ballast_lab.bench.consolidation import MOVED_A_DAY, run


def test_emptied_nodes_save_node_hours_and_make_no_node_hot() -> None:
    world = {"nodes": 16, "apps": 8, "days": 2}
    none, ours = run("none", **world), run("consolidate", **world)
    assert ours.node_hours < none.node_hours
    assert ours.hot <= none.hot
    assert 0 < ours.moved_a_day() <= MOVED_A_DAY + 1 / ours.pods
