"""low-risk: prefers nodes where limits and measured load leave little risk that pods get less than they asked for.

The formula is that of Trimaran's LowRiskOverCommitment (kubernetes-sigs/scheduler-plugins,
pkg/trimaran/lowriskovercommitment/{lowriskovercommitment,beta}.go): 100(1 - max of cpu's and memory's risk), where a
risk weighs how far limits exceed allocatable against the probability that load exceeds what is requested, under a beta
distribution fitted to the load. A pod without requests and limits scores 0 everywhere, and so does an unknown node; a
resource that is not known on a node carries no risk of load there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ballast.model.pod import Pod
from ballast.model.sample import Bools, Floats, Ints
from ballast.scoring import in_flight
from ballast.scoring.demand import CPU_AND_MEMORY, NOTHING, demand
from ballast.scoring.fleet import Fleet, NodeLoads
from ballast.scoring.keys import StrategyKeys, to_number
from ballast.scoring.load_variation import mu_sigma
from ballast.scoring.scores import Scores

NAME = "low-risk"
WINDOW = 5
LONGEST = 1e9
WEIGHT = 0.5

# beta.go, MaxVarianceAllowance: a deviation stays below the largest one a beta distribution can have.
VARIANCE_ALLOWANCE = 0.99


@dataclass(frozen=True)
class LowRisk:
    """`window` is the number of samples a measurement was smoothed over; the weights are those of the limits' risk."""

    needs_load: ClassVar[bool] = True
    needs_pods: ClassVar[bool] = True
    needs_pod: ClassVar[bool] = True
    warms: ClassVar[bool] = False

    window: int = WINDOW
    cpu_weight: float = WEIGHT
    memory_weight: float = WEIGHT
    in_flight: str = "off"

    def score(self, fleet: Fleet, pod: Pod | None = None) -> Scores:
        """`terms` are the risks of cpu and memory, 0..1."""
        needs = demand(pod.shape) if pod else NOTHING
        risks = {name: self._risk(fleet, name, needs.requested[name], needs.limited[name]) for name in CPU_AND_MEMORY}
        raw = (1 - np.maximum(risks["cpu"], risks["memory"])) * 100
        if not (any(needs.requested.values()) or any(needs.limited.values())):
            raw = np.zeros(len(fleet.nodes))
        unknown = ~fleet.known
        exact = np.where(unknown, 0.0, raw)
        if unknown.any():
            raw = np.where(unknown, np.nan, raw)
            risks = {name: np.where(unknown, np.nan, risk) for name, risk in risks.items()}
        return Scores(exact, raw, unknown, risks)

    def _risk(self, fleet: Fleet, name: str, requested: int, limited: int) -> Floats:
        capacity, placed = fleet.allocatable(name), fleet.placed
        request = np.minimum(placed.requested(name) + requested, capacity)
        limit = placed.limited(name) + limited
        weight = self.cpu_weight if name == "cpu" else self.memory_weight
        return total_risk(weight, limit_risk(request, limit, capacity), self._load_risk(fleet, name))

    def _load_risk(self, fleet: Fleet, name: str) -> Floats:
        """Does not depend on the arriving pod, so it is kept until the placed ones change."""
        return fleet.placed.once((NAME, name, self), lambda: self._compute_load_risk(fleet, name))

    def _compute_load_risk(self, fleet: Fleet, name: str) -> Floats:
        load: NodeLoads = getattr(fleet, name)
        capacity, placed = fleet.allocatable(name), fleet.placed
        unit = 1.0 if name == "cpu" else 2.0**-20
        whole = capacity * unit
        extra = in_flight.since_window(fleet, name) * unit if self.in_flight == "full" else 0.0
        mu, sigma = mu_sigma(whole, extra, load.mean * whole / 100, load.std * whole / 100)
        request = np.minimum(placed.requested(name), capacity)
        risk = load_risk(mu, sigma * np.sqrt(self.window), request, placed.limited(name), capacity)
        return np.where(load.known, risk, 0.0)


def total_risk(weight: float, limit_risk: Floats, load_risk: Floats) -> Floats:
    """Both risks by their weights, 0..1."""
    return np.clip(weight * limit_risk + (1 - weight) * load_risk, 0.0, 1.0)


def limit_risk(request: Ints, limit: Ints, capacity: Ints) -> Floats:
    """By how much the limits exceed capacity, as a share of what they exceed the requests by."""
    over = limit > capacity
    if not over.any():
        return np.zeros(len(limit))
    return np.where(over, (limit - capacity) / np.where(over, limit - request, 1), 0.0)


def load_risk(mu: Floats, sigma: Floats, request: Ints, limit: Ints, capacity: Ints) -> Floats:
    """The probability that load exceeds what the pods on the node request; where they have limits, given those."""
    whole = np.where(capacity > 0, capacity, 1)
    sigma = np.minimum(sigma, np.sqrt(largest_variance(mu) * VARIANCE_ALLOWANCE))
    threshold = np.clip(request / whole, 0.0, 1.0)
    alpha, beta, fits = moments(mu, sigma)
    fits &= (mu != 0) & (sigma != 0)
    certain = (mu == 0) | ((sigma == 0) & (mu <= threshold))
    within = np.where(certain, 1.0, np.where(fits, below(threshold, alpha, beta), 0.0))

    bounded = (limit < capacity) & (request <= limit)
    share = limit / whole
    risk = np.where(bounded & fits, below(share, alpha, beta), 0.0)
    within = np.where(risk > 0, np.clip(within / np.where(risk > 0, risk, 1.0), 0.0, 1.0), within)
    return 1 - np.where(bounded & (share == 0), 1.0, within)


def largest_variance(mean: Floats) -> Floats:
    """That of a distribution over 0..1."""
    return np.where((mean > 0) & (mean < 1), mean * (1 - mean), 0.0)


def moments(mean: Floats, deviation: Floats) -> tuple[Floats, Floats, Bools]:
    """(alpha, beta) of the beta distribution with this mean and deviation, and whether there is one."""
    variance = (deviation * deviation + mean * mean) - mean * mean
    widest = mean * (1 - mean)
    fits = (mean >= 0) & (mean <= 1) & (variance >= 0) & (variance < widest)
    # Where upstream would divide by zero the sum is infinite, the distribution function NaN, and it counts as 0.
    usable = fits & (variance > 0)
    total = np.where(usable, widest / np.where(usable, variance, 1.0) - 1, np.inf)
    total = np.where(fits, np.maximum(total, 5e-324), 1.0)
    return np.where(fits, mean * total, 1.0), np.where(fits, (1 - mean) * total, 1.0), fits


def below(x: Floats, alpha: Floats, beta: Floats) -> Floats:
    """The probability of a value up to x, 0 where it is not defined."""
    from scipy.special import betainc  # the package takes long to import and only this strategy needs it

    value = betainc(alpha, beta, np.clip(x, 0.0, 1.0))
    defined = np.isfinite(alpha) & (x >= 0) & (x <= 1) & (value >= 0) & (value <= 1)
    return np.where(defined, value, 0.0)


def parse(given: Mapping[str, object]) -> LowRisk:
    """As upstream, a window of 0 or less means 5, and a weight outside 0..1 means 0.5."""
    import scipy.special  # noqa: F401 - takes long, and better now than when a pod waits

    keys = StrategyKeys(NAME, given)
    window = int(keys.number("smoothing_window_size", WINDOW, high=LONGEST))
    weights = keys.mapping("risk_limit_weights") or {}
    for name in weights:
        if name not in CPU_AND_MEMORY:
            raise keys.error("risk_limit_weights", dict(weights), "it has weights for cpu and memory alone")
    cpu, memory = (_weight(keys, weights, name) for name in CPU_AND_MEMORY)
    mode = keys.in_flight()
    keys.finish()
    return LowRisk(window if window > 0 else WINDOW, cpu, memory, mode)


def _weight(keys: StrategyKeys, weights: Mapping[str, object], name: str) -> float:
    weight = to_number(weights.get(name, WEIGHT))
    if weight is None:
        raise keys.error("risk_limit_weights", dict(weights), "weights are numbers from 0 to 1")
    return weight if 0 <= weight <= 1 else WEIGHT
