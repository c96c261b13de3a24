"""The meter of one policy in the daemon: what it teaches, and whether actions have their effect."""

from __future__ import annotations

from dataclasses import replace

from ballast.actuation.scaling.target_status import Actuator
from ballast.jobs.power.seen_targets import present
from ballast.jobs.power.view import TickReport
from ballast.power.measuring.averaging import range_of
from ballast.power.measuring.meter import Meter
from ballast.power.measuring.verification import MissedEffect, Verification, predicted_change
from ballast.power.policy import PowerPolicy


class Metering:
    """Nothing is learned, held against or applied without a `meter`."""

    def __init__(self, policy: PowerPolicy, meter: Meter | None, *, shadow: bool) -> None:
        query = policy.consumption.query if policy.consumption is not None else None
        judged = meter is not None and not shadow and (policy.absolute or meter.measures)
        self._meter = meter
        self._verification = Verification(float(range_of(query or ""))) if judged else None
        self._confirmed: float | None = None

    @property
    def waits(self) -> bool:
        """Whether the watts of a replica are still unknown."""
        return self._meter is not None and self._meter.waits

    def saw(self, view: TickReport) -> TickReport:
        """Takes what runs and what that draws; the report with what is learned and what has no effect."""
        if self._meter is None:
            return view
        if view.watts.consumed is not None and view.counts:
            self._meter.saw(view.now.at, present(view.statuses), view.watts.consumed)
            if self._verification is not None:
                self._verification.saw(float(view.now.at), float(view.watts.consumed))
        if self._verification is not None and (view.now.hold is not None or view.now.confirmed != self._confirmed):
            self._verification.reset()
        self._confirmed = view.now.confirmed
        return replace(view, learned=self._meter.learned(), missed=self._missed)

    def acted(self, view: TickReport) -> TickReport:
        """Takes what the tick did: its own changes of replicas, or those of others."""
        if self._verification is None:
            return view
        if view.foreign:
            self._verification.disturbed()
        if view.action is not None and not view.action.codes:
            direct = {
                name: change
                for name, change in view.action.changes.items()
                if view.statuses[name].actuator is Actuator.SCALE
            }
            if direct:
                self._verification.acted(float(view.now.at), predicted_change(view.policy, direct))
        return view

    def applied(self, policy: PowerPolicy) -> PowerPolicy:
        """The policy with the measured watts."""
        return policy if self._meter is None else self._meter.applied(policy)

    @property
    def _missed(self) -> MissedEffect | None:
        return None if self._verification is None else self._verification.missed
