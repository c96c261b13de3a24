"""The job that keeps the annotations of crane-scheduler."""

import math
import threading

import numpy as np
import structlog

from ballast.cluster.context import Context
from ballast.jobs import sentences
from ballast.jobs.progress import Known
from ballast.model.snapshot import Snapshot
from ballast.publishing.crane_plan import RESOURCES, CranePlanner, CranePublisher
from ballast.scoring.crane import CranePolicy, time_zone
from ballast.settings import Mode
from ballast.telemetry.node_names import NodeNames
from ballast.telemetry.source import Source
from ballast.windows.node_lives import node_keys
from ballast.windows.peak import BUCKET

SHARE = 0.5
"""Of the writes that the budget allows in a round; labels need some too."""

ATTEMPTS = 3
"""To read the past, from which the highest loads of an hour and a day are known at once."""

log = structlog.get_logger("ballast.crane")


class CraneJob:
    """Keeps the annotations that crane-scheduler's Dynamic plugin reads."""

    def __init__(self, context: Context, policy: CranePolicy, source: Source) -> None:
        settings, publishing = context.settings, context.settings.publishing
        every = publishing.every(settings.telemetry)
        self._context = context
        self._source = source
        self._planner = CranePlanner(
            policy,
            time_zone(publishing.crane_timezone),
            min_coverage=settings.windows.min_coverage,
            jitter=publishing.jitter,
        )
        most = max(1, int(SHARE * settings.cluster.qps * every))
        self._publisher = CranePublisher(
            context.writer, context.clock, policy, self._planner, interval=every, most=most
        )
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

    def cycle(self, known: Known) -> str:
        """One round, in a sentence."""
        snapshot = known.snapshot
        if known.freeze.frozen:
            return "wrote no annotations for crane-scheduler: publishing is frozen, and theirs expire"
        if snapshot.time - self._seen > 2 * BUCKET:
            self._past_attempts = 0
        self._seen = snapshot.time
        if self._past_attempts < ATTEMPTS:
            self._read_past(snapshot, known.names)
        result = self._publisher.round(snapshot, self._context.cache.pods(), self._context.cache.node)
        self._context.conditions.report("CraneFailing", "WriteFailed", result.problem)
        settings = self._context.settings
        return sentences.crane_sentence(
            result, snapshot, self._planner.foreign, settings.publishing, settings.telemetry
        )

    def _read_past(self, snapshot: Snapshot, names: NodeNames) -> None:
        """Means of the past at the ends of 5 minutes, as instant values: what the highest ones are found among."""
        end = math.floor(snapshot.time / BUCKET) * BUCKET
        created = np.array([node.created for node in names.nodes])
        problems: set[str] = set()
        for reading in self._source.backfill(end - self._planner.span + BUCKET, end, BUCKET, names):
            if self._stopped.is_set():
                return
            ratios = np.full((len(RESOURCES), len(names)), np.nan)
            for resource, samples in reading.samples.items():
                if resource in RESOURCES:
                    ratios[RESOURCES.index(resource), samples.rows] = samples.values
            ratios[:, created > reading.at] = np.nan
            self._planner.remember(reading.at, node_keys(names.nodes), ratios)
            problems.update(reading.problems.values())
        self._past_attempts = self._past_attempts + 1 if problems else ATTEMPTS
        if problems:
            log.warning("the past could not be read", attempt=self._past_attempts, error="; ".join(sorted(problems)))


def build(context: Context, policy: CranePolicy, source: Source) -> CraneJob | None:
    """None where the job is not to run."""
    publishing = context.settings.publishing
    if not publishing.crane or publishing.mode is Mode.OFF:
        return None
    return CraneJob(context, policy, source)
