"""What each node should carry, and the fewest patches that bring it there."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ballast.model.load_limits import Limit, by_resource
from ballast.model.node import Node, Taint
from ballast.model.node_state import NodeState
from ballast.model.sample import Floats
from ballast.model.snapshot import Snapshot
from ballast.publishing import load_taint
from ballast.publishing.freeze import Freeze
from ballast.publishing.load_taint import LoadTaint
from ballast.publishing.node_keys import TAINT_EFFECT, NodeKeys, window_annotation, window_end
from ballast.windows.band import STEPS, Band
from ballast.windows.debounce import Classifier, HysteresisSwitch
from ballast.windows.node_lives import NodeKey, node_keys

PIECE = 20
"""Nodes, whose labels take about 2 ms to plan."""

UNKNOWN = "unknown"
GAP_INTERVALS = 2.5
"""Intervals; cycles that are further apart are not successive."""


@dataclass(frozen=True)
class PublishedKeys:
    """Ballast's keys as a node carries them now; `window_end` is None where there is no readable annotation."""

    score: str | None
    load: str | None
    window: str | None
    tainted: bool
    load_taints: tuple[Taint, ...] = ()
    former: tuple[str, ...] = ()
    """Labels under a prefix that we had before."""

    @classmethod
    def of(cls, node: Node, keys: NodeKeys) -> PublishedKeys:
        """What a node carries under `keys`."""
        return cls(
            node.labels.get(keys.score),
            node.labels.get(keys.load),
            node.annotations.get(keys.window),
            any(taint.key == keys.taint and taint.effect == TAINT_EFFECT for taint in node.taints),
            tuple(taint for taint in node.taints if taint.key == keys.load_taint),
            tuple(key for key in keys.former if key in node.labels),
        )


@dataclass(frozen=True)
class NodeChange:
    """One node's patch: None removes a key. `taint` and `load_taints` are wanted, None where they are right already."""

    node: str
    labels: Mapping[str, str | None]
    annotations: Mapping[str, str | None]
    taint: bool | None
    reason: str
    load_taints: tuple[Taint, ...] | None = None

    @property
    def tainting(self) -> bool:
        """Whether a taint changes."""
        return self.taint is not None or self.load_taints is not None

    @property
    def empty(self) -> bool:
        """Whether there is nothing to write."""
        return not self.labels and not self.annotations and not self.tainting


@dataclass(frozen=True)
class Foreign:
    """The nodes that carry what another `written`, and those that are `contended`: the taint is theirs."""

    written: Collection[str] = ()
    contended: Collection[str] = ()


@dataclass(frozen=True)
class LabelRules:
    """The thresholds and times of publishing. Loads are fractions, times are seconds."""

    low: Limit
    """Below it a node is `low`."""
    high: Limit
    """From it on a node is `high`."""
    overloaded: Limit
    """From it on a node is overloaded."""
    hysteresis: float
    """How far the load has to go back beyond a threshold before the class or the taint changes back."""
    refresh: float
    """The age at which an annotation is renewed."""
    jitter: float
    """The fraction of `refresh` by which refreshes are spread."""
    forget_after: float
    """How long a node keeps what it carries while it is young or has no score, and its taint while it is not known."""
    interval: float
    """The time between two snapshots that are planned for."""
    taint: bool
    """Whether overloaded nodes get the taint."""
    load_taint: str | None = None
    """The effect of the taint with the load; None where there is to be none."""


class _Track:
    """What successive cycles told about one node; begins with what it carries, so a restart changes nothing."""

    __slots__ = ("band", "classifier", "load", "overload", "unscored_since")

    def __init__(self, carried: PublishedKeys, rules: LabelRules) -> None:
        gap = GAP_INTERVALS * rules.interval
        self.band = Band(gap=gap, label=_number(carried.score))
        low, high, overloaded = (reference(limit) for limit in (rules.low, rules.high, rules.overloaded))
        self.classifier = Classifier(low, high, rules.hysteresis, gap=gap, current=carried.load)
        self.overload = HysteresisSwitch(
            overloaded, overloaded - rules.hysteresis, gap=gap, state=carried.tainted or None
        )
        self.load = LoadTaint(rules.hysteresis, gap=gap, value=load_taint.value_of(carried.load_taints))
        self.unscored_since: float | None = None


class LabelPlanner:
    """Decides for each node. It remembers what takes several cycles: bands, debounce, how long a node is unknown.

    A score or class label that has to change is one patch, and the annotation rides along. Otherwise the annotation is
    renewed when it is `refresh` seconds old, earlier by up to `jitter` of that, spread over the nodes by their names.
    A node that is silent, down or never measured loses its score and window, and its taint after `forget_after`
    seconds; the taint with its load only gets worse. A young node keeps all it carries for `forget_after` seconds. A
    node whose load is known, but which the strategy cannot score, keeps its score as long. A node that is created again
    under an old name begins with what it carries itself.
    """

    def __init__(
        self, keys: NodeKeys, rules: LabelRules, identity: str = "", between: Callable[[], object] = lambda: None
    ) -> None:
        """`identity` tells this Ballast from another one; the annotation carries it. `between` is called after each
        `PIECE` nodes, so that those who wait for the interpreter have their turn.
        """
        self.identity, self.taints = identity, rules.taint
        self._pause = between
        self._keys = keys
        self._rules = rules
        self._contended: Collection[str] = ()
        self._tracks: dict[NodeKey, _Track] = {}
        self._unknown_since: dict[NodeKey, float] = {}

    def plan(
        self,
        snapshot: Snapshot,
        scores: Mapping[str, float | None],
        carried: Mapping[str, PublishedKeys],
        freeze: Freeze,
        now: float,
        foreign: Foreign = Foreign(),
    ) -> list[NodeChange]:
        """The changes of this cycle at monotonic time `now`: withdrawals first, then labels, then refreshes.

        What another wrote is taken back where we have nothing to put in its place.
        """
        self._contended = foreign.contended
        keys = node_keys(snapshot.nodes)
        self._tracks = {key: self._tracks.get(key) or _Track(carried[key[0]], self._rules) for key in keys}
        known, young = snapshot.known.tolist(), snapshot.states.are(NodeState.YOUNG).tolist()
        self._unknown_since = {
            keys[row]: self._unknown_since.get(keys[row], now) for row in np.flatnonzero(~snapshot.known).tolist()
        }
        # Long after all data ended, nothing that is published can be trusted: everything is taken back.
        if freeze.forgotten(now):
            self._tracks.clear()
            return [
                change
                for node in snapshot.nodes
                if (change := self._withdraw(node.name, carried[node.name], "forgotten", taint=False))
            ]
        if freeze.frozen:
            return [change for name in sorted(foreign.written) if (change := self._take_back(name, carried[name]))]
        peaks = LoadPeaks.of(snapshot, self._rules)
        withdrawals: list[NodeChange] = []
        labels: list[NodeChange] = []
        refreshes: list[NodeChange] = []
        for row, key in enumerate(keys):
            self._between(row)
            name = key[0]
            if name in foreign.written and (not known[row] or scores.get(name) is None):
                del self._tracks[key]
                if (change := self._take_back(name, carried[name])) is not None:
                    withdrawals.append(change)
            elif known[row]:
                change = self._publish(snapshot, row, scores.get(name), peaks, carried[name], self._tracks[key], now)
                if change is not None:
                    (labels if change.labels or change.tainting else refreshes).append(change)
            else:
                forgotten = now - self._unknown_since[key] >= self._rules.forget_after
                if young[row] and not forgotten:
                    continue
                # The track goes too: when data comes back, bands and debounce begin with what the node carries.
                del self._tracks[key]
                load = load_taint.unknown(carried[name].load_taints, worse=forgotten)
                taint = False if forgotten else None
                change = self._withdraw(name, carried[name], "unknown", taint=taint, load=load)
                if change is not None:
                    withdrawals.append(change)
        return withdrawals + labels + refreshes

    def _between(self, row: int) -> None:
        if row % PIECE == 0:
            self._pause()

    def _publish(
        self,
        snapshot: Snapshot,
        row: int,
        score: float | None,
        peaks: LoadPeaks,
        carried: PublishedKeys,
        track: _Track,
        now: float,
    ) -> NodeChange | None:
        label = track.band.observe(snapshot.time, score)
        if score is not None:
            track.unscored_since = None
        elif track.unscored_since is None:
            track.unscored_since = now
        load = track.classifier.observe(snapshot.time, float(peaks.low[row]), float(peaks.high[row]))
        overloaded = bool(track.overload.observe(snapshot.time, float(peaks.overloaded[row]))) and self._rules.taint
        name = snapshot.nodes[row].name
        labels: dict[str, str | None] = dict.fromkeys(carried.former)
        if track.unscored_since is not None and now - track.unscored_since >= self._rules.forget_after:
            track.band.label = None
            if carried.score is not None:
                labels[self._keys.score] = None
        elif label is not None and carried.score != str(label):
            labels[self._keys.score] = str(label)
        if load is not None and carried.load != load:
            labels[self._keys.load] = load
        taint = self._taint(name, carried, overloaded)
        # The annotation changes with every window. It is written with a label, or when the old one ages out.
        if labels or self._refresh_due(name, carried, snapshot.time):
            annotations: dict[str, str | None] = {self._keys.window: window_annotation(snapshot, row, self.identity)}
        else:
            annotations = {}
        part = None
        if self._rules.load_taint is not None:
            part = track.load.observe(snapshot.time, float(peaks.load[row]))
        load_taints = self._load_taints(part, carried)
        reason = "refresh" if not labels and taint is None and load_taints is None else "changed"
        change = NodeChange(name, labels, annotations, taint, reason, load_taints)
        return None if change.empty else change

    def _load_taints(self, value: int | None, carried: PublishedKeys) -> tuple[Taint, ...] | None:
        """The taint with this value, or none where it is not asked for; None if that is what the node carries."""
        if self._rules.load_taint is None:
            return () if carried.load_taints else None
        taints = (Taint(self._keys.load_taint, self._rules.load_taint, str(value)),)
        return None if value is None or taints == carried.load_taints else taints

    def _taint(self, name: str, carried: PublishedKeys, wanted: bool | None) -> bool | None:
        """Whether the taint is to come or to go; None where it stays as it is, also where nobody wants either."""
        wanted = True if name in self._contended else wanted
        return None if wanted == carried.tainted else wanted

    def _withdraw(
        self, name: str, carried: PublishedKeys, reason: str, *, taint: bool | None, load: int | None = None
    ) -> NodeChange | None:
        """Takes back score and window; `taint` is as in `_taint`, `load` what its load counts as."""
        labels: dict[str, str | None] = dict.fromkeys(carried.former)
        if carried.score is not None:
            labels[self._keys.score] = None
        if carried.load != UNKNOWN:
            labels[self._keys.load] = UNKNOWN
        annotations: dict[str, str | None] = {} if carried.window is None else {self._keys.window: None}
        tainted = self._taint(name, carried, taint)
        change = NodeChange(name, labels, annotations, tainted, reason, self._load_taints(load, carried))
        return None if change.empty else change

    def _take_back(self, name: str, carried: PublishedKeys) -> NodeChange | None:
        """Nothing that another wrote stays; the taints only get worse."""
        load = load_taint.unknown(carried.load_taints, worse=True)
        return self._withdraw(name, carried, "contended", taint=None, load=load)

    def _refresh_due(self, name: str, carried: PublishedKeys, end: float) -> bool:
        written = window_end(carried.window) if carried.window is not None else None
        lifetime = self._rules.refresh * (1 - self._rules.jitter * spread(name))
        return written is None or not 0 <= end - written < lifetime


def _number(label: str | None) -> int | None:
    return int(label) if label is not None and label.isdecimal() and 0 <= int(label) <= STEPS else None


def spread(name: str) -> float:
    """A number in [0, 1) that belongs to a node name for ever."""
    return zlib.crc32(name.encode()) / 2**32


class Limits(Protocol):
    """Three limits, each one number for cpu and memory or one for each resource."""

    @property
    def low(self) -> Limit: ...
    @property
    def high(self) -> Limit: ...
    @property
    def overloaded(self) -> Limit: ...


@dataclass(frozen=True)
class LoadPeaks:
    """[node] for each limit: the largest mean load, as a load of the resource whose limit is the `reference`.

    A resource with another limit counts with its distance from that. NaN where none is known. `load` is the largest
    mean load itself, of the resources that have a limit `high`.
    """

    low: Floats
    high: Floats
    overloaded: Floats
    load: Floats

    @classmethod
    def of(cls, snapshot: Snapshot, limits: Limits) -> LoadPeaks:
        """Over the primary window."""
        load = dict.fromkeys(by_resource(limits.high), 0.0)
        return cls(*(_peak(snapshot, limit) for limit in (limits.low, limits.high, limits.overloaded, load)))


def reference(limit: Limit) -> float:
    """The number that peaks are compared with."""
    return next(iter(limit.values())) if isinstance(limit, Mapping) else limit


def _peak(snapshot: Snapshot, limit: Limit) -> Floats:
    shifted = [
        snapshot.primary.mean[row] + (reference(limit) - bound)
        if bound != reference(limit)
        else snapshot.primary.mean[row]
        for name, bound in by_resource(limit).items()
        if (row := snapshot.resource(name)) is not None
    ]
    peaks: Floats = np.fmax.reduce(shifted) if shifted else np.full(len(snapshot.nodes), np.nan)
    return peaks
