"""Pods that are removed for themselves: what follows for those that come instead, and for their workload."""

from dataclasses import replace

from ballast.eviction.gate import NUMBER, PASSED
from ballast.eviction.gate_rules import GateRules
from ballast.model.pod import Pod
from tests.worlds.evicting import EvictingApi, Replica

TIDY = GateRules(planner="tidy", moves=False, needs_confirmation=False, needs_landing=False, steered=frozenset())


def removed(*, phase: str) -> tuple[EvictingApi, Replica, Pod]:
    """One pod of ten on n1, judged by the rules of tidy."""
    server = EvictingApi()
    for _ in range(9):
        server.add("n2")
    pod = server.add("n1", phase=phase, ready=phase == "Running")
    replica = Replica(server, rules=TIDY)
    [attempt] = replica.carry_out(pod, to=None, kind="tidy")
    assert attempt.evicted, attempt.why
    return server, replica, pod


def test_nobody_waits_for_the_replacement_of_a_failed_pod() -> None:
    server, replica, pod = removed(phase="Failed")
    del server.pods[f"shop/{pod.name}"]
    replica.follow()
    assert [step["status"] for step in replica.recent()] == ["ready"]
    assert replica.follow(7200.0) is None
    assert replica.evictor.stopped("tidy") is None
    assert replica.evictor.history().backing_off == {}


def test_a_replacement_may_come_back_to_the_node_of_an_old_pod() -> None:
    server, replica, _ = removed(phase="Running")
    server.replace_evicted("n1")
    replica.follow()
    history = replica.evictor.history()
    assert not history.looping
    assert [step["status"] for step in replica.recent()] == ["ready"]
    assert replica.evictor.pending() == {}


def test_what_protects_running_replicas_does_not_keep_failed_pods() -> None:
    server = EvictingApi()
    failed = server.add("n1", "alone", phase="Failed", ready=False)
    running = server.add("n1", "single")
    gate = Replica(server, rules=TIDY).gate()
    assert gate.judge(failed) is None
    assert gate.screen([failed, running]).tolist() == [PASSED, NUMBER["single-replica"]]
    mover = Replica(server, rules=replace(TIDY, moves=True)).gate()
    refusal = mover.judge(failed)
    assert refusal is not None
    assert refusal.check == "finished"
