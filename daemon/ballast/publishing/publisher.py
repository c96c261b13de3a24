"""One round of publishing: plan the changes against what the nodes carry, send the patches, report the outcome."""

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import msgspec

from ballast.base.clock import Clock
from ballast.base.parts import Part
from ballast.cluster.client import KubeApi
from ballast.cluster.node_writes import Taints, manager_of_keys, node_metadata, replace_taints, with_taint, with_values
from ballast.cluster.objects import wire
from ballast.cluster.versions import Versions
from ballast.cluster.write import Result, WriteOutcome
from ballast.cluster.writer import Writer
from ballast.model.node import Node
from ballast.model.snapshot import Snapshot
from ballast.publishing.contention import LabelContention
from ballast.publishing.freeze import Freeze
from ballast.publishing.label_plan import Foreign, LabelPlanner, NodeChange, PublishedKeys
from ballast.publishing.node_keys import NodeKeys, window_end
from ballast.publishing.round import Round, send

PART = Part.PUBLISHING
IDLE_ROUNDS = 5
"""Rounds without one of our own after which another replica may have written."""

STAMPED = 0.002
"""Seconds by which times that annotations name may be off."""

_patched = msgspec.json.Decoder(wire.HasIdentity)


@dataclass(frozen=True)
class _Assumed:
    """What a node carries after our patch, until the watch has caught up with `version`; None in dry-run: always.

    It ends with the node: one of another UID carries what it shows.
    """

    carried: PublishedKeys
    version: int | None
    uid: str | None = None


class Publisher:
    """Writes what the planner decided, through the one writer, for at most one interval; the rest is planned again."""

    def __init__(
        self,
        api: KubeApi,
        writer: Writer,
        clock: Clock,
        keys: NodeKeys,
        planner: LabelPlanner,
        *,
        interval: float,
        versions: Versions | None = None,
    ) -> None:
        writer_of = partial(manager_of_keys, api, keys=(keys.score, keys.load, keys.window))
        patience = IDLE_ROUNDS * interval
        self._contention = LabelContention(planner.identity, patience, writer_of, taints=planner.taints)
        self._api = api
        self._writer = writer
        self._clock = clock
        self._keys = keys
        self._planner = planner
        self._interval = interval
        self._assumed: dict[str, _Assumed] = {}
        self._nodes: dict[str, Node] = {}
        self._versions = versions or Versions()
        self._turns = 0
        self._failed: set[str] = set()
        self._others: str | None = None
        self.patches = 0
        """Patches of labels and annotations that were made in the last round."""
        self.alarm: Callable[[], object] = lambda: None
        """Called where another has written a node, in the thread that notices: the next round is to come soon."""
        self._busy = False
        self._stop = threading.Event()

    def stop(self) -> None:
        """Ends a round after the write under way."""
        self._stop.set()

    def classes(self) -> dict[str, str]:
        """The load class of nodes we have just written, or would have in dry-run; the others carry theirs."""
        return {name: assumed.carried.load for name, assumed in list(self._assumed.items()) if assumed.carried.load}

    def noticed(self, node: Node) -> None:
        """The watch shows a node. The first foreign write is answered at once, those after it by the next round."""
        if not self._busy and self._contention.newly(
            node.name, PublishedKeys.of(node, self._keys), self._clock.monotonic()
        ):
            self._busy = True
            self.alarm()

    def round(
        self,
        snapshot: Snapshot,
        scores: Mapping[str, float | None],
        freeze: Freeze,
        current: Callable[[str], Node | None],
    ) -> Round:
        """`current` gives a node as the watch last saw it, None when it is gone.

        Nodes that could not be written in the round before come last, so that they hold up nobody else.
        """
        self._busy = True
        carried = self._carried(snapshot, current)
        now = self._clock.monotonic()
        self._others = self._contention.others(carried, snapshot.time)
        others = Foreign(self._contention.foreign(), self._contention.contended(now))
        for name in others.written:
            carried[name] = replace(carried[name], window=carried[name].window and "")
        changes = self._planner.plan(snapshot, scores, carried, freeze, now, others)
        there = [change for change in changes if current(change.node) is not None]
        return self._apply(sorted(there, key=lambda change: change.node in self._failed), carried)

    def windows_after(self, time: float, nodes: Iterable[Node]) -> list[float]:
        """The ends after `time` of the windows that nodes carry: whoever led then patched each of them once."""
        carried = (PublishedKeys.of(node, self._keys).window for node in nodes)
        ends = (window_end(window) for window in carried if window)
        return [end for end in ends if end is not None and end > time + STAMPED]

    def forget(self) -> None:
        """Another replica may have written until now, which is no foreign write."""
        self._contention.forget()

    def contended(self) -> str | None:
        """Who else has written our keys of late, and on which nodes."""
        return self._contention.problem(self._clock.monotonic())

    def others(self) -> str | None:
        """Which other Ballast has written nodes since this one began, as of the last round."""
        return self._others

    def _carried(self, snapshot: Snapshot, current: Callable[[str], Node | None]) -> dict[str, PublishedKeys]:
        carried = {}
        nodes = [current(old.name) or old for old in snapshot.nodes]
        self._nodes = {node.name: node for node in nodes}
        uids = {node.name: node.uid for node in nodes}
        now = self._clock.monotonic()
        if self._turns != self._versions.turns:  # What nodes carry may be as of a backup, which nobody wrote now.
            self._turns = self._versions.turns
            self._contention.forget()
        self._contention.begin(uids, now)
        self._assumed = {name: assumed for name, assumed in self._assumed.items() if uids.get(name) == assumed.uid}
        for node in nodes:
            assumed = self._assumed.get(node.name)
            if assumed is not None and (assumed.version is None or _version(node.resource_version) < assumed.version):
                carried[node.name] = assumed.carried
            else:
                self._assumed.pop(node.name, None)
                carried[node.name] = PublishedKeys.of(node, self._keys)
                self._contention.saw(node.name, node.uid, carried[node.name], now)
        return carried

    def _apply(self, changes: list[NodeChange], carried: Mapping[str, PublishedKeys]) -> Round:
        self.patches = 0
        result = send(
            changes,
            lambda change, until: self._write(change, carried[change.node], until),
            clock=self._clock,
            writer=self._writer,
            interval=self._interval,
            stop=self._stop,
        )
        self._failed = result.failures
        self._busy = False
        return result

    def _write(self, change: NodeChange, carried: PublishedKeys, deadline: float) -> WriteOutcome:
        outcome: WriteOutcome | None = None
        if change.labels or change.annotations:
            write = node_metadata(
                change.node,
                change.labels,
                change.annotations,
                part=PART,
                reason=f"load of {change.node}: {change.reason}",
            )
            outcome = self._writer.submit(write, deadline=deadline)
            self.patches += outcome.done
            carried = self._assume(change.node, outcome, self._after(change, carried)) or carried
        if outcome is not None and self._stop.is_set():
            return outcome
        if change.tainting and (outcome is None or outcome.result in (Result.DONE, Result.DRY_RUN)):
            outcome = replace_taints(
                self._api,
                self._writer,
                change.node,
                lambda taints: self._tainted(taints, change),
                part=PART,
                reason=f"load of {change.node}: {change.reason}"
                if change.taint is None
                else f"{change.node} is {'' if change.taint else 'no longer '}overloaded",
                deadline=deadline,
                aggregated=change.taint is None,
            )
            after = carried if change.taint is None else replace(carried, tainted=change.taint)
            if change.load_taints is not None:
                after = replace(after, load_taints=change.load_taints)
            self._assume(change.node, outcome, after)
        assert outcome is not None
        return outcome

    def _tainted(self, taints: Taints, change: NodeChange) -> Taints:
        if change.taint is not None:
            taints = with_taint(taints, self._keys.taint, change.taint)
        if change.load_taints is not None:
            taints = with_values(taints, self._keys.load_taint, change.load_taints)
        return taints

    def _after(self, change: NodeChange, carried: PublishedKeys) -> PublishedKeys:
        return PublishedKeys(
            change.labels.get(self._keys.score, carried.score),
            change.labels.get(self._keys.load, carried.load),
            change.annotations.get(self._keys.window, carried.window),
            carried.tainted,
            carried.load_taints,
        )

    def _assume(self, name: str, outcome: WriteOutcome, after: PublishedKeys) -> PublishedKeys | None:
        assumed, node = self._assumed.get(name), self._nodes[name]
        only_assumed = assumed is not None and assumed.version is None
        if outcome.result is Result.DRY_RUN or (outcome.done and only_assumed):
            self._assumed[name] = _Assumed(after, None, node.uid)
        elif outcome.done and outcome.body:
            meta = _patched.decode(outcome.body).metadata
            if self._turns == self._versions.turns:  # One proof a round is enough.
                self._versions.went_back(meta.resource_version, node.resource_version, f"node {name}")
            self._assumed[name] = _Assumed(after, _version(meta.resource_version), node.uid)
            self._contention.wrote(name, node.uid, after)
        else:
            if outcome.result is Result.FAILED:  # Perhaps its answer alone was lost.
                self._contention.tried(name, after)
            return None
        return after


def _version(text: str) -> int:
    return int(text) if text.isdecimal() else 0
