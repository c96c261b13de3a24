"""What is measured of one policy in the daemon: by its meter, and how long new replicas take until they serve."""

from collections import deque
from collections.abc import Mapping
from fractions import Fraction

from ballast.actuation.scaling.target_status import Actuator, TargetStatus
from ballast.cluster.state import StateStore as Keys
from ballast.jobs.power.kept_learning import KeptLearning
from ballast.jobs.power.participants import running_pods
from ballast.jobs.power.tick_report import TickContext, TickReport
from ballast.power.averaging import range_of
from ballast.power.estimator import Doubt
from ballast.power.learned_watts import Learned, WattsLearner
from ballast.power.policy import PowerPolicy
from ballast.power.verification import MissedEffect, Verification, predicted_change
from ballast.power.waiting import START

KEPT = 20
"""Rises whose times are averaged."""


def believed(consumed: Fraction | None, statuses: Mapping[str, TargetStatus]) -> Fraction | None:
    """What the meter shows; None where it shows nothing while pods run."""
    return consumed if consumed or not any(running_pods(statuses).values()) else None


class Metering:
    """Without a `meter` nothing is learned, verified or applied."""

    def __init__(
        self, policy: PowerPolicy, meter: WattsLearner | None, *, shadow: bool, keys: Keys | None = None
    ) -> None:
        """`keys` keep what is learned over restarts; None: nothing does."""
        query = policy.meter_query
        verified = meter is not None and not shadow and (policy.absolute or meter.measures)
        self._meter = meter
        self._kept = None if meter is None else KeptLearning(policy.name, meter, keys)
        self._verification = Verification(float(range_of(query or ""))) if verified else None
        self._confirmed: float | None = None

    @property
    def waits(self) -> bool:
        """Whether the watts of a replica are still unknown."""
        return self._meter is not None and self._meter.waits

    @property
    def factor(self) -> float | None:
        """How many times the declared watts are drawn; None where that is not measured."""
        return None if self._meter is None else self._meter.factor

    @property
    def doubt(self) -> Doubt | None:
        """How far the watts in force may be wrong; None where no meter tells."""
        return None if self._meter is None else self._meter.doubt

    def measure(
        self,
        now: TickContext,
        consumed: Fraction | None,
        statuses: Mapping[str, TargetStatus],
        counts: Mapping[str, int],
    ) -> tuple[Learned | None, MissedEffect | None]:
        """Takes what runs and the watts that draws; returns what is learned, and which action has no effect."""
        if self._meter is None:
            return None, None
        if self._kept is not None:
            self._kept.recall(now.wall)
        if consumed is not None and counts:
            self._meter.measure(now.at, running_pods(statuses), consumed)
            if self._verification is not None:
                ending = any(status.leaving for status in statuses.values())
                self._verification.measure(float(now.at), float(consumed), ending=ending)
        if self._verification is not None and (now.hold is not None or now.confirmed != self._confirmed):
            self._verification.reset()
        self._confirmed = now.confirmed
        return self._meter.learned(), None if self._verification is None else self._verification.missed

    def record(self, report: TickReport) -> None:
        """Takes what the tick did: its own changes of replicas, or those of others; the leader saves what is known."""
        if self._kept is not None and not report.inputs.now.standby:
            self._kept.keep(report.inputs.now.wall)
        if self._verification is None:
            return
        if report.decision.foreign:
            self._verification.disturbed()
        action, statuses = report.outcome.action, report.inputs.statuses
        if action is None or action.codes:
            return
        direct = {name: n for name, n in action.changes.items() if statuses[name].actuator is Actuator.SCALE}
        if direct:
            self._verification.acted(float(report.inputs.now.at), predicted_change(report.policy, direct))

    def applied(self, policy: PowerPolicy) -> PowerPolicy:
        """The policy with the measured watts."""
        return policy if self._meter is None else self._meter.applied(policy)


class StartTimes:
    """From the tick that first shows more replicas until as many are ready."""

    def __init__(self) -> None:
        self._wanted: dict[str, int] = {}
        self._waiting: dict[str, tuple[Fraction, int]] = {}
        self._times: deque[float] = deque(maxlen=KEPT)

    @property
    def seconds(self) -> float:
        """On average over the last rises; a minute before the first one."""
        return sum(self._times) / len(self._times) if self._times else START

    def see(self, at: Fraction, statuses: Mapping[str, TargetStatus]) -> None:
        """What runs at `at` (seconds)."""
        for name, status in statuses.items():
            if status.workload is None or status.replicas is None:
                continue
            before = self._wanted.get(name, status.replicas)
            self._wanted[name] = status.replicas
            if status.replicas > before:
                self._waiting[name] = at, status.replicas
            elif status.replicas < before:
                self._waiting.pop(name, None)
            if name in self._waiting and (status.workload.ready or 0) >= status.replicas:
                self._times.append(float(at - self._waiting.pop(name)[0]))
