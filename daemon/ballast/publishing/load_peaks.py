"""The load by which a node has its class and its taint: the largest of its resources, each against its own limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ballast.model.limits import Limit, by_resource
from ballast.model.sample import Floats
from ballast.model.snapshot import Snapshot


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
