"""Answers which checks refuse one pod now; the planning process judges, for it has the layout of the whole cluster."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ballast.base.errors import BallastError, WorkerError
from ballast.jobs.eviction.inputs import PlanInputs
from ballast.model.limits import Limit
from ballast.model.snapshot import Snapshot
from ballast.planning.process import PlanningProcess
from ballast.planning.request import RequestedExplanation

WAIT = 10.0
"""Seconds that a question waits for the one before it."""


class Explainer:
    """Any thread may ask; one question is answered at a time."""

    def __init__(
        self, inputs: PlanInputs, worker: PlanningProcess, snapshot: Callable[[], Snapshot | None], ceiling: Limit
    ) -> None:
        """`ceiling` is the load that a target may reach."""
        self._inputs, self._worker, self._snapshot, self._ceiling = inputs, worker, snapshot, ceiling
        self._turn = threading.Semaphore()

    def explain(self, namespace: str, name: str) -> dict[str, Any] | None:
        """`ballast.eviction.explanation` of a pod, None where there is no such pod.

        Raises BallastError while nothing is known yet, or others ask too much; WorkerError if the process fails.
        """
        snapshot = self._snapshot()
        if snapshot is None:
            raise BallastError("no cycle has ended yet, so nothing is known about any pod")
        pod = self._inputs.find(namespace, name)
        if pod is None:
            return None
        if not self._turn.acquire(timeout=WAIT):
            raise BallastError("the planning process is busy; ask again in a minute")
        try:
            rules = self._inputs.rules_for(pod.node)
            request = replace(
                self._inputs.request(snapshot, ()),
                explained=RequestedExplanation(f"{namespace}/{name}", rules, self._ceiling),
            )
            return self._worker.ask(request).explanation
        except WorkerError as error:
            raise BallastError(f"the checks could not be asked: {error}") from error
        finally:
            self._turn.release()
