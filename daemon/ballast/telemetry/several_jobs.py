"""Several scrape jobs that report one node: which of them the presets leave out.

Series that differ in `job` and `namespace` are merged by their largest value, so whoever may define a scrape job could
make any node look full. The job that reports the most nodes is believed; one that reports fewer, and none that a larger
one lacks, is left out of the queries. It stays left out while the larger one is silent: else its value would stand.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ballast.telemetry.mixing import Labels, exactly

REMEMBERED = 3600.0
"""Seconds for which a job stays left out after a larger one reported one of its nodes last."""
FEW = 0.1
"""Share of the nodes, at least one, that a job which was left out may report alone and still be left out."""
MOST = 20
"""Jobs that are left out by name. Of more, the one good job is asked for; beside several good ones, nodes are disputed.
"""


class Job(NamedTuple):
    """A scrape job; "" where a series does not say."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name or "none"


@dataclass(frozen=True)
class SeveralJobs:
    """Of one preset. `shared` are the nodes that several jobs report, `jobs` these jobs, those with most nodes first.

    `left_out` are the jobs that do not count, with the matcher that leaves each out. `doubtful` are shared nodes of a
    smaller job that cannot be left out: it reports nodes that nobody else does, or differs in nothing that a matcher
    names.
    """

    jobs: Mapping[Job, int]
    shared: frozenset[str]
    left_out: Mapping[Job, str]
    doubtful: frozenset[str]

    @property
    def matchers(self) -> tuple[str, ...]:
        """What to set so that one job is left: one matcher, or a choice of several."""
        if self.left_out:
            return (",".join(dict.fromkeys(self.left_out.values())),)
        return tuple(
            dict.fromkeys(exactly("job", job.name).replace("=", "!=", 1) for job in reversed(tuple(self.jobs)))
        )


class JobsOfNodes:
    """Remembers which jobs were left out."""

    def __init__(self) -> None:
        self._shared_at: dict[Job, float] = {}
        """By job left out: when a larger one last reported a node of it, Unix seconds."""
        self.several: SeveralJobs | None = None

    def judge(self, at: float, series: Mapping[str, Sequence[Labels]], *, namespaces: bool = True) -> frozenset[Job]:
        """The jobs to leave out at this Unix time; `series` are the label sets of each node.

        Without `namespaces` that label is the exporter's own and tells no jobs apart.
        """
        reported: dict[Job, set[str]] = {}
        for node, label_sets in series.items():
            for labels in label_sets:
                reported.setdefault(job_of(labels, namespaces=namespaces), set()).add(node)
        counts = {job: len(nodes) for job, nodes in reported.items()}
        largest: dict[str, int] = {}
        jobs_of: dict[str, list[Job]] = {}
        for job, nodes in reported.items():
            for node in nodes:
                largest[node] = max(largest.get(node, 0), counts[job])
                jobs_of.setdefault(node, []).append(job)
        most = max(counts.values(), default=0)
        doubted = []
        for job in sorted(reported, key=lambda job: (counts[job], job)):
            alone = {node for node in reported[job] if largest[node] == counts[job]}
            known = at - self._shared_at.get(job, -np.inf) < REMEMBERED
            may_report = max(1.0, FEW * len(series)) if known and counts[job] < most else 0
            if len(alone) <= may_report:
                doubted.append(job)
                if len(alone) < counts[job]:
                    self._shared_at[job] = at
        left_out = _matchers(doubted, counts)
        self._shared_at = {job: self._shared_at[job] for job in left_out}
        shared = {node: jobs for node, jobs in jobs_of.items() if len(jobs) > 1}
        doubtful = {
            node for node, jobs in shared.items() if len({counts[job] for job in jobs if job not in left_out}) > 1
        }
        among = {job for jobs in shared.values() for job in jobs} | set(left_out)
        ordered = {job: counts[job] for job in sorted(among, key=lambda job: (-counts[job], job))}
        self.several = (
            SeveralJobs(ordered, frozenset(shared), left_out, frozenset(doubtful)) if shared or left_out else None
        )
        return frozenset(left_out)


def job_of(labels: Labels, *, namespaces: bool = True) -> Job:
    """Of a series."""
    return Job(labels.get("namespace", "") if namespaces else "", labels.get("job", ""))


def _matchers(doubted: Sequence[Job], counts: Iterable[Job]) -> dict[Job, str]:
    """The label matcher that leaves each of them out and none of the others."""
    good = [job for job in counts if job not in doubted]
    if len(doubted) > MOST and len(good) == 1:
        pinned = exactly("job", good[0].name)
        if any(job.name == good[0].name for job in doubted):
            pinned += f",{exactly('namespace', good[0].namespace)}"
        return dict.fromkeys(doubted, pinned)
    others = set(counts) - set(doubted[:MOST])
    names, namespaces = {job.name for job in others}, {job.namespace for job in others}
    matchers = {}
    for job in doubted[:MOST]:
        if job.name not in names:
            matchers[job] = exactly("job", job.name).replace("=", "!=", 1)
        elif job.namespace not in namespaces:
            matchers[job] = exactly("namespace", job.namespace).replace("=", "!=", 1)
    return matchers
