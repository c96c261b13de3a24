"""Two daemons asked all the while: both say the same through evictions and changes of leader, or that they cannot."""

import os
import threading
from itertools import count
from typing import Any

import pytest
import requests

from ballast.cli.observing.remote import find
from ballast.cli.observing.status import look
from ballast.cli.place import Place
from ballast.runtime.daemon import Daemon
from ballast_lab.harness.waiting import HUNG, until
from tests.unit.daemon.test_evicting import HOT, STOCK
from tests.worlds.daemons import OWN, POD, Rig, get

pytestmark = pytest.mark.slow

QUESTIONS = int(os.environ.get("BALLAST_TEST_QUESTIONS", "60"))
FAILOVERS = int(os.environ.get("BALLAST_TEST_FAILOVERS", "2"))
METRICS, COMMAND = "metrics", "ballast status"
PATHS = ("evictions", "plans", "plans/summaries", "overview", "power", "ledger", "status", METRICS, COMMAND)
SHARED = ("ballast_condition", "ballast_frozen", "ballast_load_", "ballast_node", "ballast_pool_", "ballast_snapshot_")
"""Series that a replica has of the cluster; others count what it did itself."""


def replica(calm: Rig, number: int, *, leads: bool) -> Daemon:
    """As pod ballast-N, at an address that the other one can ask."""
    name = f"ballast-{number}"
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": OWN}}
    spec = {"containers": [{"name": "ballast", "image": "ballast"}], "nodeName": calm.names[number]}
    calm.cluster.resources.create(POD, OWN, {**pod, "spec": spec})
    settings = {**HOT, "EVICTION__MODE": "on", "EVICTION__RATE": "0/1h", "EVICTION__COOLDOWN": "1s"}
    settings |= {"EVICTION__MIN_POD_AGE": "0s", "EVICTION__WORKLOAD_WINDOW": "0s", "EVICTION__PRICE": "0"}
    settings |= {"EVICTION__HIGH": "0.3", "EVICTION__LOW": "0.2", "EVICTION__TARGET_HIGH": "0.95"}
    with pytest.MonkeyPatch.context() as environment:
        for key, value in (("POD_IP", "127.0.0.1"), ("POD_NAME", name), ("POD_NAMESPACE", OWN)):
            environment.setenv(key, value)
        daemon = calm.daemon(leads=leads, **settings)
    assert daemon.context.workloads.wait_synced(HUNG)
    until(lambda: daemon.context.switches.paused("eviction") is None, "the switches")
    return daemon


def run(calm: Rig, leader: Daemon, standby: Daemon, cycles: int) -> None:
    leader.extender.reservations._asked[STOCK] = leader.context.clock.monotonic()
    for _ in range(cycles):
        calm.advance()
        for daemon in (leader, standby):
            for job in ("telemetry", "eviction"):
                daemon.scheduler.run(job)


def comparable(path: str, answer: requests.Response) -> Any:
    """Without what is each replica's own."""
    document = answer.json()
    if path == "status":
        return {key: document[key] for key in ("modes", "paused", "jobs", "conditions", "troubles")}
    return document


def same(leader: Daemon, standby: Daemon, path: str) -> bool:
    if path == METRICS:
        one, two = shared_series(leader), shared_series(standby)
        return bool(one) and all(one[name] == two[name] for name in one.keys() & two.keys())
    if path == COMMAND:
        return told(leader) == told(standby)
    one, two = (get(daemon, f"/api/v1/{path}") for daemon in (leader, standby))
    assert (one.status_code, two.status_code) == (200, 200), (path, one.text, two.text)
    return bool(comparable(path, one) == comparable(path, two))


def shared_series(daemon: Daemon) -> dict[str, str]:
    lines = (line.rpartition(" ") for line in get(daemon, "/metrics").text.splitlines())
    return {name: value for name, _, value in lines if name.startswith(SHARED)}


def told(daemon: Daemon) -> dict[str, Any]:
    """What `ballast status -o json` says of this replica, but for what is its own."""
    view, _ = look(find(Place(daemon.url)))
    return {name: value for name, value in view.items() if name not in ("address", "leader")}


class Asker(threading.Thread):
    """Asks both replicas without a pause; an answer that shows fewer moves than any before it is false."""

    def __init__(self, replicas: list[Daemon]) -> None:
        super().__init__(daemon=True)
        self.replicas, self.ended = replicas, threading.Event()
        self.asked = self.missing = 0
        self.false: list[str] = []

    def run(self) -> None:
        moved = 0
        for number in count():
            if self.ended.is_set():
                return
            daemon = self.replicas[number % 2]
            answer = get(daemon, "/api/v1/ledger")
            evictions = get(daemon, "/api/v1/evictions")
            self.asked += 2
            self.missing += (answer.status_code == 503) + (evictions.status_code == 503)
            if answer.status_code == 200:
                found = answer.json()["days"][-1]["evicted"]
                if found < moved:
                    self.false.append(f"{found} moves after {moved}")
                moved = max(moved, found)


def test_two_replicas_say_the_same_through_evictions_and_changes_of_leader(calm: Rig) -> None:
    leader, standby = replica(calm, 0, leads=True), replica(calm, 1, leads=False)
    until(lambda: calm.leader_endpoint() == "ballast-0", "the endpoint")
    asker = Asker([leader, standby])
    asker.start()
    questions = 0
    for number in range(1, FAILOVERS + 2):
        run(calm, leader, standby, 8)
        for ask in range(QUESTIONS // (FAILOVERS + 1)):
            path = PATHS[ask % len(PATHS)]
            assert same(leader, standby, path), path
            questions += 2
        assert get(standby, "/api/v1/evictions").json()["recent"]
        if number <= FAILOVERS:
            calm.steal_lease("")
            standby.context.leadership.tick()  # type: ignore[attr-defined]
            leader.context.leadership.tick()  # type: ignore[attr-defined]
            leader, standby = standby, leader
            until(leader.context.leadership.is_leader, "leading")
            until(lambda number=number: calm.leader_endpoint() == f"ballast-{number % 2}", "the endpoint")
    asker.ended.set()
    asker.join(HUNG)
    assert asker.false == []
    assert asker.asked > 0
    print(f"{questions + asker.asked} answers, {asker.missing} of them 503")
