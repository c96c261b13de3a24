"""The job that keeps the annotations of crane-scheduler."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np
import structlog

from ballast.clock import Clock
from ballast.cluster.conditions import Conditions
from ballast.cluster.writer import Writer
from ballast.jobs import sentences
from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.model.snapshot import Snapshot
from ballast.publishing.crane_plan import RESOURCES, CranePlanner
from ballast.publishing.crane_publisher import CranePublisher
from ballast.publishing.freeze import Freeze
from ballast.scoring.crane import CranePolicy, time_zone
from ballast.settings import Mode, Settings
from ballast.telemetry.node_names import NodeNames
from ballast.telemetry.source import Source
from ballast.windows.peak import BUCKET

if TYPE_CHECKING:
    from ballast.runtime.daemon import Daemon

SHARE = 0.5
"""Of the writes that the budget allows in a round; labels need some too."""

ATTEMPTS = 3
"""To read the past, from which the highest loads of an hour and a day are known at once."""

log = structlog.get_logger("ballast.crane")


class CraneJob:
    """`pods` are those the watch has shown, `node` gives one as the watch last saw it."""

    def __init__(
        self,
        settings: Settings,
        policy: CranePolicy,
        *,
        writer: Writer,
        clock: Clock,
        conditions: Conditions,
        source: Source,
        pods: Callable[[], Iterable[Pod]],
        node: Callable[[str], Node | None],
    ) -> None:
        publishing = settings.publishing
        every = publishing.every(settings.telemetry)
        self._settings = settings
        self._clock = clock
        self._conditions = conditions
        self._source = source
        self._pods = pods
        self._node = node
        self._planner = CranePlanner(
            policy,
            time_zone(publishing.crane_timezone),
            min_coverage=settings.windows.min_coverage,
            jitter=publishing.jitter,
        )
        most = max(1, int(SHARE * settings.cluster.qps * every))
        self._publisher = CranePublisher(writer, clock, policy, self._planner, interval=every, most=most)
        self._past_attempts = 0
        self._seen = -math.inf
        self._stopped = threading.Event()
        log.warning(
            "stamps of crane's annotations are in a time zone that the scheduler must have too, as its TZ",
            timezone=publishing.crane_timezone,
        )

    def stop(self) -> None:
        """Ends a round after the write under way."""
        self._stopped.set()
        self._publisher.stop()

    def cycle(self, snapshot: Snapshot, freeze: Freeze, names: NodeNames) -> str:
        """One round, in a sentence."""
        if freeze.frozen:
            return "wrote no annotations for crane-scheduler: publishing is frozen, and theirs expire"
        if snapshot.time - self._seen > 2 * BUCKET:
            self._past_attempts = 0
        self._seen = snapshot.time
        if self._past_attempts < ATTEMPTS:
            self._read_past(snapshot, names)
        result = self._publisher.round(snapshot, self._pods(), self._node)
        sentences.tell(self._conditions, "CraneFailing", "WriteFailed", result.problem)
        return sentences.crane_sentence(
            result, snapshot, self._planner.foreign, self._settings.publishing, self._settings.telemetry
        )

    def _read_past(self, snapshot: Snapshot, names: NodeNames) -> None:
        """Means of the past at the ends of 5 minutes, as instant values: what the highest ones are found among."""
        end = math.floor(snapshot.time / BUCKET) * BUCKET
        problems: set[str] = set()
        for reading in self._source.backfill(end - self._planner.span + BUCKET, end, BUCKET, names):
            if self._stopped.is_set():
                return
            ratios = np.full((len(RESOURCES), len(names)), np.nan)
            for resource, samples in reading.samples.items():
                if resource in RESOURCES:
                    ratios[RESOURCES.index(resource), samples.rows] = samples.values
            self._planner.remember(reading.at, [node.name for node in names.nodes], ratios)
            problems.update(reading.problems.values())
        self._past_attempts = self._past_attempts + 1 if problems else ATTEMPTS
        if problems:
            log.warning("the past could not be read", attempt=self._past_attempts, error="; ".join(sorted(problems)))


def craning(daemon: Daemon) -> CraneJob | None:
    """The job of a daemon that has everything else, None where it is not to run."""
    publishing = daemon.settings.publishing
    if not publishing.crane or publishing.mode is Mode.OFF:
        return None
    return CraneJob(
        daemon.settings,
        daemon.strategies.policy,
        writer=daemon.writer,
        clock=daemon.clock,
        conditions=daemon.conditions,
        source=daemon.telemetry.source,
        pods=daemon.cache.pods,
        node=daemon.cache.node,
    )
