"""Runs of experiments on several processes or on a cluster of Dask or Ray; the results do not depend on where."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

from joblib import Parallel, delayed, parallel_config

from ballast.base.errors import UsageError
from ballast_lab.experiments.redistributor import RedistributionRule
from ballast_lab.experiments.rules import Choice
from ballast_lab.experiments.scheduling import ScheduleOutcome, schedule
from ballast_lab.experiments.worlds import PODS, LoadWorld, arrivals

PROCESSES, DASK, RAY = "processes", "dask", "ray"
BACKENDS = (PROCESSES, DASK, RAY)

T = TypeVar("T")


@contextmanager
def backend(name: str) -> Iterator[None]:
    """Runs go to this backend inside of the context.

    Dask: the cluster that DASK_SCHEDULER_ADDRESS names; Ray: the one that RAY_ADDRESS names; else one that is started
    on this machine. The workers need Ballast of the same version. Raises UsageError for an unknown name, for a library
    that is not installed, and for a cluster that does not answer.
    """
    if name not in BACKENDS:
        raise UsageError(f"--backend {name}: choose one of {', '.join(BACKENDS)}.")
    if name == PROCESSES:
        with parallel_config("loky"):
            yield
        return
    with _dask() if name == DASK else _ray(), parallel_config(name):
        yield


def run(
    function: Callable[..., T], calls: Sequence[tuple[Any, ...]], jobs: int = 1, done: Callable[[], None] = lambda: None
) -> list[T]:
    """The answers in the order of `calls`, the arguments of each; `done` is called after each. jobs = -1: all cores."""
    parallel = Parallel(n_jobs=jobs)
    generating = getattr(parallel, "_backend", None) is not None and parallel._backend.supports_return_generator
    if generating:
        parallel = Parallel(n_jobs=jobs, return_as="generator")
    results = []
    for answer in parallel(delayed(function)(*each) for each in calls):
        results.append(answer)
        done()
    return results


@dataclass(frozen=True)
class ExperimentRun:
    """One run: the list of `pods` that belongs to `seed`, placed by `choice`."""

    world: LoadWorld
    seed: int
    choice: Choice
    redistribution: RedistributionRule | None = None
    pods: int = PODS

    def outcome(self) -> ScheduleOutcome:
        """Runs it."""
        return schedule(self.world, arrivals(self.seed, self.pods), self.choice, self.redistribution)


def outcomes(
    runs: Sequence[ExperimentRun], jobs: int = 1, done: Callable[[], None] = lambda: None
) -> list[ScheduleOutcome]:
    """The outcomes in the order of `runs`; `done` is called after each. jobs = -1 uses all cores."""
    return run(ExperimentRun.outcome, [(each,) for each in runs], jobs, done)


@contextmanager
def _dask() -> Iterator[None]:
    distributed = _library("distributed", DASK)
    try:
        client = distributed.Client()
    except OSError as error:
        raise UsageError(f"--backend dask: no scheduler answers: {error}. Check DASK_SCHEDULER_ADDRESS.") from None
    with client:
        yield


@contextmanager
def _ray() -> Iterator[None]:
    ray = _library("ray", RAY)
    register = _library("ray.util.joblib", RAY).register_ray
    try:
        ray.init(ignore_reinit_error=True)
    except (ConnectionError, RuntimeError) as error:
        raise UsageError(f"--backend ray: no cluster answers: {error}. Check RAY_ADDRESS.") from None
    register()
    try:
        yield
    finally:
        ray.shutdown()


def _library(module: str, name: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        extra = f"pip install '.[{name}]'"
        raise UsageError(f"--backend {name}: {module} is not installed. Install it with: {extra}") from None
