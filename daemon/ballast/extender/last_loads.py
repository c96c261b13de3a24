"""The last known load of nodes whose load is not known any more: losing sight of a node makes room on none."""

from __future__ import annotations

import numpy as np

from ballast.model.sample import Floats
from ballast.model.snapshot import Snapshot
from ballast.windows.node_lives import NodeKey, node_keys


class LastLoads:
    """Kept for `forget_after` seconds. One thread at a time."""

    def __init__(self, forget_after: float) -> None:
        self._forget_after = forget_after
        self._kept: dict[NodeKey, tuple[float, float]] = {}
        self._before: tuple[tuple[NodeKey, ...], Floats] = ((), np.empty(0))

    def with_lapsed(self, snapshot: Snapshot, loads: Floats) -> Floats:
        """`loads` [node], with the last one of each node that was known and is not."""
        keys = node_keys(snapshot.nodes)
        names, before = self._before
        rows = {key: row for row, key in enumerate(names)} if names != keys else None
        kept: dict[NodeKey, tuple[float, float]] = {}
        result = loads
        for row in np.flatnonzero(snapshot.states.lapsed & np.isnan(loads)).tolist():
            old = row if rows is None else rows.get(keys[row])
            last = float(before[old]) if old is not None else np.nan
            load, since = self._kept.get(keys[row], (last, snapshot.time))
            if 0 <= snapshot.time - since < self._forget_after:
                kept[keys[row]] = load, since
                result = result.copy() if result is loads else result
                result[row] = load
        self._kept, self._before = kept, (keys, loads)
        return result
