"""The whole daemon where the machine has little to give: one core for all jobs, and twenty busy loops beside it."""

from __future__ import annotations

import json
import os
import socket
import time
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from itertools import pairwise

from ballast_lab.bench.processes import Shape, simulated
from ballast_lab.bench.rows import Row, all_equal, at_most
from ballast_lab.bench.whole import NAME, NODES, SETTLED, beside, daemon, exchange, requests

SECONDS = 300.0
LOOPS = 20
SHAPE = Shape(NAME, pods=6, scene="breathing")
INTERVALS = {"telemetry": 15.0, "publishing": 15.0, "eviction": 60.0, "batch": 5.0, "power": 15.0}
"""Seconds, by job; as `whole.SETTINGS` has them."""

PLAN = 60.0
"""Seconds within which a plan is made."""

SCHEDULER = 5.0
"""Seconds that kube-scheduler waits for an extender (httpTimeout)."""

PROBE = 1.0
"""Seconds that a kubelet waits for a probe."""

QUICK = {"seconds": 90.0}


def measure(seconds: float = SECONDS) -> list[Row]:
    """Each with a daemon and an embedded cluster of its own."""
    return [*_one_core(seconds), _busy(seconds)]


def _one_core(seconds: float) -> list[Row]:
    with simulated(NODES, SHAPE) as cluster, daemon(cluster.environment, under=["taskset", "-c", "0"]) as port:
        time.sleep(SETTLED)
        seen = Looks(port)
        seen.go_on(seconds)
    at = f"{NODES:,} nodes, all jobs on, one core (taskset), {seconds:.0f} s"
    missed = {job: seen.missed(job, every) for job, every in INTERVALS.items()}
    return [
        {
            "what": "rounds of a job that did not come",
            "at": at,
            "reach": "none",
            "measured": f"{sum(missed.values())} of {len(seen.cycles)} ({load()})",
            "verdict": all_equal(list(missed.values()), 0),
        },
        {
            "what": "looks at which it did not lead",
            "at": at,
            "reach": "none",
            "measured": f"{seen.followed} of {seen.looks}",
            "verdict": all_equal([seen.followed], 0),
        },
        _within("the slowest plan", at, seen.longest("eviction"), PLAN),
        _within("the slowest `/livez`", at, max(seen.probes), PROBE),
        _within("the slowest prioritize of 500 names", at, max(seen.answers), SCHEDULER),
    ]


def _busy(seconds: float) -> Row:
    """Loops of ordinary priority, of the daemon's session."""
    often = {"BALLAST_EVICTION__INTERVAL": "15s"}
    with simulated(NODES, SHAPE) as cluster, daemon(cluster.environment, **often) as port, ExitStack() as loops:
        time.sleep(SETTLED)
        for _ in range(LOOPS):
            loops.enter_context(beside(_spin))
        seen = Looks(port)
        seen.go_on(seconds)
    at = f"{NODES:,} nodes, all jobs on, {LOOPS} busy loops beside it, {seconds:.0f} s"
    return _within("the longest time without a plan", at, seen.without("eviction"), PLAN)


def _within(what: str, at: str, value: float, most: float) -> Row:
    return {
        "what": what,
        "at": at,
        "reach": f"≤ {most:.0f} s",
        "measured": f"{value:.2f} s ({load()})",
        "verdict": at_most(value, most),
    }


def load() -> str:
    """The machine's."""
    return f"load average {os.getloadavg()[0]:.1f}"


def _spin() -> None:
    while True:
        sum(range(100_000))


class Looks:
    """What a daemon shows, once a second."""

    def __init__(self, port: int) -> None:
        self.cycles: dict[tuple[str, float], tuple[float, bool]] = {}
        self.probes: list[float] = []
        self.answers: list[float] = []
        self.looks = self.followed = 0
        self.began = self.ended = time.time()
        self._port = port
        self._requests = requests(500, NODES)

    def go_on(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.probes.append(_took(lambda: self._get("/livez")))
            self.answers.append(_took(self._prioritize))
            for cycle in json.loads(self._get("/api/v1/cycles")):
                self.cycles[cycle["job"], cycle["started"]] = cycle["seconds"], cycle["ok"]
            self.looks += 1
            self.followed += not json.loads(self._get("/api/v1/status"))["leader"]
            time.sleep(1.0)
        self.ended = time.time()

    def missed(self, job: str, every: float) -> int:
        """Rounds that did not begin within twice the interval, or failed."""
        starts = sorted(started for name, started in self.cycles if name == job)
        failed = sum(not ok for (name, _), (_, ok) in self.cycles.items() if name == job)
        gaps = [later - sooner for sooner, later in pairwise(starts)]
        return failed + sum(gap >= 2 * every for gap in gaps) + (not starts)

    def longest(self, job: str) -> float:
        """Seconds of its slowest round."""
        return max(seconds for (name, _), (seconds, _) in self.cycles.items() if name == job)

    def without(self, job: str) -> float:
        """The longest time between two rounds that ended well."""
        ends = [started + took for (name, started), (took, ok) in self.cycles.items() if name == job and ok]
        marks = [self.began, *sorted(end for end in ends if end >= self.began), self.ended]
        return max(later - sooner for sooner, later in pairwise(marks))

    def _get(self, path: str) -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=60) as answer:
            body: bytes = answer.read()
            return body

    def _prioritize(self) -> None:
        with socket.create_connection(("127.0.0.1", self._port), timeout=60) as connection:
            head = exchange(connection, next(self._requests), bytearray(1 << 20))
            assert head.startswith(b"HTTP/1.1 200"), head


def _took(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began
