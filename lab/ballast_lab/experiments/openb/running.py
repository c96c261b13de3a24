"""Runs policies on workloads, and what comes out beside the published results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from ballast_lab.experiments import running
from ballast_lab.experiments.openb.nodes import OpenbNodes
from ballast_lab.experiments.openb.policies import KNOWN_BEFOREHAND, POLICIES
from ballast_lab.experiments.openb.trace import ARRIVING, TraceWorkload, published, workload

_PERCENT = round(100 * ARRIVING)


@dataclass(frozen=True)
class Run:
    """One policy on the arrivals of one seed."""

    workload: TraceWorkload
    policy: str
    seed: int

    def row(self) -> dict[str, Any]:
        """Runs it. The allocated percent is the mean while the arrivals are 130 % of the devices, as published."""
        work = self.workload
        kinds, order = work.arrivals(self.seed)
        if self.policy in KNOWN_BEFOREHAND:
            kinds = kinds[np.argsort(-work.volumes[kinds], kind="stable")]
        nodes = OpenbNodes(work, order)
        policy = POLICIES[self.policy](work, nodes, np.random.default_rng([self.seed, 1]))
        arrived = allocated = failed = 0
        last: list[float] = []
        for kind in kinds.tolist():
            arrived += int(work.volumes[kind])
            row = policy.choose(kind)
            if row is None:
                failed += 1
            else:
                nodes.place(kind, row, policy.device(kind, row))
                policy.changed(row)
                allocated += int(work.volumes[kind])
            if round(100 * arrived / work.capacity) >= _PERCENT:
                last.append(100 * allocated / work.capacity)
        percent = fmean(last) if last else 100 * allocated / work.capacity
        return {
            "workload": work.name,
            "policy": self.policy,
            "seed": self.seed,
            "allocated_percent": round(percent, 4),
            "failed_pods": failed,
            "pods": len(kinds),
        }


def run(
    data: Path,
    workloads: Sequence[str],
    policies: Sequence[str],
    seeds: Sequence[int],
    *,
    jobs: int = 1,
    begin: Callable[[int], Callable[[], None]] = lambda total: lambda: None,
) -> dict[str, Any]:
    """`{"rows", "published"}`; rows by workload, policy and seed, whatever the number of jobs.

    `begin` is called with the number of runs and returns a function that is called after each run.
    Raises UsageError and BadTrace.
    """
    loaded = [workload(data, name) for name in workloads]
    beside = published(data, workloads)
    runs = [Run(each, name, seed) for each in loaded for name in policies for seed in seeds]
    rows = running.run(Run.row, [(each,) for each in runs], jobs, begin(len(runs)))
    return {"rows": rows, "published": beside}
