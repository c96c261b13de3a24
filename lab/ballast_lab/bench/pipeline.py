"""What a cycle costs, from the answers of Prometheus to the snapshot that is served."""

from __future__ import annotations

import gc
import http.client
import os
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import psutil

from ballast_lab.bench.processes import Simulated, apart, simulated
from ballast_lab.bench.rows import Row, all_equal, at_most, times
from tests.worlds.clock import FakeClock

if TYPE_CHECKING:
    from ballast.runtime.daemon import Daemon

QUICK = {"cycles": 40}
SIZES = (10, 1_000, 5_000)
RESOURCES = ("cpu", "memory", "disk", "network")
INTERVAL = 15.0
CYCLES = 20
SETTLING = 20
PARTS = ("decode", "node names", "intake", "ring", "statistics", "score", "render")
READ = ("/watcher", "/metrics", "/api/v1/nodes")
# Real binaries built from upstream's sources (master 17df8f9), against a loopback stub of Prometheus.
LOAD_WATCHER = {"queries": 102, "megabytes": 57.7, "cpu": 4.3, "rss": 771}


def measure(cycles: int = 200) -> list[Row]:
    """CPU milliseconds and megabytes of a daemon whose cluster is in another process; waiting is not counted."""
    rows, asked = [], []
    for nodes in SIZES:
        with simulated(nodes) as cluster:
            asked.append(apart(_queries, cluster))
            if nodes == SIZES[-1]:
                rows += _cost(nodes, apart(_cycles, cluster, "15m"), "15m at 15 s")
                rows += _three(nodes, apart(_cycles, cluster, "15m,10m,5m"))
                rows += _memory(nodes, cycles, apart(_growth, cluster, cycles))
    return [_asked(asked), *rows]


def _asked(asked: list[int]) -> Row:
    a_minute = (len(RESOURCES) + 1) * 60 / INTERVAL
    return {
        "what": "Prometheus queries per cycle",
        "at": f"{', '.join(f'{nodes:,}' for nodes in SIZES)} nodes, {len(RESOURCES)} resources",
        "reach": f"M + 1 = {len(RESOURCES) + 1}",
        "measured": ", ".join(map(str, asked)),
        "verdict": all_equal(asked, len(RESOURCES) + 1),
        "peer": f"load-watcher: {LOAD_WATCHER['queries']} a minute; here {a_minute:.0f} a minute at 15 s, 6 by default",
        "ratio": f"{times(a_minute, LOAD_WATCHER['queries'])}, {times(6, LOAD_WATCHER['queries'])} fewer",
    }


def _cost(nodes: int, found: dict[str, Any], windows: str) -> list[Row]:
    at = f"{nodes:,} nodes, {len(RESOURCES)} resources, {windows}"
    served, parts = found["served"], found["parts"]
    split = [f"{part} {parts[part]:.0f}" for part in PARTS]
    rest = served - sum(parts[part] for part in PARTS)
    a_minute = (found["whole"] * 60 / INTERVAL) / 1000
    megabytes = found["bytes"] * 60 / INTERVAL / 1e6
    return [
        {
            "what": "responses received → snapshot served",
            "at": at,
            "reach": "≤ 250 ms CPU",
            "measured": f"{served:.0f} ms CPU: {', '.join(split)}, rest {rest:.0f}",
            "verdict": at_most(served, 250),
        },
        {
            "what": "ring recompute within that",
            "at": at,
            "reach": "≤ 20 ms CPU",
            "measured": f"{parts['statistics']:.1f} ms CPU, p95 included",
            "verdict": at_most(parts["statistics"], 20),
        },
        {
            "what": "receiving the responses",
            "at": at,
            "reach": "reported",
            "measured": f"{parts['receive']:.0f} ms CPU for {found['bytes'] / 1e6:.1f} MB",
        },
        {
            "what": "CPU a minute of reading and serving",
            "at": at,
            "reach": "reported",
            "measured": f"{a_minute:.2f} s",
            "peer": f"load-watcher: {LOAD_WATCHER['cpu']} s CPU a minute",
            "ratio": f"{times(a_minute, LOAD_WATCHER['cpu'])} less",
        },
        {
            "what": "bytes pulled a minute, not compressed",
            "at": at,
            "reach": "reported",
            "measured": f"{megabytes:.1f} MB",
            "peer": f"load-watcher: {LOAD_WATCHER['megabytes']} MB a minute",
            "ratio": f"{times(megabytes, LOAD_WATCHER['megabytes'])} fewer",
        },
        {
            "what": "longest time the interpreter is held in one piece, a cycle",
            "at": at,
            "reach": "≤ 50 ms",
            "measured": f"{found['held']:.0f} ms (median of the cycles' longest {found['held_median']:.0f} ms)",
            "verdict": at_most(found["held"], 50),
        },
        {
            "what": "longest time the interpreter is held in one piece, first cycle with backfill",
            "at": at,
            "reach": "≤ 50 ms",
            "measured": f"{found['held_at_start']:.0f} ms",
            "verdict": at_most(found["held_at_start"], 50),
        },
    ]


def _three(nodes: int, found: dict[str, Any]) -> list[Row]:
    return [
        {
            "what": "the same with the three windows of the default",
            "at": f"{nodes:,} nodes, {len(RESOURCES)} resources, 15m, 10m and 5m at 15 s",
            "reach": "≤ 250 ms CPU",
            "measured": f"{found['served']:.0f} ms CPU, {found['parts']['statistics']:.0f} of it statistics",
            "verdict": at_most(found["served"], 250),
        }
    ]


def _memory(nodes: int, cycles: int, found: dict[str, float]) -> list[Row]:
    at = f"{nodes:,} nodes, {len(RESOURCES)} resources, three windows, {', '.join(f'`{path}`' for path in READ)} read"
    grown = found["after"] / found["settled"] - 1
    return [
        {
            "what": "a publishing cycle that finds nothing to write",
            "at": f"{nodes:,} nodes",
            "reach": "reported",
            "measured": f"{found['publishing']:.0f} ms CPU",
        },
        {
            "what": "resident memory of the daemon, steady",
            "at": at,
            "reach": "reported",
            "measured": f"{found['after']:.0f} MB (peak {found['peak']:.0f} MB)",
            "peer": f"load-watcher: {LOAD_WATCHER['rss']}–1,286 MB after 400–600 reads of `/watcher`",
            "ratio": f"{times(found['after'], LOAD_WATCHER['rss'])} less",
        },
        {
            "what": f"its growth over {cycles} cycles of telemetry and publishing",
            "at": at,
            "reach": "none",
            "measured": f"{found['after'] - found['settled']:+.1f} MB ({grown:+.1%})",
            "verdict": "met" if grown < 0.03 else f"{grown:.0%} more",
        },
    ]


def _queries(cluster: Simulated) -> int:
    daemon, clock = _daemon(cluster, "15m")
    _telemetry(daemon)
    before = cluster.queries()
    clock.advance(INTERVAL)
    _telemetry(daemon)
    asked = cluster.queries() - before
    daemon.stop()
    return asked


def _cycles(cluster: Simulated, lengths: str) -> dict[str, Any]:
    daemon, clock = _daemon(cluster, lengths)
    with Ticker() as ticker:
        _telemetry(daemon)
    started = ticker.longest
    gc.freeze()
    parts, sizes = Parts(), []
    _take_apart(parts, sizes)
    whole, split = [], []
    for _ in range(CYCLES):
        clock.advance(INTERVAL)
        parts.spent.clear()
        sizes.clear()
        begun = time.process_time()
        _telemetry(daemon)
        whole.append(1000 * (time.process_time() - begun))
        split.append(dict(parts.spent))
    pulled = sum(sizes)
    held = []
    for _ in range(CYCLES):
        clock.advance(INTERVAL)
        with Ticker() as ticker:
            _telemetry(daemon)
        held.append(ticker.longest)
    daemon.stop()
    spent = {part: statistics.median(one[part] for one in split) for part in (*PARTS, "receive")}
    cycle = statistics.median(whole)
    return {
        "whole": cycle,
        "served": cycle - spent["receive"],
        "parts": spent,
        "bytes": pulled,
        "held": max(held),
        "held_median": statistics.median(held),
        "held_at_start": started,
    }


def _growth(cluster: Simulated, cycles: int) -> dict[str, float]:
    """Megabytes once everything has been read a few times and after `cycles` more; CPU ms of a publishing cycle."""
    daemon, clock = _daemon(cluster, "15m,10m,5m", BALLAST_LEASE__ENABLED="false")
    daemon.context.leadership.start()
    daemon.context.switches.start()
    _telemetry(daemon)
    gc.freeze()
    process, peak, published = psutil.Process(), 0.0, []
    for cycle in range(SETTLING + cycles):
        clock.advance(INTERVAL)
        _telemetry(daemon)
        begun = time.process_time()
        assert daemon.scheduler.run("publishing").ok
        published.append(1000 * (time.process_time() - begun))
        _read(daemon.port)
        resident = process.memory_info().rss / 1e6
        peak = max(peak, resident)
        if cycle == SETTLING:
            settled = resident
    daemon.stop()
    return {"settled": settled, "after": resident, "peak": peak, "publishing": statistics.median(published)}


def _daemon(cluster: Simulated, lengths: str, **environment: str) -> tuple[Daemon, FakeClock]:
    """A daemon that serves and knows the nodes; its first cycle reads the past. Cycles come when they are called."""
    from ballast.base import log
    from ballast.runtime.daemon import Daemon
    from ballast.settings import load

    log.configure("error")
    clock = FakeClock(time.time())
    fixed = {
        "BALLAST_HTTP__HOST": "127.0.0.1",
        "BALLAST_HTTP__PORT": "0",
        "BALLAST_TELEMETRY__INTERVAL": f"{INTERVAL:g}s",
        "BALLAST_TELEMETRY__RESOURCES": ",".join(RESOURCES),
        "BALLAST_WINDOWS__LENGTHS": lengths,
    }
    daemon = Daemon(load({**os.environ, **cluster.environment, **fixed, **environment}), clock=clock)
    gc.freeze()  # as `ballast run` does, before the start and after it
    daemon.port = daemon.servers[0].start()
    daemon.context.cache.start()
    assert daemon.context.cache.wait_synced(60), daemon.context.cache.problem("nodes")
    return daemon, clock


def _telemetry(daemon: Daemon) -> None:
    record = daemon.scheduler.run("telemetry")
    assert record.ok, record.sentence
    assert daemon.board.snapshot.unknown == 0, record.sentence


def _read(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    for path in READ:
        connection.request("GET", path, headers={"accept-encoding": "gzip"})
        response = connection.getresponse()
        assert response.status == 200, path
        while response.read(1 << 20):
            pass
    connection.close()


class Ticker:
    """A thread that wants the interpreter every millisecond; `longest` is how long it once had to wait, in ms.

    Only what this process computed meanwhile counts: other programs may take the processor for as long as they like.
    """

    def __init__(self) -> None:
        self.longest = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._tick)

    def __enter__(self) -> Ticker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _tick(self) -> None:
        while not self._stop.is_set():
            slept, spent = time.perf_counter(), time.process_time()
            time.sleep(0.001)
            waited = min(time.perf_counter() - slept - 0.001, time.process_time() - spent)
            self.longest = max(self.longest, 1000 * waited)


class Parts:
    """CPU milliseconds by part, each without the parts that it calls."""

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._local = threading.local()

    def time(self, part: str, owner: Any, name: str) -> None:
        """From now on calls of `owner.name` count for `part`."""
        original: Callable[..., Any] = getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            outer = getattr(self._local, "inner", 0.0)
            self._local.inner = 0.0
            begun = time.thread_time()
            try:
                return original(*args, **kwargs)
            finally:
                took = 1000 * (time.thread_time() - begun)
                with self._lock:
                    self.spent[part] += took - self._local.inner  # type: ignore[assignment]
                self._local.inner = outer + took

        setattr(owner, name, timed)


def _take_apart(parts: Parts, sizes: list[int]) -> None:
    from ballast.extender.decisions import ExtenderService
    from ballast.jobs import snapshot_job, telemetry_cycle
    from ballast.telemetry import readings, responses
    from ballast.telemetry.http import HttpAnswer
    from ballast.telemetry.node_names import NodeNames
    from ballast.telemetry.prometheus_client import PrometheusClient
    from ballast.windows.ring import Ring

    query = PrometheusClient._query

    def counted(*args: Any) -> HttpAnswer:
        answer = query(*args)
        sizes.append(len(answer.content))
        return answer

    PrometheusClient._query = counted  # type: ignore[method-assign]
    parts.time("receive", PrometheusClient, "_query")
    parts.time("decode", responses, "instant")
    for name in ("rows", "following"):
        parts.time("node names", NodeNames, name)
    for name in ("sample_times", "no_ratios", "accept"):
        parts.time("intake", readings, name)
    for name in ("write", "advance"):
        parts.time("ring", Ring, name)
    parts.time("statistics", telemetry_cycle, "summarise_all")
    parts.time("score", ExtenderService, "node_scores")
    parts.time("render", snapshot_job, "render")


if __name__ == "__main__":
    for row in measure(**QUICK):
        print(row)
