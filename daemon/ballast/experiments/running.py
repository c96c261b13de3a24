"""Many runs of the embedded scheduler, on as many processes as wanted; the results do not depend on their number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from joblib import Parallel, delayed

from ballast.experiments.redistributing import Redistributing
from ballast.experiments.rules import Choice
from ballast.experiments.scheduling import ScheduleOutcome, schedule
from ballast.experiments.worlds import PODS, LoadWorld, arrivals


@dataclass(frozen=True)
class ExperimentRun:
    """The list of `pods` that belongs to `seed`, one after another."""

    world: LoadWorld
    seed: int
    choice: Choice
    redistributing: Redistributing | None = None
    pods: int = PODS

    def outcome(self) -> ScheduleOutcome:
        return schedule(self.world, arrivals(self.seed, self.pods), self.choice, self.redistributing)


def outcomes(
    runs: Sequence[ExperimentRun], jobs: int = 1, done: Callable[[], None] = lambda: None
) -> list[ScheduleOutcome]:
    """In the order of `runs`; `done` is called after each. jobs = -1 takes every core.

    Another backend of joblib, such as a Dask or Ray cluster, is chosen around the call by `joblib.parallel_config`.
    """
    found = []
    for outcome in Parallel(n_jobs=jobs, return_as="generator")(delayed(ExperimentRun.outcome)(run) for run in runs):
        found.append(outcome)
        done()
    return found
