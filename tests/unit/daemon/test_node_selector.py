import pytest

from tests.worlds.daemons import Rig, condition, metric

pytestmark = pytest.mark.slow


def test_with_a_selector_only_its_nodes_are_known_and_others_are_no_strangers(calm: Rig) -> None:
    chosen = calm.names[3]
    daemon = calm.daemon(CLUSTER__NODE_SELECTOR=f"kubernetes.io/hostname={chosen}")
    assert calm.watch(daemon) == "know 1 of 1 nodes from prometheus, 0 unknown"
    assert [node.name for node in daemon.board.snapshot.nodes] == [chosen]  # type: ignore[union-attr]
    assert condition(daemon, "UnmatchedSeries") is None
    assert metric(daemon, 'ballast_samples_rejected_total{reason="unmatched"}') in (None, 0)
    calm.faults.prometheus_down()
    calm.cycle(daemon, 2)
    assert metric(daemon, 'ballast_samples_rejected_total{reason="unmatched"}') in (None, 0), "of metrics-server either"
