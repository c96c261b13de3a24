"""target-load: fills nodes up to a target of cpu use, then spreads.

The formula is that of Trimaran's TargetLoadPacking (kubernetes-sigs/scheduler-plugins,
pkg/trimaran/targetloadpacking/targetloadpacking.go). With P the predicted percent and T the target: T + (100 - T)P/T up
to the target, T(100 - P)/(100 - T) above it, 0 above 100. A node whose cpu is unknown scores 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ballast.model.load_limits import quantity
from ballast.model.pod import Pod
from ballast.model.sample import Floats, Ints
from ballast.scoring import in_flight
from ballast.scoring.demand import predicted, units
from ballast.scoring.fleet import Fleet
from ballast.scoring.keys import StrategyKeys
from ballast.scoring.scores import Scores

NAME = "target-load"


@dataclass(frozen=True)
class TargetLoad:
    """`target` is percent; `default` is the milli-cores of a container that neither asks for cpu nor limits it."""

    needs_load: ClassVar[bool] = True
    needs_pods: ClassVar[bool] = False
    needs_pod: ClassVar[bool] = False
    warms: ClassVar[bool] = False

    target: float = 40.0
    default: int = in_flight.DEFAULT_CPU
    multiplier: float = in_flight.MULTIPLIER
    in_flight: str = "off"

    def score(self, fleet: Fleet, pod: Pod | None = None) -> Scores:
        """`terms` has the predicted percent of cpu."""
        load, whole = fleet.packing_cpu, fleet.cpu_base.astype(float)
        used = (load.mean / 100) * whole
        predicted_use = float(predicted(pod.shape, "cpu", self.default, self.multiplier)) if pod else 0.0
        percent = 100 * (used + predicted_use + self._in_flight(fleet)) / np.where(whole > 0, whole, 1.0)
        percent = np.where(whole > 0, percent, 0.0)
        exact = np.where(load.known, target_load(percent, self.target), 0.0)
        return Scores(
            exact=exact,
            raw=np.where(load.known, exact, np.nan),
            unknown=~load.known,
            terms={"predicted": np.where(load.known, percent, np.nan)},
        )

    def _in_flight(self, fleet: Fleet) -> Ints | float:
        if self.in_flight == "off":
            return 0.0
        lag = in_flight.REPORTING_SECONDS if self.in_flight == "upstream" else 0.0
        return in_flight.since_window(fleet, "cpu", self.default, self.multiplier, lag=lag)


def target_load(percent: Floats, target: float) -> Floats:
    """The score of a node predicted to use `percent`, 0..100, not rounded."""
    above = target * (100 - percent) / (100 - target) if target < 100 else np.zeros_like(percent)
    below = (100 - target) * percent / target + target
    return np.where(percent > target, np.where(percent > 100, 0.0, above), below)


def parse(given: Mapping[str, object]) -> TargetLoad:
    """As upstream, a target of 0 or less means the default of 40."""
    keys = StrategyKeys(NAME, given)
    target = keys.number("target_utilization", 40.0, high=100.0)
    multiplier = keys.number("default_requests_multiplier", in_flight.MULTIPLIER, 0.0)
    default = _default_cpu(keys)
    mode = keys.in_flight()
    keys.finish()
    return TargetLoad(target if target > 0 else 40.0, default, multiplier, mode)


def _default_cpu(keys: StrategyKeys) -> int:
    """Milli-cores of `{"cpu": "1000m"}`, or of the quantity alone."""
    value = keys.take("default_requests")
    if value is None:
        return in_flight.DEFAULT_CPU
    cpu = value.get("cpu", 0) if isinstance(value, Mapping) else value
    try:
        amount = quantity(cpu) if isinstance(cpu, str | int | float) else -1.0
    except ValueError:
        amount = -1.0
    if amount < 0:
        raise keys.error("default_requests", value, 'give cpu as a quantity, such as {"cpu": "1000m"}')
    return units("cpu", amount)
