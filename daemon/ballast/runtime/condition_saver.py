"""Saves the conditions from a thread of its own, so that no cycle waits for the API server."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

from ballast.base.errors import ClusterError
from ballast.cluster.conditions import SavedConditions
from ballast.cluster.threads import going
from ballast.cluster.write import Result

log = structlog.get_logger("ballast")

_PATIENCE = 1.0


class ConditionSaver:
    """`ask` after each cycle: only the leader saves, and only what changed.

    `problem` is why it failed last, if so; a standby has none.
    """

    def __init__(self, saved: SavedConditions, leading: Callable[[], bool]) -> None:
        self._saved = saved
        self._leading = leading
        self._asked = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="saving", daemon=True)
        self.problem: str | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._asked.set()
        if self._thread.is_alive():
            self._thread.join(_PATIENCE)

    @property
    def alive(self) -> bool:
        return going(self._thread, self._stop)

    def ask(self) -> None:
        self._asked.set()

    def _run(self) -> None:
        while self._asked.wait() and not self._stop.is_set():
            self._asked.clear()
            try:
                if not self._leading():
                    self.problem = None
                    continue
                problem = self._save()
            except Exception as error:
                log.exception("saving the conditions failed unexpectedly")
                problem = f"{type(error).__name__}: {error}"
            if problem and problem != self.problem:
                log.warning("the conditions are not saved", problem=problem)
            self.problem = problem

    def _save(self) -> str | None:
        try:
            outcome = self._saved.save()
        except ClusterError as error:
            return str(error)
        return outcome.reason if outcome is not None and outcome.result is Result.FAILED else None
