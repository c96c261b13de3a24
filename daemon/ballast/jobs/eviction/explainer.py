"""Answers which checks refuse one pod now; the planning process judges, for it has the layout of the whole cluster."""

import threading
from collections.abc import Callable
from dataclasses import replace

from ballast.answers.views import Explanation
from ballast.base.errors import BallastError, WorkerError
from ballast.cluster.context import Context
from ballast.jobs.eviction.moment_taker import MomentTaker
from ballast.jobs.eviction.plans import explaining_rules
from ballast.model.snapshot import Snapshot
from ballast.planning.from_settings import aims_of
from ballast.planning.process import PlanningProcess
from ballast.planning.request import ExplanationRequest
from ballast.settings import Mode
from ballast.telemetry.pod_usage_cache import PodUsageCache

WAIT = 10.0
"""Seconds that a question waits for the one before it."""


class Explainer:
    """Any thread may ask; one question is answered at a time."""

    def __init__(
        self,
        context: Context,
        moments: MomentTaker,
        usage: PodUsageCache,
        worker: PlanningProcess,
        snapshot: Callable[[], Snapshot | None],
    ) -> None:
        self._settings, self._cache = context.settings, context.cache
        self._moments, self._usage, self._worker, self._snapshot = moments, usage, worker, snapshot
        self._aims = aims_of(context.settings)
        self._turn = threading.Semaphore()

    def explain(self, namespace: str, name: str) -> Explanation | None:
        """What every check says about a pod, None where there is no such pod.

        Raises BallastError where the part is off, while nothing is known yet, or where others ask too much.
        """
        if self._settings.eviction.mode is Mode.OFF:
            raise BallastError(
                "BALLAST_EVICTION__MODE=off: the checks see no workloads and budgets; dry-run evicts nothing"
            )
        snapshot = self._snapshot()
        if snapshot is None:
            raise BallastError("no cycle has ended yet, so nothing is known about any pod")
        pod = next((pod for pod in self._cache.pods() if pod.name == name and pod.namespace == namespace), None)
        if pod is None:
            return None
        if not self._turn.acquire(timeout=WAIT):
            raise BallastError("the planning process is busy; ask again in a minute")
        try:
            moment = replace(self._moments.take_moment(snapshot), usage=self._usage.of_all)
            rules = explaining_rules(pod.node, self._settings, moment)
            request = ExplanationRequest(moment, f"{namespace}/{name}", rules, self._aims)
            return self._worker.ask(request).explanation
        except WorkerError as error:
            raise BallastError(f"the checks could not be asked: {error}") from error
        finally:
            self._turn.release()
