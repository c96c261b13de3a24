"""What a Prometheus that scrapes this cluster would know at a time: values per node with the troubles of exporters."""

from __future__ import annotations

import numpy as np

from ballast.model.sample import Floats
from ballast.simulator.faults import Faults
from ballast.simulator.world import World

SCRAPE_INTERVAL = 15.0
LOOKBACK = 300.0


class Observations:
    """Arrays are [node, time]; NaN in `newest` means no sample within Prometheus' lookback of five minutes."""

    def __init__(self, world: World, faults: Faults) -> None:
        self.world = world
        self._faults = faults
        count = len(world.node_names)
        self._final: dict[tuple[str, int, float], float] = {}
        self._offsets = np.arange(count) * 7919 % 1500 / 100.0

    def newest(self, times: Floats) -> Floats:
        """Unix time of the newest sample of each node: scrapes every 15 s, each node with its own phase."""
        asked = times - self._lag()
        asked = np.minimum(asked[None, :], self._ends()[:, None])
        offsets = self._offsets[:, None]
        newest: Floats = np.floor((asked - offsets) / SCRAPE_INTERVAL) * SCRAPE_INTERVAL + offsets
        newest[times[None, :] - newest > LOOKBACK] = np.nan
        return newest

    def values(self, subject: str, times: Floats) -> Floats:
        """Ratios 0..1 of a resource; constant after a node's last sample, NaN from a broken exporter."""
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
        return time > self._faults.dark.get(node, np.inf)

    def broken(self, node: str) -> bool:
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
