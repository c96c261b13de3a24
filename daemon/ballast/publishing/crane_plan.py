"""The annotations of crane-scheduler: what nodes should carry by its policy, and which of it is due.

The format is that of gocrane/crane-scheduler (pkg/controller/annotator/node.go): the bare name of a metric, and as its
value a ratio of capacity and the wall clock in the scheduler's time zone. Its recording rules are followed: `avg_5m` is
the mean over 5 minutes, `max_avg_1h` the highest of these within an hour. Other than crane, a stamp is the time of the
newest sample, so that what stands still expires, and nothing is written of what is not known.
"""

import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo

import numpy as np

from ballast.base.clock import Clock
from ballast.cluster.node_writes import node_metadata
from ballast.cluster.write import Result, WriteOutcome
from ballast.cluster.writer import Writer
from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.model.sample import Floats, Ints
from ballast.model.snapshot import Snapshot
from ballast.publishing.label_plan import spread
from ballast.publishing.publisher import PART
from ballast.publishing.round import Round, send
from ballast.scoring.crane import EXTRA_SECONDS, HOT_VALUE, STAMP, CranePolicy, bindings_of, hot_values, unix
from ballast.windows.node_lives import NodeKey, node_keys
from ballast.windows.peak import PeakLoads

RESOURCES = ("cpu", "memory")

MEAN = 300.0
"""Seconds of the mean whose highest counts, as in crane's recording rules."""

STEADY = 0.01
"""A value that moved less may wait longer."""

HOT_PERIOD = 180.0
"""Seconds after which a hot value is renewed; it counts for five minutes."""

_METRIC = re.compile(r"(cpu|mem)_usage_(max_)?avg_(\d+)([smhd])")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True)
class CraneMetric:
    """One key: the mean over `seconds` of a resource, or the highest mean within them; synced each `period` seconds."""

    name: str
    resource: int
    highest: bool
    seconds: float
    period: float


@dataclass(frozen=True)
class CraneAnnotations:
    """The number of one annotation as text, and the Unix time of its stamp."""

    number: str
    stamp: float


@dataclass(frozen=True)
class CraneChange:
    """What is due on one node."""

    node: str
    values: Mapping[str, CraneAnnotations]


def is_written(key: str) -> bool:
    """Whether an annotation is one that Ballast may write for crane-scheduler, by whatever policy."""
    return key == HOT_VALUE or _METRIC.fullmatch(key) is not None


def metrics_of(policy: CranePolicy) -> tuple[CraneMetric, ...]:
    """Those that Ballast knows; others are left to whoever writes them."""
    metrics = []
    for name, period in policy.periods.items():
        if match := _METRIC.fullmatch(name):
            of, highest, number, unit = match.groups()
            seconds = float(number) * _SECONDS[unit]
            metrics.append(CraneMetric(name, ("cpu", "mem").index(of), bool(highest), seconds, period))
    return tuple(metrics)


class CranePlanner:
    """Remembers what has been written and the highest means; the rest is on the nodes, so a restart changes nothing."""

    def __init__(self, policy: CranePolicy, zone: tzinfo, *, min_coverage: float, jitter: float) -> None:
        """`jitter` is the share of a period by which nodes are written earlier, each by its own."""
        self.metrics = metrics_of(policy)
        self.foreign = sorted(set(policy.periods) - {metric.name for metric in self.metrics})
        self.span = max((metric.seconds for metric in self.metrics if metric.highest), default=0.0)
        self._zone = zone
        self._min_coverage = min_coverage
        self._jitter = jitter
        self._highest = PeakLoads(len(RESOURCES), self.span)
        self._written: dict[str, dict[str, CraneAnnotations]] = {}

    def remember(self, time: float, names: Sequence[NodeKey], ratios: Floats) -> None:
        """Means at `time`, also of the past: ratios of capacity [cpu and memory, node], NaN where unknown."""
        self._highest.observe(time, names, ratios)

    def plan(self, snapshot: Snapshot, hot: Ints, now: float, current: Mapping[str, Node]) -> list[CraneChange]:
        """The changes of this cycle, the longest overdue first. `hot` [node] are the hot values at `now` (Unix)."""
        names = tuple(snapshot.rows)
        self._written = {name: self._written[name] for name in names if name in self._written}
        self.remember(snapshot.time, node_keys(snapshot.nodes), _means(snapshot, MEAN))
        values = {metric.name: self._values(snapshot, metric)[metric.resource] for metric in self.metrics}
        newest = _of_resources(snapshot, snapshot.newest)
        changes: list[tuple[float, CraneChange]] = []
        for row, node in enumerate(snapshot.nodes):
            if not snapshot.known[row] or node.name not in current:
                continue
            carried = self._carried(current[node.name])
            due: dict[str, CraneAnnotations] = {}
            late = 0.0
            for metric in self.metrics:
                ratio, stamp = float(values[metric.name][row]), float(newest[metric.resource, row])
                if np.isfinite(ratio) and ratio >= 0 and np.isfinite(stamp):
                    before = carried.get(metric.name)
                    overdue = self._overdue(before, ratio, stamp, metric.period, node.name)
                    if overdue >= 0:
                        due[metric.name] = CraneAnnotations(f"{ratio:.5f}", stamp)
                        late = max(late, overdue)
            if self._hot_is_due(carried.get(HOT_VALUE), int(hot[row]), now):
                due[HOT_VALUE] = CraneAnnotations(str(int(hot[row])), now)
            if due:
                changes.append((late, CraneChange(node.name, due)))
        return [change for _, change in sorted(changes, key=lambda each: (-each[0], each[1].node))]

    def text(self, value: CraneAnnotations) -> str:
        """The annotation: number and stamp in the time zone of the scheduler."""
        return f"{value.number},{datetime.fromtimestamp(int(value.stamp), self._zone).strftime(STAMP)}"

    def wrote(self, change: CraneChange) -> None:
        """Records that a change was written."""
        self._written.setdefault(change.node, {}).update(change.values)

    def _values(self, snapshot: Snapshot, metric: CraneMetric) -> Floats:
        if metric.highest:
            return self._highest.over(metric.seconds, self._min_coverage)
        return _means(snapshot, metric.seconds)

    def _carried(self, node: Node) -> dict[str, CraneAnnotations]:
        """What it was told last: by us, or by what it carries where that is newer."""
        carried = dict(self._written.get(node.name, {}))
        for key in (*(metric.name for metric in self.metrics), HOT_VALUE):
            number, _, text = node.annotations.get(key, "").partition(",")
            stamp = unix(text, self._zone)
            if stamp is not None and (key not in carried or stamp > carried[key].stamp):
                carried[key] = CraneAnnotations(number, stamp)
        return carried

    def _overdue(self, before: CraneAnnotations | None, ratio: float, stamp: float, period: float, node: str) -> float:
        """Seconds since it should have been renewed, negative before that; never without a newer sample."""
        if before is None:
            return np.inf
        age = stamp - before.stamp
        if 0 <= age < 1:
            return -1.0
        try:
            steady = abs(float(before.number) - ratio) < STEADY
        except ValueError:
            return np.inf
        wait = period + EXTRA_SECONDS / 2 if steady else period
        return abs(age) - wait * (1 - self._jitter * spread(node))

    def _hot_is_due(self, before: CraneAnnotations | None, value: int, now: float) -> bool:
        """Nothing is written again to say that a node is not hot: that is also what the scheduler takes silence for."""
        if before is None or before.number != str(value):
            return True
        return value > 0 and now - before.stamp >= HOT_PERIOD


def _means(snapshot: Snapshot, seconds: float) -> Floats:
    """[cpu and memory, node]: ratios of capacity over the window whose length is nearest; NaN where unknown."""
    window = min(snapshot.windows.values(), key=lambda each: abs(np.log(each.seconds / seconds)))
    return _of_resources(snapshot, snapshot.of_capacity(np.where(window.known, window.mean, np.nan)))


def _of_resources(snapshot: Snapshot, values: Floats) -> Floats:
    rows = np.full((len(RESOURCES), len(snapshot.nodes)), np.nan)
    for index, name in enumerate(RESOURCES):
        row = snapshot.resource(name)
        if row is not None:
            rows[index] = values[row]
    return rows


class CranePublisher:
    """One merge patch per node and round, with everything that is due there; at most `most` of them in a round."""

    def __init__(
        self, writer: Writer, clock: Clock, policy: CranePolicy, planner: CranePlanner, *, interval: float, most: int
    ) -> None:
        self.planner = planner
        self._writer = writer
        self._clock = clock
        self._policy = policy
        self._interval = interval
        self._most = most
        self._stop = threading.Event()

    def stop(self) -> None:
        """Ends a round after the write under way."""
        self._stop.set()

    def round(self, snapshot: Snapshot, pods: Iterable[Pod], current: Callable[[str], Node | None]) -> Round:
        """`current` gives a node as the watch last saw it, None when it is gone."""
        now = self._clock.wall()
        nodes = {node.name: known for node in snapshot.nodes if (known := current(node.name))}
        hot = hot_values(self._policy, bindings_of(pods, snapshot.rows, self._policy, now))
        hot = hot + np.zeros(len(snapshot.nodes), np.int64)
        changes = self.planner.plan(snapshot, hot, now, nodes)
        result = send(
            changes[: self._most],
            self._write,
            clock=self._clock,
            writer=self._writer,
            interval=self._interval,
            stop=self._stop,
        )
        result.waiting += max(0, len(changes) - self._most)
        return result

    def _write(self, change: CraneChange, deadline: float) -> WriteOutcome:
        values: dict[str, str | None] = {key: self.planner.text(value) for key, value in change.values.items()}
        write = node_metadata(
            change.node, {}, values, part=PART, reason=f"metrics of {change.node} for crane-scheduler"
        )
        outcome = self._writer.submit(replace(write, kind="crane"), deadline=deadline)
        if outcome.result in (Result.DONE, Result.DRY_RUN):
            self.planner.wrote(change)
        return outcome
