"""The ledger of whole daemons beside what the API server has served, while leaders die between two writes."""

import os
from collections import Counter
from typing import Any

import pytest

from ballast.base.errors import ClusterError, Unreachable
from ballast.runtime.daemon import Daemon
from ballast_lab.harness.waiting import HUNG, until
from tests.unit.daemon.test_evicting import HOT, STOCK
from tests.worlds.daemons import Rig, get

pytestmark = pytest.mark.slow

FAILOVERS = int(os.environ.get("BALLAST_TEST_FAILOVERS", "3"))
MOST_CYCLES = 20


class Served:
    """What the API server answered to all daemons, and when the next one dies."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.kill: tuple[str, int] | None = None

    def join(self, daemon: Daemon) -> None:
        """Counts the requests of a daemon; once it is killed, none gets through."""
        api: Any = daemon.context.api
        send, dead = api.request, []

        def request(method: str, path: str, **options: Any) -> bytes:
            if dead:
                raise Unreachable("it was killed")
            kind = "labels" if method == "PATCH" and path.startswith("/api/v1/nodes/") else path.rsplit("/", 1)[-1]
            try:
                body: bytes = send(method, path, **options)
            except ClusterError:
                self.counts[f"{kind} refused"] += 1
                raise
            self.counts[kind] += 1
            if self.kill is not None and self.kill[0] == kind:
                self.kill = (kind, self.kill[1] - 1) if self.kill[1] > 1 else None
                if self.kill is None:
                    dead.append(True)
                    raise Unreachable("it was killed before it heard the answer")
            return body

        api.request = request


def replica(calm: Rig, served: Served, *, leads: bool) -> Daemon:
    settings = {**HOT, "EVICTION__MODE": "on", "PUBLISHING__MODE": "on", "EVICTION__RATE": "0/1h"}
    settings |= {"EVICTION__COOLDOWN": "1s", "EVICTION__MIN_POD_AGE": "0s", "PUBLISHING__REFRESH": "1m"}
    settings |= {"EVICTION__WORKLOAD_WINDOW": "0s", "EVICTION__PLANNERS": "relieve,rebalance", "EVICTION__PRICE": "0"}
    settings |= {"EVICTION__CONFIDENCE": "0", "EVICTION__MIN_GAIN": "0", "EVICTION__MAX_MOVES": "1"}
    settings |= {"EVICTION__HIGH": "0.3", "EVICTION__LOW": "0.2", "EVICTION__TARGET_HIGH": "0.95"}
    daemon = calm.daemon(leads=leads, **settings)
    served.join(daemon)
    assert daemon.context.workloads.wait_synced(HUNG)
    until(lambda: daemon.context.switches.paused("eviction") is None, "the switches")
    return daemon


def run(calm: Rig, daemon: Daemon, cycles: int) -> None:
    daemon.extender.reservations._asked[STOCK] = daemon.context.clock.monotonic()
    for _ in range(cycles):
        calm.advance()
        daemon.eviction.follow_up._recorder.end_stops()  # Moves in a calm cluster have no effect.
        for job in ("telemetry", "publishing", "eviction"):
            daemon.scheduler.run(job)


def days(daemon: Daemon) -> list[dict[str, Any]]:
    answer = get(daemon, "/api/v1/ledger")
    assert answer.status_code == 200
    found: list[dict[str, Any]] = answer.json()["days"]
    return found


def test_moves_and_labels_are_those_that_the_api_server_served_whoever_died(calm: Rig) -> None:
    served = Served()
    leader = replica(calm, served, leads=True)
    run(calm, leader, 8)
    for number in range(FAILOVERS):
        standby = replica(calm, served, leads=False)
        served.kill = ("eviction", 1) if number % 2 == 0 else ("labels", 3)
        for cycle in range(2 * MOST_CYCLES):
            if cycle == MOST_CYCLES and served.kill is not None:
                served.kill = ("labels", 3)  # Nothing is left to move.
            if served.kill is not None:
                run(calm, leader, 1)
        assert served.kill is None, "the leader was not killed"
        calm.steal_lease("")
        standby.context.leadership.tick()  # type: ignore[attr-defined]
        until(standby.context.leadership.is_leader, "leading")
        leader = standby
        run(calm, leader, 8)
        told = days(leader)
        sums = {name: sum(day[name] for day in told) for name in ("evicted", "label_writes")}
        assert sums == {"evicted": served.counts["eviction"], "label_writes": served.counts["labels"]}
        assert sums["evicted"] > number // 2
    leader.context.ledger.save()
    asked = replica(calm, served, leads=False)
    for path in ("/api/v1/ledger", "/api/v1/evictions"):  # Nobody can be asked: what this replica has may be old.
        answer = get(asked, path)
        assert (answer.status_code, "holds the Lease" in answer.json()["error"]) == (503, True)
