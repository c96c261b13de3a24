"""What one reading of a source gives, before it enters the windows."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

REJECTION_REASONS = ("non_finite", "negative", "stale", "future", "unreadable", "duplicate", "unmatched", "ambiguous")

PROBLEM_REASONS = (
    "query",
    "empty",
    "clusters",
    "unit",
    "unnamed",
    "differing",
    "stale",
    "ageless",
    "future",
    "duplicate",
    "unreadable",
)
"""A query failed or cannot be sent; it gave nothing; several clusters; no ratios; no series names a node; all samples
are: of things that must not be merged, too old, of unknown age, ahead of the query, contradictory, no numbers."""


class ReadingProblem(NamedTuple):
    """Why a resource has no samples."""

    reason: str
    """One of PROBLEM_REASONS."""
    text: str
    """A sentence with what fixes it."""
    fix: tuple[str, ...] = ()
    """The settings in it that can be copied as they are, such as `BALLAST_TELEMETRY__OFFSET=150s`."""


class Mixture(NamedTuple):
    """Series that must not be merged, and the settings of which one is to be chosen."""

    summary: str
    """What they differ in, without advice."""
    text: str
    """The same with the settings, a line for each."""
    fix: tuple[str, ...]
    """These settings."""


@dataclass(frozen=True)
class Samples:
    """Accepted values of one resource at one instant.

    `rows` index into the node names the reader was given; `values` are ratios of capacity (cpu, memory) or
    of time or link speed (disk, network); `times` are the Unix times of the raw samples, not of the evaluation.
    """

    rows: Ints
    values: Floats
    times: Floats


@dataclass(frozen=True)
class Reading:
    """One cycle's answer of one source."""

    source: str
    at: float
    """The evaluation time, Unix seconds."""
    samples: Mapping[str, Samples]
    """By resource; one that failed is absent."""
    failed: Mapping[str, ReadingProblem] = field(default_factory=dict)
    """By resource."""
    rejected: Mapping[str, int] = field(default_factory=Counter)
    """Samples by the reasons of REJECTION_REASONS."""
    impossible: Mapping[str, str] = field(default_factory=dict)
    """By name of a node, some hundreds at most: what cannot be of its values."""
    matched_by: Mapping[str, tuple[str, bool]] = field(default_factory=dict)
    """By name of a node: what tells that its series are its own (`node_claims.MATCHED_BY`, "target"), and whether that
    is a guess."""
    strangers: tuple[str, ...] = ()
    """A few series that match no node, or several."""
    warnings: tuple[str, ...] = ()
    queries: int = 0
    """How many queries were sent."""
    mixtures: tuple[Mixture, ...] = ()
    """What series of one node, or of one answer, differ in that must not be merged."""
    several_jobs: Mixture | None = None
    """Nodes that several scrape jobs report."""
    doubtful: frozenset[str] = frozenset()
    """Those of them of which it is not known which job to believe."""
    scrape_interval: Mapping[str, float] = field(default_factory=dict)
    """Seconds between the newest raw times, by resource; absent before it is known."""
    spans: Mapping[str, float] = field(default_factory=dict)
    """Seconds of the past that a value tells of, by resource, such as the range of a `rate`; absent for an instant."""
    working_set: Samples | None = None
    """The most that the working set of metrics-server can be, where the source tells it."""
    starved: Samples | None = None
    """The largest share of time that each node lost to its hypervisor, or waiting for disks or memory."""

    @property
    def problems(self) -> dict[str, str]:
        """A sentence for each resource that failed."""
        return {resource: problem.text for resource, problem in self.failed.items()}

    @property
    def differing(self) -> str:
        """The texts of `mixtures`, a line for each sentence and setting; empty if nothing differs."""
        return "\n".join(mixture.text for mixture in self.mixtures)
