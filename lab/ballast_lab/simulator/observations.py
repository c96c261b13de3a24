"""The samples that a Prometheus would have scraped from the exporters of this cluster, with their faults."""

from __future__ import annotations

import numpy as np

from ballast.model.sample import Floats
from ballast_lab.simulator.faults import Faults
from ballast_lab.simulator.world import World

SCRAPE_INTERVAL = 15.0
LOOKBACK = 300.0
"""Seconds after which Prometheus drops a series without samples."""


class Observations:
    """Samples per node; arrays are [node, time]. Every node is scraped every `interval` seconds, at its own offset."""

    def __init__(self, world: World, faults: Faults, interval: float = SCRAPE_INTERVAL) -> None:
        self.world, self._interval = world, interval
        self._faults = faults
        count = len(world.node_names)
        self._final: dict[tuple[str, int, float], float] = {}
        self._offsets = np.arange(count) * 7919 % 1500 / 100.0 % interval

    def newest(self, times: Floats) -> Floats:
        """Unix time of each node's newest sample; NaN if it is older than the lookback of 5 minutes."""
        last = np.minimum((times - self._lag())[None, :], self._ends()[:, None])
        offsets = self._offsets[:, None]
        newest: Floats = np.floor((last - offsets) / self._interval) * self._interval + offsets
        newest[times[None, :] - newest > LOOKBACK] = np.nan
        return newest

    def values(self, subject: str, times: Floats) -> Floats:
        """The usage of a resource as a ratio 0..1; constant after a node's last sample, NaN from a broken exporter."""
        lag = self._lag()
        if subject == "network":
            values = np.maximum(self.world.ratio("receive", times - lag), self.world.ratio("transmit", times - lag))
        else:
            values = self.world.ratio(subject, times - lag)
        for node, end in self._faults.dark.items():
            row = self.world.rows.get(node)
            if row is not None and (late := times - lag > end).any():
                values[row, late] = self._last(subject, row, end)
        for node in self._faults.nan:
            if node in self.world.rows:
                values[self.world.rows[node]] = np.nan
        if self._faults.on("prometheus_nan"):
            values[:] = np.nan
        return values

    def dark(self, node: str, time: float) -> bool:
        """Whether the node's exporter has stopped by this Unix time."""
        return time > self._faults.dark.get(node, np.inf)

    def broken(self, node: str) -> bool:
        """Whether the node's exporter sends NaN."""
        return node in self._faults.nan

    def _last(self, subject: str, row: int, end: float) -> float:
        key = subject, row, end
        if key not in self._final:
            names = ("receive", "transmit") if subject == "network" else (subject,)
            self._final[key] = max(float(self.world.ratio(name, [end])[row, 0]) for name in names)
        return self._final[key]

    def _ends(self) -> Floats:
        ends = np.full(len(self.world.node_names), np.inf)
        for node, end in self._faults.dark.items():
            if node in self.world.rows:
                ends[self.world.rows[node]] = end
        return ends

    def _lag(self) -> float:
        values = self._faults.values("prometheus_stale")
        return float(values["age"]) if values is not None else 0.0
