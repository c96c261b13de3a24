"""node_exporter's text format, one endpoint per node, for a real Prometheus to scrape."""

from __future__ import annotations

import threading

import numpy as np
from starlette.responses import PlainTextResponse, Response

from ballast.model.sample import Floats
from ballast_lab.simulator.observations import Observations

STEP = 5.0
"""Seconds of the grid on which usage is integrated."""

MOST_STEPS = 360
"""Steps integrated at once, which bounds the memory."""

RESOURCES = ("cpu", "disk", "receive", "transmit")


class NodeExporters:
    """The exporters of all nodes.

    Counters are integrals of the world's usage on a grid of 5 s, so their values do not depend on the scrapes.
    """

    def __init__(self, observations: Observations) -> None:
        self._observations = observations
        self._world = world = observations.world
        self._lock = threading.Lock()
        self._since = self._until = world.start // STEP * STEP
        self._sums = {resource: np.zeros(len(world.node_names)) for resource in RESOURCES}

    def answer(self, node: str) -> Response:
        """The page of one node; 404 if it does not exist, 503 if its exporter is dark."""
        row = self._world.rows.get(node)
        now = self._world.clock.wall()
        if row is None:
            return PlainTextResponse(f"there is no node {node}\n", 404)
        if self._observations.dark(node, now):
            return PlainTextResponse("the exporter is gone\n", 503)
        return PlainTextResponse(self.text(node, now), media_type="text/plain; version=0.0.4")

    def text(self, node: str, now: float) -> str:
        """The metrics of one node at a Unix time; a broken exporter shows NaN everywhere."""
        row = self._world.rows[node]
        counters = self._counters(row, now)
        cores, link = float(self._world.usage.cores[row]), float(self._world.usage.speed[row])
        total = float(self._world.usage.memory[row])
        used = float(self._world.ratio("memory", [now])[row, 0])
        seconds = now - self._since
        busy = counters["cpu"]
        lines = ["# TYPE node_cpu_seconds_total counter"]
        for cpu in range(int(cores)):
            shares = (
                ("idle", seconds - busy),
                ("system", 0.25 * busy),
                ("user", 0.75 * busy),
                *((mode, 0.0) for mode in ("nice", "iowait", "irq", "softirq", "steal")),
            )
            lines += [f'node_cpu_seconds_total{{cpu="{cpu}",mode="{mode}"}} {value!r}' for mode, value in shares]
        lines += [
            "# TYPE node_memory_MemTotal_bytes gauge",
            f"node_memory_MemTotal_bytes {total!r}",
            "# TYPE node_memory_MemAvailable_bytes gauge",
            f"node_memory_MemAvailable_bytes {total * (1 - used)!r}",
            "# TYPE node_disk_io_time_seconds_total counter",
            f'node_disk_io_time_seconds_total{{device="nvme0n1"}} {counters["disk"]!r}',
            "# TYPE node_network_receive_bytes_total counter",
            f'node_network_receive_bytes_total{{device="eth0"}} {counters["receive"] * link!r}',
            "# TYPE node_network_transmit_bytes_total counter",
            f'node_network_transmit_bytes_total{{device="eth0"}} {counters["transmit"] * link!r}',
            "# TYPE node_network_speed_bytes gauge",
            f'node_network_speed_bytes{{device="eth0"}} {link!r}',
            "# TYPE node_uname_info gauge",
            f'node_uname_info{{nodename="{node}",sysname="Linux",machine="x86_64"}} 1',
        ]
        text = "\n".join(lines) + "\n"
        return _all_nan(text) if self._observations.broken(node) else text

    def _counters(self, row: int, now: float) -> dict[str, float]:
        """Seconds of full use since the start, by resource, for one node."""
        with self._lock:
            self._advance(now)
            rest = now - self._until
            return {
                resource: float(self._sums[resource][row])
                + rest * float(self._world.ratio(resource, [self._until])[row, 0])
                for resource in RESOURCES
            }

    def _advance(self, now: float) -> None:
        while (steps := min(MOST_STEPS, int((now - self._until) // STEP))) > 0:
            times: Floats = self._until + STEP * np.arange(steps, dtype=np.float64)
            for resource in RESOURCES:
                self._sums[resource] += STEP * self._world.ratio(resource, times).sum(axis=1)
            self._until += STEP * steps


def _all_nan(text: str) -> str:
    return "".join(
        line if line.startswith("#") else line.rpartition(" ")[0] + " NaN\n" for line in text.splitlines(True)
    )
