"""What one reading of a source gives, before it enters the windows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

REJECTION_REASONS = (
    "non_finite",
    "negative",
    "stale",
    "future",
    "unreadable",
    "duplicate",
    "unmatched",
    "ambiguous",
)

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
    problems: Mapping[str, str] = field(default_factory=dict)
    """A sentence for each resource that failed."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why each of them failed, one of PROBLEM_REASONS."""
    rejected: Mapping[str, int] = field(default_factory=Counter)
    """Samples by the reasons of REJECTION_REASONS."""
    strangers: tuple[str, ...] = ()
    """A few series that match no node, or several."""
    warnings: tuple[str, ...] = ()
    queries: int = 0
    """How many queries were sent."""
    differing: str = ""
    """What series of one node differ in that must not be merged, with the lines that choose; empty if nothing."""
    scrape_interval: Mapping[str, float] = field(default_factory=dict)
    """Seconds between the newest raw times, by resource; absent before it is known."""
