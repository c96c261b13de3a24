"""Writes the annotations of crane-scheduler, through the one writer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from ballast.base.clock import Clock
from ballast.cluster.node_writes import node_metadata
from ballast.cluster.write import Result, WriteOutcome
from ballast.cluster.writer import Writer
from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.model.snapshot import Snapshot
from ballast.publishing.crane_plan import CraneChange, CranePlanner
from ballast.publishing.publisher import PART
from ballast.publishing.round import Round, send
from ballast.scoring.crane import CranePolicy, bindings_of, hot_values


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
        nodes = {node.name: found for node in snapshot.nodes if (found := current(node.name))}
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
