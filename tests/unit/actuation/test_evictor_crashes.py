"""Killed before, between and after its writes, the evictor never evicts twice, keeps its limits and finishes."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ballast.base.errors import ClusterError, TooManyRequests, Unreachable
from ballast.eviction.gate import NAMES, PASSED, Gate
from ballast.eviction.gate_rules import UNLIMITED, EvictionLimit, GateRules
from ballast.model.ledger import Ledger
from ballast.model.pod import Pod
from tests.worlds.evicting import NODES, Crash, EvictingApi, Replica

HOURLY = 4
RULES = GateRules(
    limit_total=UNLIMITED,
    limit_node=UNLIMITED,
    limit_namespace=UNLIMITED,
    limit_workload=UNLIMITED,
    workload_window=0.0,
    rates=((EvictionLimit(HOURLY), 3600.0),),
    cooldown=0.0,
    max_unavailable=UNLIMITED,
    max_replacements=100,
    min_pod_age=0.0,
)


@dataclass(frozen=True)
class Run:
    """One process: killed at a write, before or after it was served; then this many seconds without a leader."""

    crash_at: int | None
    late: bool
    pause: int
    answers: tuple[str, ...]


RUNS = st.lists(
    st.builds(
        Run,
        crash_at=st.none() | st.integers(1, 9),
        late=st.booleans(),
        pause=st.integers(15, 400),
        answers=st.lists(st.sampled_from(["yes", "budget", "lost", "done but lost", "broken"]), max_size=4).map(tuple),
    ),
    min_size=1,
    max_size=5,
)


def answering(server: EvictingApi, answers: tuple[str, ...]) -> None:
    left = list(answers)

    def refuse(pod: Pod) -> ClusterError | None:
        said = left.pop(0) if left else "yes"
        if said == "budget":
            return TooManyRequests("not now", causes=("DisruptionBudget",))
        if said == "done but lost":
            server.evict_now(pod)
        if said in ("lost", "done but lost"):
            return Unreachable("no answer")
        return ClusterError("broken", status=500) if said == "broken" else None

    server.refuse = refuse


def live(server: EvictingApi, life: Run) -> None:
    """Two cycles of one process, or less."""
    server.count, server.crash_at, server.late = 0, life.crash_at, life.late
    answering(server, life.answers)
    replica = Replica(server, rules=RULES)
    try:
        replica.evictor.recorder.resume()
        for _ in range(2):
            replica.follow()
            bound = [pod for pod in server.pods.values() if pod.node and pod.node != "n5" and not pod.deleting]
            replica.carry_out(*bound[:3])
            server.replace_evicted("n5")
    except Crash:
        pass
    server.crash_at = None
    server.clock.advance(life.pause)


@settings(deadline=None)
@given(RUNS)
def test_nothing_happens_twice_and_limits_hold_whatever_dies_when(lives: list[Run]) -> None:
    server = EvictingApi()
    for node in NODES[:5] * 2:
        server.add(node)
    times: list[float] = []
    server.on_evicted = lambda: times.append(server.clock.wall())
    for life in lives:
        live(server, life)
        assert max(server.evicted.values(), default=0) <= 1
    for start in times:
        assert sum(start <= at < start + 3600 for at in times) <= HOURLY
    _ends(server)


def _ends(server: EvictingApi) -> None:
    """The last leader finishes what the others began, and holds no room for nobody."""
    server.refuse = lambda pod: None
    replica = Replica(server, rules=RULES)
    replica.evictor.recorder.resume()
    server.replace_evicted("n5")
    for _ in range(4):
        replica.follow(600)
        server.replace_evicted("n5")
    assert "eviction.plan" not in server.state()
    assert replica.evictor.history().awaited == frozenset()
    assert not replica.extender.held
    assert "reservations" not in server.state()
    counted = Ledger.decode(server.state()["ledger.evictions"]) if server.evicted else Ledger()
    now = server.clock.wall()
    for rows in (counted.hours(now), counted.days(now)):
        assert sum(row.evicted for row in rows) == sum(server.evicted.values())


@settings(deadline=None)
@given(st.integers(1, 6))
def test_a_late_write_of_a_leader_that_was_paused_evicts_nobody_twice(number: int) -> None:
    """It stops between its record and its eviction, another one leads, and then it goes on."""
    server = EvictingApi()
    for node in NODES[:5] * 2:
        server.add(node)
    pods = list(server.pods.values())[:number]
    old = Replica(server, rules=RULES)
    new: list[Replica] = []

    def meanwhile(method: str, path: str, body: object) -> None:
        if path.endswith("/eviction") and not new:
            new.append(Replica(server, rules=RULES))
            server.clock.advance(60)
            new[0].evictor.recorder.resume()
            new[0].follow()
            new[0].carry_out(*pods)
            old.leading = False

    server.before_eviction = meanwhile
    old.carry_out(*pods)
    assert max(server.evicted.values()) == 1
    new[0].follow()
    server.replace_evicted("n5")
    new[0].follow()
    assert sum(server.evicted.values()) <= HOURLY


def test_a_pod_that_was_written_down_but_never_evicted_does_not_keep_the_others_waiting() -> None:
    """A plan of one step would name the same pod again and again, and be refused each time."""
    server = EvictingApi()
    pods = [server.add(node) for node in NODES[:3]]

    def killed(method: str, path: str, body: object) -> None:
        raise Crash

    server.before_eviction = killed
    with pytest.raises(Crash):
        Replica(server, rules=RULES).carry_out(pods[0])
    second = Replica(server, rules=RULES)
    second.evictor.recorder.resume()
    second.follow(60)
    history = replace(second.gate().history, acting=False)
    gate = Gate(second.gate().facts, RULES, history)
    assert [NAMES[number] if number < PASSED else "" for number in gate.screen(pods)] == ["identity", "", ""]
    verdict = gate.judge(pods[0])
    assert verdict is not None
    assert verdict.reason.endswith("or it is unknown whether it was")
