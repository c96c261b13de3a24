"""The load of the last day: what the nodes of each pool used together, from snapshots, Prometheus and `ballast-state`.

Together, because pods move: what one node had at its peak says little of what it has next. In cores and bytes, because
nodes go: what those that are left use says nothing of what all had to carry.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
import numpy as np
import structlog

from ballast.base.errors import BallastError, ClusterError
from ballast.cluster.context import Context
from ballast.model.duration import DAY
from ballast.model.node import Node
from ballast.model.node_state import AMOUNTS
from ballast.model.sample import Floats, Reading
from ballast.model.snapshot import Snapshot
from ballast.telemetry.node_names import Naming
from ballast.telemetry.source import Source

log = structlog.get_logger(__name__)

EVERY = 900.0
"""Seconds between two values that are kept."""

QUANTILE = 0.95
"""Of the values of a day, the one that counts as its peak."""

COVERED = 0.8
"""Share of the values of a day that have to be known."""

SAVE_EVERY = 3600.0
"""Seconds between two writes, and between two attempts to read the day back."""

DAY_KEY = "eviction.day"
"""Key of `ballast-state`."""

Used = Mapping[str, Mapping[str, float]]
"""{pool: {resource: cores, bytes or sum of ratios}}"""

_saved = msgspec.json.Decoder(dict[float, dict[str, dict[str, float]]])


class DayPeak:
    """Remembers what the nodes of each pool used together over the last day."""

    def __init__(self) -> None:
        self._kept: dict[float, Used] = {}

    def observe(self, snapshot: Snapshot) -> None:
        """Keeps what is used now."""
        if snapshot.time - max(self._kept, default=-np.inf) >= EVERY:
            pools = [snapshot.pool(row) for row in range(len(snapshot.nodes))]
            self.add({snapshot.time: _used(snapshot.primary.mean, snapshot.resources, snapshot.nodes, pools)})

    def add(self, values: Mapping[float, Used]) -> None:
        """Values by Unix time; those that are known already stay.

        One value from before the day shows that it is whole.
        """
        kept = dict(sorted({**values, **self._kept}.items()))
        times = list(kept)
        old = [time for time in times if time <= times[-1] - DAY] if times else []
        self._kept = {time: used for time, used in kept.items() if not old or time >= old[-1]}

    def covers(self, now: float, pool: str, resource: str) -> bool:
        """Whether a day of this resource is known."""
        times = [time for time, used in tuple(self._kept.items()) if resource in used.get(pool, {})]
        lately = sum(time > now - DAY for time in times)
        return min(times, default=now) <= now - DAY and lately >= COVERED * DAY / EVERY

    def loads(self, snapshot: Snapshot) -> Floats:
        """[resource, node]: loads at the p95 of the day, where every node of a pool has its share of it; NaN where no
        day is known."""
        pools = [snapshot.pool(row) for row in range(len(snapshot.nodes))]
        now = _used(snapshot.primary.mean, snapshot.resources, snapshot.nodes, pools)
        highest: Floats = np.full_like(snapshot.primary.mean, np.nan)
        kept = tuple(self._kept.values())
        for name, used in now.items():
            rows = [row for row, pool in enumerate(pools) if pool == name]
            for number, resource in enumerate(snapshot.resources):
                if not self.covers(snapshot.time, name, resource) or resource not in used:
                    continue
                of_day = [values[name][resource] for values in kept if resource in values.get(name, {})]
                most = float(np.quantile(of_day, QUANTILE))
                # A pool that uses nothing now has no ratio to its peak; then the peak goes evenly to its nodes.
                mean = snapshot.primary.mean[number, rows]
                whole = sum(_whole(snapshot.nodes[row], resource) for row in rows)
                highest[number, rows] = (
                    mean * max(1.0, most / used[resource]) if used[resource] > 0 else most / whole if whole else np.nan
                )
        return highest

    def encode(self) -> str:
        """As JSON, six digits of each value."""
        rounded = {
            str(round(time)): {
                pool: {name: float(f"{amount:.6g}") for name, amount in used.items()} for pool, used in by_pool.items()
            }
            for time, by_pool in self._kept.items()
        }
        return msgspec.json.encode(rounded).decode()


class DayKeeper:
    """Keeps the day in `ballast-state`, and reads it back from there and from a source with history.

    `observe` at every snapshot, `keep` in the job's thread where this replica leads.
    """

    def __init__(self, context: Context, source: Callable[[], Source] | None, *, needed: bool) -> None:
        """`source` opens one with history, if there is any; `needed`: whether any planner goes by the day."""
        self._state, self._needed, self._open = context.state, needed, source
        self._settings = context.settings
        self._tried = self._saved = -np.inf
        self._restored = False
        self.peak = DayPeak()

    def observe(self, snapshot: Snapshot) -> None:
        """Keeps what is used now."""
        if self._needed:
            self.peak.observe(snapshot)

    def loads(self, snapshot: Snapshot) -> Floats | None:
        """[resource, node]: loads at the p95 of the day, NaN where it is not known; None where nobody needs them."""
        return self.peak.loads(snapshot) if self._needed else None

    def keep(self, snapshot: Snapshot) -> None:
        """Reads back what is missing of the day, and saves it once an hour.

        Raises ClusterError for unreadable state.
        """
        if not self._needed:
            return
        if not self._restored:
            self._restore(snapshot.time)
        if self._open is not None and not self._known(snapshot) and snapshot.time - self._tried >= SAVE_EVERY:
            self._tried = snapshot.time
            self._read_back(snapshot, self._open())
        if snapshot.time - self._saved >= SAVE_EVERY:
            self._saved = snapshot.time
            text = self.peak.encode()
            self._state.update(lambda keys: {**keys, DAY_KEY: text}, reason="the load of the last day")

    def _known(self, snapshot: Snapshot) -> bool:
        pools = {snapshot.pool(row) for row in range(len(snapshot.nodes))}
        return all(self.peak.covers(snapshot.time, pool, name) for pool in pools for name in snapshot.resources)

    def _restore(self, now: float) -> None:
        text = self._state.read().get(DAY_KEY)
        self._restored = True
        try:
            saved = _saved.decode(text) if text else {}
        except (ValueError, RecursionError) as error:
            raise ClusterError(
                f"Key {DAY_KEY} of ConfigMap ballast-state cannot be read: {error}. Delete the key to forget the day."
            ) from error
        # One value of just before the day shows that all of it is known. The future has not been measured.
        stamps = self._state.stamps(DAY_KEY)
        known = {time: used for time, used in saved.items() if stamps.past(time) == time}
        self.peak.add({time: used for time, used in known.items() if now - DAY - 2 * EVERY < time <= now})

    def _read_back(self, snapshot: Snapshot, source: Source) -> None:
        """The readings of the last day, up to the last one of which a series matched no node: nodes may have gone, and
        what they carried is not in it."""
        names = Naming.of(self._settings).over(snapshot.nodes)
        pools = [snapshot.pool(row) for row in range(len(snapshot.nodes))]
        end = (snapshot.time // EVERY) * EVERY
        try:
            values: dict[float, Used] = {}
            for reading in source.backfill(end - DAY - EVERY, end, EVERY, names):
                if reading.rejected.get("unmatched"):
                    values.clear()
                else:
                    values[reading.at] = _used(_loads_of(reading, snapshot), snapshot.resources, snapshot.nodes, pools)
            self.peak.add(values)
        except BallastError as error:
            log.warning("the load of the last day could not be read back", error=str(error))
        finally:
            source.close()


def _loads_of(reading: Reading, snapshot: Snapshot) -> Floats:
    """[resource, node], NaN where unknown."""
    load = np.full((len(snapshot.resources), len(snapshot.nodes)), np.nan)
    for name, samples in reading.samples.items():
        number = snapshot.resource(name)
        if number is not None:
            load[number, samples.rows] = samples.values
    return load


def _used(load: Floats, resources: Sequence[str], nodes: Sequence[Node], pools: Sequence[str]) -> Used:
    """Of loads [resource, node]; nodes of unknown load count as the others do on average.

    A resource of which nothing is known is left out.
    """
    used_by_pool: dict[str, dict[str, float]] = {}
    for name in sorted(set(pools)):
        rows = [row for row, pool in enumerate(pools) if pool == name]
        used_by_pool[name] = dict(_together(load[:, rows], resources, [nodes[row] for row in rows]))
    return used_by_pool


def _together(load: Floats, resources: Sequence[str], nodes: Sequence[Node]) -> Iterable[tuple[str, float]]:
    for resource, values in zip(resources, load, strict=True):
        whole = np.array([_whole(node, resource) for node in nodes], float)
        known = np.isfinite(values)
        if whole[known].sum() > 0:
            yield resource, float((values[known] * whole[known]).sum() * whole.sum() / whole[known].sum())


def _whole(node: Node, resource: str) -> float:
    return node.allocatable.get(resource, 0.0) if resource in AMOUNTS else 1.0
