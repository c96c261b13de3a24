"""Runs of experiments on other backends of joblib."""

import sys
from types import ModuleType
from typing import Any

import pytest
from joblib import parallel_config, register_parallel_backend
from joblib._parallel_backends import ThreadingBackend

from ballast.base.errors import UsageError
from ballast_lab.experiments.running import backend, run

CALLS = [(number, 2) for number in range(20)]


class Counting(ThreadingBackend):  # type: ignore[misc]
    """joblib's backend of threads, which counts what is submitted to it."""

    submitted = 0

    def submit(self, func: Any, callback: Any = None) -> Any:
        Counting.submitted += 1
        return super().submit(func, callback)


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A library that registers a backend as the real one does."""
    called: list[str] = []
    library, inner = ModuleType("ray"), ModuleType("ray.util.joblib")
    setattr(library, "init", lambda **options: called.append("init"))  # noqa: B010
    setattr(library, "shutdown", lambda: called.append("shutdown"))  # noqa: B010
    setattr(inner, "register_ray", lambda: register_parallel_backend("ray", Counting))  # noqa: B010
    monkeypatch.setitem(sys.modules, "ray", library)
    monkeypatch.setitem(sys.modules, "ray.util", ModuleType("ray.util"))
    monkeypatch.setitem(sys.modules, "ray.util.joblib", inner)
    Counting.submitted = 0
    return called


def test_runs_go_to_the_chosen_backend(ray: list[str]) -> None:
    done: list[int] = []
    with backend("ray"):
        assert ray == ["init"]
        assert run(pow, CALLS, 2, lambda: done.append(1)) == [number**2 for number in range(20)]
    assert ray == ["init", "shutdown"]
    assert Counting.submitted > 0
    assert len(done) == 20


def test_answers_are_in_the_order_of_the_calls_on_threads() -> None:
    with parallel_config("threading"):
        assert run(pow, CALLS, 4) == [number**2 for number in range(20)]


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(UsageError, match="--backend slurm: choose one of processes, dask, ray"), backend("slurm"):
        pass


@pytest.mark.filterwarnings("ignore")
def test_a_local_dask_cluster_gives_the_same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
    ) as cluster:
        monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", cluster.scheduler_address)
        dask = pytest.importorskip("dask")
        with dask.config.set(scheduler_address=cluster.scheduler_address), backend("dask"):
            assert run(pow, CALLS, -1) == [number**2 for number in range(20)]
