"""Exporters of machines whose load the test sets, on one real socket, for a real Prometheus to scrape."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from http.server import ThreadingHTTPServer

from ballast_lab.harness.prometheus import Target
from tests.worlds.http_handler import AnsweringHandler

_MEMORY = 32 * 2**30


class Machine:
    """`cpu`, `memory` and active page `cache` are ratios of capacity; the cache counts as available memory.

    `up = False`: the exporter answers 503, and Prometheus marks its series stale. `stamped` (set it at the start): the
    samples carry their own time stamps, as those of bridges and push gateways do, so that Prometheus goes on answering
    with the last ones for five minutes once they are `frozen`.
    """

    def __init__(self, cpu: float, memory: float) -> None:
        self.cpu = cpu
        self.memory = memory
        self.cache = 0.0
        self.up = True
        self.stamped = False
        self.frozen = False
        self._busy = 0.0
        self._idle = 0.0
        self._read_at = time.time()
        self._last = ""

    def exposition(self) -> str:
        if self.frozen:
            return self._last
        now = time.time()
        passed, self._read_at = now - self._read_at, now
        self._busy += self.cpu * passed
        self._idle += (1 - self.cpu) * passed
        # All modes, as real exporters tell them: a sum that lacks some is not known to be whole.
        modes = dict.fromkeys(("nice", "system", "iowait", "irq", "softirq", "steal"), 0.0)
        modes |= {"user": self._busy, "idle": self._idle}
        series = {f'node_cpu_seconds_total{{cpu="0",mode="{mode}"}}': seconds for mode, seconds in modes.items()} | {
            "node_memory_MemTotal_bytes": _MEMORY,
            "node_memory_MemAvailable_bytes": _MEMORY * (1 - self.memory),
            "node_memory_MemFree_bytes": _MEMORY * (1 - self.memory - self.cache),
            "node_memory_Inactive_file_bytes": 0.0,
        }
        stamp = f" {now * 1000:.0f}" if self.stamped else ""
        self._last = "".join(f"{name} {value}{stamp}\n" for name, value in series.items())
        return self._last


class Machines:
    """A context manager; `machines[name]` is to be turned by the test."""

    def __init__(self, names: Iterable[str], *, cpu: float = 0.1, memory: float = 0.2) -> None:
        self._machines = machines = {name: Machine(cpu, memory) for name in names}
        lock = threading.Lock()

        class Handler(AnsweringHandler):
            def do_GET(self) -> None:
                machine = machines[self.path.rpartition("/")[2]]
                with lock:
                    text = machine.exposition() if machine.up else None
                self.exposition(text)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    def __getitem__(self, name: str) -> Machine:
        return self._machines[name]

    def __enter__(self) -> Machines:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def targets(self) -> list[Target]:
        address = f"127.0.0.1:{self._server.server_address[1]}"
        return [Target(address, name, f"/metrics/{name}") for name in self._machines]
