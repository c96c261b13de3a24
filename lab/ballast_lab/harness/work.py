"""Load that follows the pods: every pod uses what its app uses, wherever it is, and exporters tell of it."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Mapping
from http.server import ThreadingHTTPServer
from typing import NamedTuple, Self

from ballast_lab.harness.api import Api, Json
from ballast_lab.harness.machines import Machines
from ballast_lab.harness.objects import PODS
from ballast_lab.harness.prometheus import Target
from tests.worlds.http_handler import AnsweringHandler

Use = tuple[float, float]
"""Cores and bytes."""


class Placed(NamedTuple):
    """Where a pod is, and the bytes that it uses."""

    node: str
    memory: float


class Work:
    """A context manager around Machines of `size`; `uses` is by label `app`."""

    def __init__(self, api: Api, nodes: list[str], size: Use, uses: Mapping[str, Use], *, every: float = 1.0) -> None:
        self._api, self._size, self._uses, self._every = api, size, uses, every
        self._machines = Machines(nodes, cpu=0.0, memory=0.0)
        self._names = nodes
        self._stop = threading.Event()
        self._busy: dict[str, float] = {}
        self._pods: list[Json] = []
        self._read_at = time.time()
        work = self

        class Handler(AnsweringHandler):
            def do_GET(self) -> None:
                self.exposition(work.exposition())

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._threads = [
            threading.Thread(target=self._follow),
            threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}),
        ]

    def __enter__(self) -> Self:
        self._observe()
        self._machines.__enter__()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._server.shutdown()
        for thread in self._threads:
            thread.join()
        self._server.server_close()
        self._machines.__exit__()

    def targets(self) -> list[Target]:
        """One of each node, and one of all pods, as a kubelet's cadvisor tells of them."""
        return [*self._machines.targets(), Target(f"127.0.0.1:{self._server.server_address[1]}", "pods")]

    def loads(self) -> dict[str, Use]:
        """{node: load of cpu and memory} of what is there now."""
        return self._loads([pod for pod in self._api.items(PODS) if pod["spec"].get("nodeName")])

    def placed(self) -> dict[str, Placed]:
        """{name of a pod: where it is} of what is bound and not ending."""
        pods = [pod for pod in self._api.items(PODS) if "deletionTimestamp" not in pod["metadata"]]
        return {
            pod["metadata"]["name"]: Placed(pod["spec"]["nodeName"], self._use(pod)[1])
            for pod in pods
            if pod["spec"].get("nodeName") in self._names
        }

    def deviations(self) -> dict[str, float]:
        loads = self.loads().values()
        return {name: statistics.pstdev(load[index] for load in loads) for index, name in enumerate(("cpu", "memory"))}

    def exposition(self) -> str:
        lines = []
        for pod in self._pods:
            meta = pod["metadata"]
            at = f'node="{pod["spec"]["nodeName"]}"'
            labels = f'{{namespace="{meta["namespace"]}",pod="{meta["name"]}",container="main",{at}}}'
            lines.append(f"container_cpu_usage_seconds_total{labels} {self._busy.get(meta['uid'], 0.0):.4f}\n")
            lines.append(f"container_memory_working_set_bytes{labels} {self._use(pod)[1]:.0f}\n")
        return "".join(lines)

    def _use(self, pod: Json) -> Use:
        return self._uses.get((pod["metadata"].get("labels") or {}).get("app", ""), (0.0, 0.0))

    def _follow(self) -> None:
        while not self._stop.wait(self._every):
            self._observe()

    def _observe(self) -> None:
        """Everything moves on to now, then follows what is there now."""
        pods = [pod for pod in self._api.items(PODS) if pod["spec"].get("nodeName")]
        now = time.time()
        passed, self._read_at = now - self._read_at, now
        for pod in self._pods:
            uid = pod["metadata"]["uid"]
            self._busy[uid] = self._busy.get(uid, 0.0) + self._use(pod)[0] * passed
        self._pods = pods
        for name, (cpu, memory) in self._loads(pods).items():
            self._machines[name].cpu, self._machines[name].memory = cpu, memory

    def _loads(self, pods: list[Json]) -> dict[str, Use]:
        sums = {name: [0.0, 0.0] for name in self._names}
        for pod in pods:
            use, node = self._use(pod), pod["spec"]["nodeName"]
            if node in sums:
                sums[node][0] += use[0]
                sums[node][1] += use[1]
        return {name: (cpu / self._size[0], memory / self._size[1]) for name, (cpu, memory) in sums.items()}
